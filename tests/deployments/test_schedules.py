"""Schedules of `zyda watch`: changed sources start builds automatically."""

import re
from datetime import timedelta

import pytest
from patience import wait_for
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.concurrency.sync import concurrency
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
from small_corpus import Corpus, build_here, kept_names, prose, rows, write_rows, zyda

from zyda_flows.deployments.registration import register
from zyda_flows.deployments.schedules import InvalidSchedule, duration, in_words
from zyda_flows.deployments.stack import load_stack
from zyda_flows.flows.command.cli import main
from zyda_flows.flows.server.exclusion import is_held, lock_name
from zyda_flows.flows.server.liveness import LEASE_SECONDS, runs_in
from zyda_flows.flows.watch import watch as watch_flow

pytestmark = [pytest.mark.slow, pytest.mark.early(1), pytest.mark.xdist_group("stack")]


@pytest.fixture(scope="module")
def watched_corpora(tmp_path_factory):
    """Return two corpora that are already built."""
    corpora = []
    for name in ("first", "second"):
        corpus = Corpus(tmp_path_factory.mktemp(name))
        corpus.recipe |= {"name": name, "sources": corpus.recipe["sources"][:1]}
        build_here(corpus.load())
        corpora.append(corpus)
    return corpora


def watch(stack, *arguments):
    process = zyda(
        "watch", *map(str, arguments), env={k: v for k, v in stack.items() if k != "PREFECT_API_URL"}
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def listed(stack):
    return sorted(re.findall(r"every +(\S+)  .*/([^/]+)/recipe.yaml", watch(stack, "--list")))


def has_build(corpus):
    with get_client(sync_client=True) as client:
        runs = runs_in(client, StateType.PENDING, StateType.RUNNING, StateType.COMPLETED, flows=["build"])
    return any(run.parameters["recipe"] == str(corpus.path) for run in runs)


def runs_to_come():
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("watch/watch")
        runs = client.get_scheduled_flow_runs_for_deployments([deployment.id])
        return len(runs)


def test_two_watched_recipes_are_built_automatically(stack, watched_corpora):
    for corpus in watched_corpora:
        write_rows(corpus.folder / "in/best-2.parquet", rows(newcomer=prose(corpus.recipe["name"])))
        assert not watch_flow(str(corpus.path)).is_settled  # the next look starts a build
    for corpus in watched_corpora:
        assert "watching every" in watch(stack, corpus.path, "--every", "20s")
    names = sorted(corpus.folder.name for corpus in watched_corpora)
    assert listed(stack) == [("20s", name) for name in names]
    try:
        wait_for(lambda: all(map(has_build, watched_corpora)), every=1)
    finally:
        for corpus in watched_corpora:  # a second call changes the interval
            watch(stack, corpus.path, "--every", "1h")
    assert listed(stack) == [("1h", name) for name in names]
    for corpus in watched_corpora:
        wait_for(lambda corpus=corpus: "newcomer" in kept_names(corpus.load()), every=1)


def test_registering_the_deployments_again_keeps_the_schedules(stack, watched_corpora):
    before = listed(stack)
    assert before
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", stack["PREFECT_HOME"])
        register(load_stack())
    assert listed(stack) == before
    wait_for(runs_to_come, every=1)
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("watch/watch")
        scheduled = client.get_scheduled_flow_runs_for_deployments([deployment.id])
    assert {run.name for run in scheduled} == {"recipe.yaml (scheduled)"}  # not a random name by Prefect


def test_stop_ends_the_schedule(stack, watched_corpora):
    first, second = watched_corpora
    assert "no longer watched" in watch(stack, first.path, "--stop")
    assert "was not watched" in watch(stack, first.path, "--stop")
    assert [name for _, name in listed(stack)] == [second.folder.name]
    watch(stack, second.path, "--stop")
    assert watch(stack, "--list") == "nothing is watched\n"
    assert runs_to_come() == 0


def test_simultaneous_second_look_skips_the_corpus(stack, corpus):
    """Otherwise the second look would see the listing of the first, and consider an unfinished upload finished."""
    path, name = corpus.write(), f"{lock_name(corpus.load())}-look"
    assert not is_held(name)
    with concurrency(name, lease_duration=LEASE_SECONDS):
        assert watch_flow(path) is None
    assert not watch_flow(path).is_settled
    assert watch_flow(path).is_settled


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("15m", 900), ("1h", 3600), ("2d", 172800)])
def test_durations_are_parsed_and_formatted(text, seconds):
    assert duration(text) == timedelta(seconds=seconds)
    assert in_words(duration(text)) == text


def test_too_short_intervals_raise():
    with pytest.raises(InvalidSchedule, match="--every 9s: expected 10s or more, because"):
        duration("9s")


@pytest.mark.parametrize("text", ["", "1", "h", "0s", "-1h", "1.5h", "1 h", "1w", "99999999d"])
def test_invalid_durations_raise(text):
    with pytest.raises(InvalidSchedule, match="30s, 15m, 1h or 1d"):
        duration(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{}", "--every", "soon"], r"--every soon: expected a whole number and a unit: 30s, 15m, 1h or 1d"),
        (["{}", "--every", "1h"], r"nothing runs that could watch; start it with: zyda up"),
        (["--list"], r"nothing runs that could watch; start it with: zyda up"),
        (["{}"], r"give a RECIPE with --every 1h or --stop; or --list alone"),
        (["{}", "--every", "1h", "--stop"], r"give a RECIPE with .*"),
        (["--list", "--stop"], r"give a RECIPE with .*"),
        (["--list", "--every", "1h"], r"give a RECIPE with .*"),
        (["--list", "--storage", "s3://elsewhere"], r"give a RECIPE with .*"),
        (["{}", "--list"], r"give a RECIPE with .*"),
        (["--stop"], r"give a RECIPE with .*"),
        (["nothing.yaml", "--every", "1h"], r".*nothing\.yaml: cannot be read: .*"),
    ],
)
def test_errors_of_watch_are_single_lines(corpus, tmp_path, arguments, message, monkeypatch, capsys):
    path = corpus.write()
    monkeypatch.setattr("sys.argv", ["zyda", "watch", *(argument.format(path) for argument in arguments)])
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}, restore_defaults={PREFECT_API_URL}):
        assert main() == 1
    assert re.fullmatch(f"zyda: {message}\n", capsys.readouterr().err)
