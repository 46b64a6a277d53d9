"""The flow itself: a real Prefect server, a real Dask cluster, killed workers, interrupted builds."""

import contextlib
import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial

import dask
import psutil
import pytest
from clusters import small_cluster
from disturbances import start_build, task_runs_of, using
from patience import wait_for
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey, LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import StateType
from small_corpus import (
    QUALITY,
    another,
    build_here,
    contents,
    corpus_of_two_sources,
    prose,
    published_undisturbed,
    write_rows,
    zyda,
)
from tokenizers import Tokenizer, models

from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.dashboard.run_artifacts import show_ledger
from zyda_flows.flows.server.exclusion import is_held
from zyda_flows.flows.server.liveness import runs_in
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.early(3)]

STAGES = pipeline.names()


@pytest.fixture(scope="module")
def judged_inputs(tmp_path_factory, compiled):
    """Give a corpus of several shards in each source, with a model and all that a round can do."""
    corpus = corpus_of_two_sources(tmp_path_factory.mktemp("inputs"), 6)
    other = another(tmp_path_factory.mktemp("other"))
    corpus.recipe["dedup"] = {"verify": {"containment": 0.8}, "against": other}
    corpus.recipe["sources"][-1]["classify"] = {
        "model": str(QUALITY),
        "keep": ["High", "Medium"],
        "max_tokens": 64,
    }
    denied = corpus.folder / "denied.txt"
    denied.write_text('{"column": "name", "value": "last_alone"}')
    corpus.recipe["deny"] = str(denied)
    questions = corpus.folder / "set.jsonl"
    questions.write_text(json.dumps({"question": prose("asked", 12), "answer": prose("answered", 3)}))
    corpus.recipe["documents"] = [
        *corpus.recipe.get("documents", ()), {"decontaminate": {"sets": {"set": str(questions)}}},
    ]  # fmt: skip
    return corpus


@pytest.fixture(scope="module")
def judged_undisturbed(judged_inputs):
    """Give the digests of the files that a build of it publishes."""
    return published_undisturbed(judged_inputs)


@pytest.fixture
def judged(judged_inputs, tmp_path):
    """Give the same corpus, to be built in a folder of the test's own."""
    return judged_inputs.elsewhere(tmp_path)


def task_states(count):
    """Return the state of every task run of the last flow run, by the task run's name."""
    with get_client(sync_client=True) as client:
        last = client.read_flow_runs(sort="START_TIME_DESC", limit=1)[0]
        runs = []

        def are_over():
            runs[:] = task_runs_of(client, last.id)
            return len(runs) >= count and all(run.state and run.state.is_final() for run in runs)

        wait_for(are_over, every=0.5)
    return {run.name: run.state_name for run in runs}


def how_often(client, run, name):
    return [task.name for task in task_runs_of(client, run.id)].count(name)


def test_flow_gives_the_corpus_of_its_functions_and_the_second_run_is_all_cached(
    judged, judged_undisturbed, build
):
    ledger = build(judged.write())
    recipe = judged.load()
    assert contents(recipe) == judged_undisturbed
    files = set(recipe.folder.files(""))
    assert build(judged.write()) == ledger
    assert set(recipe.folder.files("")) == files
    steps = pipeline.visible_steps(recipe)
    expected = {f"{step.name} {source}" for step in steps for source in step.sources}
    expected |= {step.name for step in steps if not step.sources}
    assert {"classify worst", "filter worst"} == {
        name for name in expected if name.startswith(("classify", "filter"))
    }  # no task for a source of which nothing is asked
    expected |= {"other corpora", "corpus", "note", "accounts", "report"}
    states = task_states(len(expected))  # the server hears of task runs a moment after they end
    assert set(states) == expected
    not_cached = {name for name, state in states.items() if state != "Cached"}
    assert not_cached == {"prepare", "other corpora", "corpus", "note", "accounts", "report"}


@pytest.mark.parametrize("workers", [1, 3])
def test_corpus_does_not_depend_on_how_many_workers_make_it(larger, undisturbed, server, workers):
    from zyda_flows.flows.build import build
    from zyda_flows.tasks.stage.runner import task_runner

    with (
        small_cluster(workers) as cluster,
        dask.config.set({"scheduler-address": cluster.scheduler_address}),
    ):
        build.with_options(task_runner=task_runner())(larger.write())
    assert contents(larger.load()) == undisturbed


def test_what_prefect_remembers_counts_for_nothing_where_it_is_changed_or_its_manifest_is_gone(
    larger, undisturbed, build
):
    build(larger.write())
    recipe = larger.load()
    folder = recipe.folder
    chance = random.Random(5)
    for path in folder.files("work/prefect"):
        content = bytearray(folder.read(path))
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        folder.write(path, bytes(content))
    for stage in ("minhash", "removals"):
        folder.delete(f"work/{stage}")
    for path in folder.files("work/manifests"):
        if "minhash" in path or "removals" in path:
            folder.delete(path)
    folder.delete("published")
    build(larger.write())
    assert contents(recipe) == undisturbed
    # Now Prefect remembers all stages, and each would be found to be gone only when it is read.
    folder.delete("work/manifests")
    folder.delete("published")
    with get_client(sync_client=True) as client:
        before = len(runs_in(client, *StateType, flows=["build"]))
        build(larger.write())
        runs = runs_in(client, *StateType, flows=["build"])
        assert len(runs) == before + 1  # all of them are done again in one go
        last = max(runs, key=lambda run: run.start_time)
        prepared = partial(how_often, client, last, "prepare")
        wait_for(prepared, every=0.5)
        assert prepared() == 1
    assert contents(recipe) == undisturbed


def test_fault_in_a_source_fails_the_run_with_source_file_and_row(larger, build):
    write_rows(larger.folder / "in/worst-x.jsonl", [{"text": 1}])
    larger.recipe["sources"][-1]["files"] = ["in/worst-x.jsonl", *larger.recipe["sources"][-1]["files"]]
    with pytest.raises(
        ValueError, match=r"source worst, file .*worst-x\.jsonl, row 0 \(line 1\): 'text' is a number"
    ):
        build(larger.write())


def test_source_without_documents_is_told_also_where_losses_are_looked_at(larger, build):
    write_rows(larger.folder / "in/empty.jsonl", [{"text": None}])
    larger.recipe["sources"][-1] = {
        "name": "worst", "files": [f"{larger.folder}/in/empty.jsonl"], "on_bad_rows": "set_aside"
    }  # fmt: skip
    with pytest.raises(ValueError, match="source worst: no document in any of its files"):
        build(larger.write(max_loss=0.9))


def test_store_that_is_away_when_the_ledger_is_shown_is_asked_again(corpus, server, monkeypatch):
    asked, recipe = [], corpus.load()
    ledger, open_corpus = build_here(recipe), PublishedCorpus.of

    def away_at_first(recipe):
        asked.append(recipe)
        if len(asked) == 1:
            raise Unavailable("the store is away")
        return open_corpus(recipe)

    monkeypatch.setattr(PublishedCorpus, "of", away_at_first)
    flow(lambda: show_ledger(recipe, ledger), name="shows")()
    assert len(asked) == 2


def wait_until_logged(text):
    """Wait until the last flow run's log, of which the server is told a moment later, has a text."""
    with get_client(sync_client=True) as client:
        last = client.read_flow_runs(sort="START_TIME_DESC", limit=1)[0]
        of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[last.id]))
        wait_for(lambda: any(text in line.message for line in client.read_logs(of_run, limit=200)), every=0.5)


def test_log_of_the_run_says_that_a_tokenizer_is_counted_by_its_own_library(corpus, build):
    path = str(corpus.folder / "words.json")
    Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?")).save(path)
    build(corpus.write(tokenizer=path))
    wait_until_logged(f"the tokens of {path} are counted slowly, by tokenizers: its model is WordLevel")


def runs_of(corpus):
    with get_client(sync_client=True) as client:
        found = runs_in(client, *StateType, flows=["build"])
    return [run for run in found if run.parameters["recipe"] == str(corpus.path)]


def workers_of(process):
    """Return the living workers of a build; one that was just killed is still among its children."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [child] if is_forked(child.parent()) or "spawn_main" in started_as(child) else []
    return found


def started_as(process):
    return " ".join(process.cmdline())


def is_forked(parent):
    return parent is not None and "forkserver" in started_as(parent)


def has_begun(folder, stage):
    return bool(folder.files(f"work/{stage}")) if stage != "published" else folder.exists("published")


def test_worker_killed_in_the_middle_of_every_stage_changes_nothing(judged, judged_undisturbed, server):
    recipe = judged.load()
    process = start_build(judged.write(), using(server))
    waiting = [stage for stage in STAGES if stage != "decisions"]  # one file, and as good as at once
    while process.poll() is None:
        if waiting and has_begun(recipe.folder, waiting[0]):
            for worker in workers_of(process)[:1]:
                with contextlib.suppress(
                    psutil.NoSuchProcess
                ):  # it ended by itself meanwhile: another one then
                    worker.send_signal(signal.SIGKILL)
                    waiting.pop(0)
        time.sleep(0.02)
    said = process.communicate()[1]
    assert process.returncode == 0, said[-3000:]
    assert not waiting
    assert contents(recipe) == judged_undisturbed
    page = last_page_of(recipe)
    assert page.startswith("# small: complete")
    table = page.partition("## Stages")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]  # below head and rule
    assert len(rows) >= len(STAGES)
    unfinished = [row for row in rows if "100 %" not in row]
    assert not unfinished  # also of stages whose reports died with a worker


def last_page_of(recipe):
    with get_client(sync_client=True) as client:
        its_key = ArtifactFilter(key=ArtifactFilterKey(any_=[artifact_key(recipe, "build")]))
        return client.read_artifacts(artifact_filter=its_key, sort="CREATED_DESC", limit=1)[0].data


def test_build_interrupted_again_and_again_ends_like_one_that_was_not(larger, undisturbed, server):
    recipe = larger.load()
    chance = random.Random(11)
    path = larger.write()
    for stage in ("ingest", "publish"):
        with start_build(path, using(server)) as process:
            wait_for(lambda stage=stage: has_begun(recipe.folder, stage), process=process)
            time.sleep(chance.uniform(0, 0.5))
            os.killpg(process.pid, signal.SIGKILL)
    done = zyda("build", path, env=using(server))
    assert done.returncode == 0, done.stderr
    assert last_page_of(recipe).startswith("# small: complete")
    assert {run.state_name for run in runs_of(larger)} == {"Completed", "Crashed"}  # and none Running
    assert contents(recipe) == undisturbed


def test_cluster_on_this_machine_listens_on_the_loopback_address():
    from zyda_flows.tasks.workers.dask_cluster import open_cluster

    with open_cluster():
        me = psutil.Process()
        family = [me, *me.children(recursive=True)]
        connections = [c for member in family for c in member.net_connections("inet")]
        assert {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def test_first_builds_may_ask_for_their_corpus_in_the_same_moment(server):
    with ThreadPoolExecutor(8) as threads:  # each in this context, or it would not know of the server
        asked = [threads.submit(copy_context().run, is_held, "zyda-first") for _ in range(8)]
    assert not any(one.result() for one in asked)
