"""The build flow with a real Prefect server and Dask cluster, killed workers and interrupted builds."""

import contextlib
import hashlib
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
from damages import SEMANTIC
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
from token_judges import random_judge
from tokenizers import Tokenizer, models

from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.dashboard.run_artifacts import show_ledger
from zyda_flows.flows.server.exclusion import is_held
from zyda_flows.flows.server.liveness import runs_in
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.early(3)]

OF_JUDGE = {"keep": "keep_deep", "control": "control_deep"}  # stages that the judge `deep` has
STAGES = tuple(OF_JUDGE.get(name, name) for name in pipeline.names())
OF_JOBS = {
    "propose_against": "propose",
    "confirm_against": "confirm",
}  # folders of stages with the jobs of others


@pytest.fixture(scope="module")
def judged_inputs(tmp_path_factory, compiled):
    """Return a corpus of several shards in each source, with a quality model and all options of a round."""
    corpus = corpus_of_two_sources(tmp_path_factory.mktemp("inputs"), 2)
    other = another(tmp_path_factory.mktemp("other"))
    model = str(random_judge(corpus.folder / "own"))
    corpus.recipe["dedup"] = [
        {"verify": {"containment": 0.8}, "against": other},
        {"semantic": {"model": model, "cosine": 0.96, "remove": True, "facts": "ignore"}, "against": other},
    ]
    deep = {
        "name": "deep",
        "model": str(QUALITY),
        "max_tokens": 64,
        "only_if": "stars < 4",
        "keep": "deep_pred <> 'Low' OR stars = 3",
    }
    own = {"name": "own", "model": model}
    corpus.recipe["sources"][-1]["judges"] = [own, deep]
    corpus.recipe["publish_vectors"] = "own"
    corpus.recipe["sources"][-1]["classify"] = {
        "model": str(QUALITY),
        "keep": ["High", "Medium"],
        "max_tokens": 64,
    }
    denied = corpus.folder / "denied.txt"
    denied.write_text('{"column": "name", "value": "last_alone"}')
    corpus.recipe["deny"] = str(denied)
    corpus.recipe["passages"] = [{"length": 20}]
    labels = corpus.folder / "labels.jsonl"
    labels.write_text(json.dumps({"sha256": hashlib.sha256(b"").hexdigest(), "grade": 3}))
    corpus.recipe["sources"][-1]["join"] = [{"from": str(labels), "on": "sha256", "take": ["grade"]}]
    corpus.recipe["bucket"] = {"of": ["stars"], "count": 4, "keep": "bucket < 4"}
    corpus.recipe["agreement"] = ["stars"]
    questions = corpus.folder / "set.jsonl"
    questions.write_text(json.dumps({"question": prose("asked", 12), "answer": prose("answered", 3)}))
    corpus.recipe["documents"] = [
        *corpus.recipe.get("documents", ()), {"decontaminate": {"sets": {"set": str(questions)}}},
    ]  # fmt: skip
    return corpus


@pytest.fixture(scope="module")
def judged_undisturbed(judged_inputs):
    """Return the digests of the published files of an undisturbed build of the corpus."""
    return published_undisturbed(judged_inputs)


@pytest.fixture
def judged(judged_inputs, tmp_path):
    """Return the same corpus with another output folder for each test."""
    return judged_inputs.elsewhere(tmp_path)


def task_states(count):
    """Return the state of every task run of the last flow run, by name of the task run."""
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


def test_flow_equals_a_build_without_prefect_and_the_second_run_is_cached(judged, judged_undisturbed, build):
    ledger = build(judged.write())
    recipe = judged.load()
    assert contents(recipe) == judged_undisturbed
    files = set(recipe.folder.files(""))
    assert build(judged.write()) == ledger
    assert set(recipe.folder.files("")) == files
    steps = pipeline.visible_steps(recipe)
    expected = {f"{step.name} {source}" for step in steps for source in step.sources}
    expected |= {step.name for step in steps if not step.sources}
    assert {
        "classify_own worst",
        "classify_deep worst",
        "control_deep worst",
        "keep_deep worst",
        "classify worst",
        "filter worst",
    } == {
        name for name in expected if name.startswith(("classify", "control", "keep_deep", "filter"))
    }  # sources without a model or filter have no task
    expected |= {"other corpora", "corpus", "note", "accounts", "report"}
    states = task_states(len(expected))  # the server receives states with a delay
    assert set(states) == expected
    not_cached = {name for name, state in states.items() if state != "Cached"}
    assert not_cached == {"prepare", "other corpora", "corpus", "note", "accounts", "report"}


@pytest.mark.parametrize("workers", [1, 3])
def test_corpus_does_not_depend_on_the_number_of_workers(larger, undisturbed, server, workers):
    from zyda_flows.flows.build import build
    from zyda_flows.tasks.stage.runner import task_runner

    with (
        small_cluster(workers) as cluster,
        dask.config.set({"scheduler-address": cluster.scheduler_address}),
    ):
        build.with_options(task_runner=task_runner())(larger.write())
    assert contents(larger.load()) == undisturbed


def test_changed_prefect_cache_and_missing_manifests_are_ignored(larger, undisturbed, build):
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
    # Prefect's cache has all stages now, but their results are missing when they are read.
    folder.delete("work/manifests")
    folder.delete("published")
    with get_client(sync_client=True) as client:
        before = len(runs_in(client, *StateType, flows=["build"]))
        build(larger.write())
        runs = runs_in(client, *StateType, flows=["build"])
        assert len(runs) == before + 1  # a single run repeats all stages
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


def test_source_without_documents_raises_also_with_max_loss(larger, build):
    write_rows(larger.folder / "in/empty.jsonl", [{"text": None}])
    larger.recipe["sources"][-1] = {
        "name": "worst", "files": [f"{larger.folder}/in/empty.jsonl"], "on_bad_rows": "set_aside"
    }  # fmt: skip
    with pytest.raises(ValueError, match="source worst: no document in any of its files"):
        build(larger.write(max_loss=0.9))


def test_ledger_is_read_again_if_the_store_is_unavailable(corpus, server, monkeypatch):
    calls, recipe = [], corpus.load()
    ledger, open_corpus = build_here(recipe), PublishedCorpus.of

    def away_at_first(recipe):
        calls.append(recipe)
        if len(calls) == 1:
            raise Unavailable("the store is away")
        return open_corpus(recipe)

    monkeypatch.setattr(PublishedCorpus, "of", away_at_first)
    flow(lambda: show_ledger(recipe, ledger), name="shows")()
    assert len(calls) == 2


def wait_until_logged(text):
    """Wait until the log of the last flow run, which the server receives with a delay, contains a text."""
    with get_client(sync_client=True) as client:
        last = client.read_flow_runs(sort="START_TIME_DESC", limit=1)[0]
        log_filter = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[last.id]))
        wait_for(
            lambda: any(text in line.message for line in client.read_logs(log_filter, limit=200)), every=0.5
        )


def test_slow_tokenizer_is_logged_in_the_run(corpus, build):
    path = str(corpus.folder / "words.json")
    Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?")).save(path)
    build(corpus.write(tokenizer=path))
    wait_until_logged(f"the tokens of {path} are counted slowly, by tokenizers: its model is WordLevel")


def runs_of(corpus):
    with get_client(sync_client=True) as client:
        runs = runs_in(client, *StateType, flows=["build"])
    return [run for run in runs if run.parameters["recipe"] == str(corpus.path)]


def workers_of(process):
    """Return the living workers of a build. Killed workers are still among its children.

    Workers are forks of a child of the build: they have its command line.
    """
    workers = []
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            workers += [fork for fork in child.children() if fork.cmdline() == child.cmdline()]
    return workers


def has_begun(folder, stage):
    if stage == "control_deep":  # its answers are beside the answers for other documents
        return any("/control-" in path for path in folder.files("work/classify"))
    if stage == "published":
        return folder.exists("published")
    return bool(folder.files(f"work/{OF_JOBS.get(stage, stage)}"))


def test_build_with_a_killed_worker_in_each_stage_equals_an_undisturbed_build(
    judged, judged_undisturbed, server
):
    recipe = judged.load()
    process = start_build(judged.write(), using(server))
    # `decisions` has a single file and takes almost no time. The semantic round is the second.
    waiting = [stage for stage in STAGES if stage not in {"decisions", *SEMANTIC}]
    end_of_round = waiting.index("audit") + 1
    waiting[end_of_round:end_of_round] = [stage for stage in STAGES if stage in SEMANTIC]
    while process.poll() is None:
        if waiting and has_begun(recipe.folder, waiting[0]):
            for worker in workers_of(process)[:1]:
                with contextlib.suppress(
                    psutil.NoSuchProcess
                ):  # the worker has ended since: try another worker
                    worker.send_signal(signal.SIGKILL)
                    waiting.pop(0)
        time.sleep(0.05)
    errors = process.communicate()[1]
    assert process.returncode == 0, errors[-3000:]
    assert not waiting
    assert contents(recipe) == judged_undisturbed
    page = last_page_of(recipe)
    assert page.startswith("# small: complete")
    table = page.partition("## Stages")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][
        2:
    ]  # without the two lines of the header
    assert len(rows) >= len(STAGES)
    unfinished = [row for row in rows if "100 %" not in row]
    assert not unfinished  # also stages whose reports were lost with a worker


def last_page_of(recipe):
    with get_client(sync_client=True) as client:
        key_filter = ArtifactFilter(key=ArtifactFilterKey(any_=[artifact_key(recipe, "build")]))
        return client.read_artifacts(artifact_filter=key_filter, sort="CREATED_DESC", limit=1)[0].data


def test_repeatedly_interrupted_build_equals_an_undisturbed_build(larger, undisturbed, server):
    recipe = larger.load()
    chance = random.Random(11)
    path = larger.write()
    for stage in ("ingest", "publish"):
        with start_build(path, using(server)) as process:
            wait_for(lambda stage=stage: has_begun(recipe.folder, stage), process=process)
            time.sleep(chance.uniform(0, 0.5))
            os.killpg(process.pid, signal.SIGKILL)
    finished = zyda("build", path, env=using(server))
    assert finished.returncode == 0, finished.stderr
    assert last_page_of(recipe).startswith("# small: complete")
    assert {run.state_name for run in runs_of(larger)} == {"Completed", "Crashed"}  # none is Running
    assert contents(recipe) == undisturbed


def test_cluster_on_this_machine_listens_on_the_loopback_address():
    from zyda_flows.tasks.workers.dask_cluster import open_cluster

    with open_cluster():
        this_process = psutil.Process()
        family = [this_process, *this_process.children(recursive=True)]
        connections = [c for member in family for c in member.net_connections("inet")]
        assert {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def test_first_locks_of_a_corpus_can_be_read_simultaneously(server):
    with ThreadPoolExecutor(8) as threads:  # threads need this context, which has the server
        futures = [threads.submit(copy_context().run, is_held, "zyda-first") for _ in range(8)]
    assert not any(future.result() for future in futures)
