"""`zyda status`: what it says of a corpus and of a server, and that it changes nothing."""

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


def said_of(corpus):
    return list(corpus_lines(str(corpus.path), None, None))


def state_of(folder):
    """Return every file below a folder with its content and its time."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def alone(terminal, monkeypatch):
    """Have no server named or running, for this process."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    home = terminal()["PREFECT_HOME"]
    with temporary_settings({PREFECT_HOME: home}, restore_defaults={PREFECT_API_URL}):
        yield


def test_corpus_that_was_never_built(corpus, alone):
    corpus.write()
    _, *lines = said_of(corpus)
    assert lines == [
        "nothing is published there yet; zyda build builds the corpus",
        "running builds: none",
    ]
    assert not (corpus.folder / "out").exists()


def test_corpus_as_it_was_built(corpus, alone):
    recipe = corpus.load()
    build_here(recipe)
    before = state_of(corpus.folder)
    place, published, *lines = said_of(corpus)
    assert place == f"corpus {recipe.folder.url}/published"
    documents = len(kept_names(recipe))
    found = re.fullmatch(
        r"published on \S+ at \S+, \d+ (?:second|minute)s? ago: (\d+) documents, [\d,]+ tokens", published
    )
    assert found, published
    assert int(found[1]) == documents
    assert lines == [
        "sources: unchanged",
        "recipe: unchanged",
        "up to date: yes",
        "running builds: none",
    ]
    assert state_of(corpus.folder) == before


def test_what_has_changed_since(corpus, alone):
    build_here(corpus.load())
    write_rows(corpus.folder / "in/best-2.parquet", rows(new=prose("new")))
    write_rows(corpus.folder / "in/middle.jsonl.gz", rows(only=prose("only")))
    (corpus.folder / "in/best-1.parquet").unlink()
    corpus.write(shard_mib=128)
    before = state_of(corpus.folder)
    _, _, best, middle, recipe, todo, _ = said_of(corpus)
    assert re.fullmatch(
        r"source best: files 1 added, 1 removed, for example file://\S+/best-2\.parquet|"
        r"source best: files 1 added, 1 removed, for example /\S+/best-2\.parquet",
        best,
    )
    assert middle.startswith("source middle: files 1 changed")
    assert recipe == "recipe: changed in shard_mib"
    assert todo == "up to date: no; start zyda build"
    assert state_of(corpus.folder) == before


def test_tokenizer_that_was_trained_again(corpus, alone, tmp_path):
    tokenizer = tmp_path / "tokenizer.json"
    shutil.copy(corpus.recipe["tokenizer"], tokenizer)
    corpus.recipe["tokenizer"] = str(tokenizer)
    build_here(corpus.load())
    trained = json.loads(tokenizer.read_text())
    trained["model"]["merges"] = trained["model"]["merges"][:-1]
    tokenizer.write_text(json.dumps(trained))
    assert any(
        "the tokenizer, a model, a list or this program has changed" in line for line in said_of(corpus)
    )


def test_published_file_that_somebody_deleted(corpus, alone):
    recipe = corpus.load()
    build_here(recipe)
    (corpus.folder / "out/small/published/README.md").unlink()
    assert "published files: 1 missing, 0 possibly changed" in said_of(corpus)
    assert "up to date: no; start zyda build" in said_of(corpus)


def test_sources_that_cannot_be_listed(corpus, alone):
    build_here(corpus.load())
    for path in corpus.folder.glob("in/best-*"):
        path.unlink()
    assert any(
        line.startswith("its sources cannot be listed: source best: no file") for line in said_of(corpus)
    )


def test_recipe_that_cannot_be_read(corpus, alone):
    corpus.write(name="../x")
    with pytest.raises(BadRecipe):
        said_of(corpus)


def test_nothing_runs(alone):
    assert list(machine_lines()) == ["nothing runs here; start it with: zyda up"]


def test_server_that_does_not_answer_is_one_line(tmp_path):
    said = zyda(
        "status",
        env={**os.environ, "PREFECT_HOME": str(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"},
    )
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == (
        "zyda: http://127.0.0.1:9/api: no Prefect server answers at this PREFECT_API_URL\n"
    )


def test_runs_of_a_server(server, corpus):
    """A build that runs, one whose process is gone, and one that failed."""
    plan = corpus.load()
    seen = list[list[str]]()

    @flow(name="build", flow_run_name="build living", persist_result=False)
    def lives_now():
        with with_heartbeat(lock_name(plan)):
            seen.extend([list(machine_lines()), said_of(corpus)])

    @flow(name="build", flow_run_name="build failing", persist_result=False)
    def fails():
        raise ValueError("of no use\nat all")

    lives_now()
    with pytest.raises(ValueError, match="of no use"):
        fails()
    of_server, of_recipe = seen
    assert any(re.search(r"Running +for \d+ (second|minute)s? +build living$", line) for line in of_server)
    assert re.fullmatch(r"running build: Running for \d+ (second|minute)s? build living", of_recipe[-1])
    lines = list(machine_lines())
    assert any(re.search(r"Completed +\d+ (second|minute)s? ago +build living$", line) for line in lines)
    assert any(re.search(r"Failed .* build failing: .*of no use$", line) for line in lines)
    assert said_of(corpus)[-1] == "running builds: none on this server"


def test_run_whose_process_is_gone_is_said_to_be(server):
    from prefect.states import Running

    @flow(name="build", flow_run_name="build gone", persist_result=False)
    def gone():
        pass

    with get_client(sync_client=True) as client:
        run = client.create_flow_run(gone, name="build gone", state=Running())
        life = RunHeartbeat(
            run=str(run.id), holds="nothing", host=socket.gethostname(), pid=2**22 - 1, birth="-"
        )
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=life.name, limit=1))
        try:
            assert any("build gone; its process has ended" in line for line in machine_lines())
            assert client.read_flow_run(run.id).state_name == "Running"
        finally:
            client.delete_flow_run(run.id)
            client.delete_global_concurrency_limit_by_name(life.name)
