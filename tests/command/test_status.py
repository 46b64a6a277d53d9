"""Test the output of `zyda status` for a corpus and a server. The command changes no file."""

import json
import os
import re
import shutil
import socket

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from small_corpus import build_here, kept_names, prose, rows, write_rows, zyda

from zyda_flows.flows.command.status import corpus_lines, machine_lines
from zyda_flows.flows.server.exclusion import lock_name
from zyda_flows.flows.server.liveness import RunHeartbeat, with_heartbeat
from zyda_flows.tasks.errors import BadRecipe


def lines_of(corpus):
    return list(corpus_lines(str(corpus.path), None, None))


def files_and_times(folder):
    """Return the content and modification time of every file below a folder."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def without_server(terminal, monkeypatch):
    """Remove the address of a Prefect server from the settings of this process."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    home = terminal()["PREFECT_HOME"]
    with temporary_settings({PREFECT_HOME: home}, restore_defaults={PREFECT_API_URL}):
        yield


def test_status_of_a_corpus_that_was_never_built(corpus, without_server):
    corpus.write()
    _, *lines = lines_of(corpus)
    assert lines == [
        "nothing is published there yet; zyda build builds the corpus",
        "running builds: none",
    ]
    assert not (corpus.folder / "out").exists()


def test_status_of_an_unchanged_corpus(corpus, without_server):
    recipe = corpus.load()
    build_here(recipe)
    state_before = files_and_times(corpus.folder)
    place, published, *lines = lines_of(corpus)
    assert place == f"corpus {recipe.folder.url}/published"
    documents = len(kept_names(recipe))
    match = re.fullmatch(
        r"published on \S+ at \S+, \d+ (?:second|minute)s? ago: (\d+) documents, [\d,]+ tokens", published
    )
    assert match, published
    assert int(match[1]) == documents
    assert lines == [
        "sources: unchanged",
        "recipe: unchanged",
        "up to date: yes",
        "running builds: none",
    ]
    assert files_and_times(corpus.folder) == state_before


def test_status_lists_changes_since_the_build(corpus, without_server):
    build_here(corpus.load())
    write_rows(corpus.folder / "in/best-2.parquet", rows(new=prose("new")))
    write_rows(corpus.folder / "in/middle.jsonl.gz", rows(only=prose("only")))
    (corpus.folder / "in/best-1.parquet").unlink()
    corpus.write(shard_mib=128)
    state_before = files_and_times(corpus.folder)
    _, _, best, middle, recipe, todo, _ = lines_of(corpus)
    assert re.fullmatch(
        r"source best: files 1 added, 1 removed, for example file://\S+/best-2\.parquet|"
        r"source best: files 1 added, 1 removed, for example /\S+/best-2\.parquet",
        best,
    )
    assert middle.startswith("source middle: files 1 changed")
    assert recipe == "recipe: changed in shard_mib"
    assert todo == "up to date: no; start zyda build"
    assert files_and_times(corpus.folder) == state_before


def test_status_reports_a_changed_tokenizer(corpus, without_server, tmp_path):
    tokenizer = tmp_path / "tokenizer.json"
    shutil.copy(corpus.recipe["tokenizer"], tokenizer)
    corpus.recipe["tokenizer"] = str(tokenizer)
    build_here(corpus.load())
    trained = json.loads(tokenizer.read_text())
    trained["model"]["merges"] = trained["model"]["merges"][:-1]
    tokenizer.write_text(json.dumps(trained))
    assert any(
        "the tokenizer, a model, a list or this program has changed" in line for line in lines_of(corpus)
    )


def test_status_reports_a_missing_published_file(corpus, without_server):
    recipe = corpus.load()
    build_here(recipe)
    (corpus.folder / "out/small/published/README.md").unlink()
    assert "published files: 1 missing, 0 possibly changed" in lines_of(corpus)
    assert "up to date: no; start zyda build" in lines_of(corpus)


def test_status_reports_sources_that_cannot_be_listed(corpus, without_server):
    build_here(corpus.load())
    for path in corpus.folder.glob("in/best-*"):
        path.unlink()
    assert any(
        line.startswith("its sources cannot be listed: source best: no file") for line in lines_of(corpus)
    )


def test_status_of_an_invalid_recipe_raises(corpus, without_server):
    corpus.write(name="../x")
    with pytest.raises(BadRecipe):
        lines_of(corpus)


def test_status_without_a_server(without_server):
    assert list(machine_lines()) == ["nothing runs here; start it with: zyda up"]


def test_unreachable_server_is_one_line(tmp_path):
    completed = zyda(
        "status",
        env={**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"},
    )
    assert (completed.returncode, completed.stdout) == (1, "")
    assert completed.stderr == (
        "zyda: http://127.0.0.1:9/api: no Prefect server answers at this PREFECT_API_URL\n"
    )


def test_status_lists_running_finished_and_failed_builds(server, corpus):
    """The builds are: a running build, which then completes, and a failed build."""
    plan = corpus.load()
    outputs = list[list[str]]()

    @flow(name="build", flow_run_name="build living", persist_result=False)
    def succeed():
        with with_heartbeat(lock_name(plan)):
            outputs.extend([list(machine_lines()), lines_of(corpus)])

    @flow(name="build", flow_run_name="build failing", persist_result=False)
    def fail():
        raise ValueError("of no use\nat all")

    succeed()
    with pytest.raises(ValueError, match="of no use"):
        fail()
    server_lines, recipe_lines = outputs
    assert any(re.search(r"Running +for \d+ (second|minute)s? +build living$", line) for line in server_lines)
    assert re.fullmatch(r"running build: Running for \d+ (second|minute)s? build living", recipe_lines[-1])
    lines = list(machine_lines())
    assert any(re.search(r"Completed +\d+ (second|minute)s? ago +build living$", line) for line in lines)
    assert any(re.search(r"Failed .* build failing: .*of no use$", line) for line in lines)
    assert lines_of(corpus)[-1] == "running builds: none on this server"


def test_run_of_an_ended_process_is_reported(server):
    from prefect.states import Running

    @flow(name="build", flow_run_name="build gone", persist_result=False)
    def empty_flow():
        pass

    with get_client(sync_client=True) as client:
        run = client.create_flow_run(empty_flow, name="build gone", state=Running())
        heartbeat = RunHeartbeat(
            run=str(run.id), holds="nothing", host=socket.gethostname(), pid=2**22 - 1, birth="-"
        )
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=heartbeat.name, limit=1))
        try:
            assert any("build gone; its process has ended" in line for line in machine_lines())
            assert client.read_flow_run(run.id).state_name == "Running"
        finally:
            client.delete_flow_run(run.id)
            client.delete_global_concurrency_limit_by_name(heartbeat.name)
