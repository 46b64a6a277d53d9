"""Shards that kill their workers, and slow shards, on a real Dask cluster."""

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
    """Yield the client of a cluster of worker processes. A waiting task ends with its worker."""
    with (
        dask.config.set({LOST: NEVER}),
        small_cluster(
            request.param, scheduler_kwargs={"allowed_failures": ALLOWED_DEATHS}, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_shard_that_kills_its_workers_is_reported_after_all_others(workers, tmp_path):
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
    for _ in range(2):  # the second call is for a simultaneous build
        forget_attempts(folder)
    assert not folder.files(ATTEMPTS)


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_shard_that_dies_with_others_is_tried_again_alone(workers, tmp_path):
    results = workers.submit(number_all, str(tmp_path), {3: window.DEATHS}, pure=False).result()
    assert [result.number for result in results] == [*range(12)]


def test_failure_without_a_death_is_not_counted(tmp_path):
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
    number, is_slow = item
    TRIED.append((number, distributed.get_worker().name))
    if is_slow and [tried for tried, _ in TRIED].count(number) == 1:
        assert RELEASED.wait(HANG)
        return "late"
    return number


def spread(count, slow):
    items = [(number, number == slow) for number in range(count)]
    return fan_out(slow_at_first, items, stage="slow", source=None)


@pytest.mark.parametrize(("count", "slow"), [(9, 7), (300, 280)])  # alone in its task, and before others
def test_slow_last_shard_is_tried_on_an_idle_worker(monkeypatch, count, slow):
    monkeypatch.setattr(window, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(window, "LOOK_SECONDS", 0.1)
    TRIED.clear()
    RELEASED.clear()
    with workers_that_offer({"one": {}, "two": {}}) as client:
        try:
            assert client.submit(spread, count, slow, pure=False).result(HANG) == [*range(count)]
        finally:
            RELEASED.set()
    tries = [worker for number, worker in TRIED if number == slow]
    assert len(tries) == 2
    assert len({*tries}) == 2


def test_poison_is_raised_last_with_other_faults():
    def fails_with(error):
        def call():
            called.append(error)
            raise error

        return call

    called, bad = list[Exception](), BadInput("a bad row")
    with pytest.raises(PoisonShards) as raised:
        all_but_poison(
            [int, *map(fails_with, [PoisonShards("one", "two"), bad, RuntimeError("of these")]), int]
        )
    assert raised.value.faults == ("one", "two", "a bad row")
    called.clear()
    with pytest.raises(BadInput):
        all_but_poison(map(fails_with, [bad, PoisonShards("one")]))
    assert called == [bad]
    assert all_but_poison([int, str]) == [0, ""]
