"""Shards that take their workers with them, and shards that are slow, on a real Dask cluster."""

import threading

import dask
import distributed
import pytest
from clusters import AwayAtFirst, Numbered, number_all, small_cluster, workers_that_offer
from patience import HANG

from zyda_flows.tasks.errors import BadInput, PoisonShards, Unavailable, all_but_poison
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ATTEMPTS, forget_attempts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.workers import window
from zyda_flows.tasks.workers.dask_cluster import ALLOWED_DEATHS, LOST, NEVER

pytestmark = pytest.mark.slow


@pytest.fixture
def workers(request):
    """Give the client of a cluster of so many processes, in which the task that waits dies with its worker."""
    with (
        dask.config.set({LOST: NEVER}),
        small_cluster(
            request.param, scheduler_kwargs={"allowed_failures": ALLOWED_DEATHS}, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_shard_that_kills_its_workers_is_named_when_all_others_are_finished(workers, tmp_path):
    folder = Folder(str(tmp_path))
    with pytest.raises(PoisonShards) as raised:
        workers.submit(number_all, folder.url, {3: -1, 5: window.DEATHS - 1}, pure=False).result()
    (fault,) = raised.value.faults
    assert fault.startswith(
        "numbers far: 5 workers died one after another during stage numbers, source far, shard 003; all others are"
    )
    assert len(folder.files("begun/3")) == window.DEATHS_IN_ALL
    assert len(folder.files("work/numbers")) == 11
    assert len(folder.files(ATTEMPTS)) == window.DEATHS_IN_ALL + window.DEATHS - 1
    for _ in range(2):  # the other one is that of a build beside this one
        forget_attempts(folder)
    assert not folder.files(ATTEMPTS)


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_shard_that_dies_beside_others_is_tried_once_more_when_they_are_done(workers, tmp_path):
    found = workers.submit(number_all, str(tmp_path), {3: window.DEATHS}, pure=False).result()
    assert [one.number for one in found] == [*range(12)]


def test_job_that_failed_otherwise_is_no_death(tmp_path):
    def all_away():
        return fan_out(Numbered.__call__, [AwayAtFirst(folder, "far", 1)], stage="numbers", source="far")

    folder = Folder(str(tmp_path))
    with workers_that_offer({"one": {}}) as client:
        for _ in range(window.DEATHS + 1):
            with pytest.raises(Unavailable):
                client.submit(all_away, pure=False).result()
    assert not folder.files(ATTEMPTS)


RELEASED, TRIED = threading.Event(), list[tuple[int, str]]()


def slow_at_first(item):
    TRIED.append((item, distributed.get_worker().name))
    if item == 7 and [name for number, name in TRIED if number == 7][1:] == []:
        assert RELEASED.wait(HANG)
        return "late"
    return item


def spread(count):
    return fan_out(slow_at_first, range(count), stage="slow", source=None)


def test_last_shard_is_tried_on_an_idle_worker_where_its_own_is_slow(monkeypatch):
    monkeypatch.setattr(window, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(window, "LOOK_SECONDS", 0.1)
    TRIED.clear()
    with workers_that_offer({"one": {}, "two": {}}) as client:
        try:
            assert client.submit(spread, 9, pure=False).result(HANG) == [*range(9)]
        finally:
            RELEASED.set()
    tries = [worker for item, worker in TRIED if item == 7]
    assert len(tries) == 2
    assert len({*tries}) == 2


def test_poison_is_said_last_with_what_else_was_wrong():
    def fails_with(error):
        def call():
            made.append(error)
            raise error

        return call

    made, bad = list[Exception](), BadInput("a bad row")
    with pytest.raises(PoisonShards) as raised:
        all_but_poison(
            [int, *map(fails_with, [PoisonShards("one", "two"), bad, RuntimeError("of these")]), int]
        )
    assert raised.value.faults == ("one", "two", "a bad row")
    made.clear()
    with pytest.raises(BadInput):
        all_but_poison(map(fails_with, [bad, PoisonShards("one")]))
    assert made == [bad]
    assert all_but_poison([int, str]) == [0, ""]
