"""Short jobs share a task of Dask: sizes of batches, and jobs that fail, die or take long within a batch."""

import heapq
import random
import time
from dataclasses import dataclass

import distributed
import pytest
from clusters import Numbered, small_cluster, workers_that_offer
from distributed.protocol import pickle

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.workers import window
from zyda_flows.tasks.workers.attempts import Attempt, PoisonItem, TooManyDeaths
from zyda_flows.tasks.workers.batches import (
    MOST_ITEMS,
    batch_size,
    expected_tasks,
    first_in_flight,
    in_messages,
    seconds_of_batch,
)
from zyda_flows.tasks.workers.dask_cluster import ALLOWED_DEATHS


def sizes_of(items, seconds, threads):
    """Return the sizes of all tasks: single items first, then those of `batch_size`."""
    sizes = [1] * min(items, first_in_flight(threads))
    waiting = items - len(sizes)
    while waiting:
        sizes.append(min(waiting, batch_size(waiting, seconds, threads)))
        waiting -= sizes[-1]
    return sizes


def ends_of(sizes, seconds, threads):
    """Return when each thread ends if each takes the next task when it is free; seconds: of an item."""
    ends = [0.0] * threads
    for size in sizes:
        heapq.heapreplace(ends, ends[0] + size * seconds)
    return ends


@pytest.mark.parametrize("threads", [1, 16, 1000])
@pytest.mark.parametrize("seconds", [0.0001, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("items", [1, 15, 3000, 40_000])
def test_sizes_keep_all_threads_busy_until_the_end(items, seconds, threads):
    sizes = sizes_of(items, seconds, threads)
    assert expected_tasks(items, seconds, threads) == pytest.approx(len(sizes), rel=0.15, abs=2)
    limit = seconds_of_batch(threads)
    assert max(sizes) <= max(1, min(limit / seconds, MOST_ITEMS))
    ends = ends_of(sizes, seconds, threads)
    ideal = max(seconds, items * seconds / threads)
    assert max(ends) <= 1.25 * ideal + max(0.2, seconds)
    if seconds <= 0.01 and items == 40_000 and threads <= 16:
        assert len(sizes) < items / 10


def test_small_builds_have_a_task_for_each_job():
    assert sizes_of(items=16, seconds=0.001, threads=2) == [1] * 16
    assert sizes_of(items=300, seconds=0.2, threads=208) == [1] * 300


def test_large_items_are_sent_separately():
    assert batch_size(10_000, 0.001, 2, size=20_000) == 1
    assert batch_size(10_000, 0.001, 2, size=2_000) == 16
    contents = [b"x" * size for size in (10, 3 << 20, 10, 20, (2 << 20) - 20)]
    assert [contents[some] for some in in_messages(contents)] == [
        contents[:1],
        contents[1:2],
        contents[2:4],
        contents[4:],
    ]


CALLED = list[int]()


def call(item):
    """Return the double of an item; 3 fails, 5 killed its workers."""
    CALLED.append(item)
    if item == 3:
        raise BadInput("source a, file b, row 3: no text")
    if item == 5:
        raise TooManyDeaths(PoisonItem("shard 5", 3))
    return 2 * item


def outcomes_of(items, seconds=60.0):
    CALLED.clear()
    return Attempt(call, 3, seconds)(pickle.dumps(items))


def test_failing_item_does_not_stop_the_others_of_its_batch():
    with pytest.raises(BadInput, match="source a, file b, row 3"):
        outcomes_of([1, 3, 4])
    assert CALLED == [1, 3, 4]


def test_batch_ends_after_an_item_that_killed_its_workers():
    outcomes = outcomes_of([1, 5, 6])
    assert [outcome.result for outcome in outcomes] == [2, PoisonItem("shard 5", 3)]
    assert CALLED == [1, 5]


def test_batch_that_takes_too_long_begins_no_further_item():
    assert [outcome.result for outcome in outcomes_of([1, 2, 4], seconds=0.0)] == [2]
    assert outcomes_of([]) == []


def test_each_item_is_measured_by_itself():
    CALLED.clear()
    outcomes = Attempt(busy, 3, 60.0)(pickle.dumps([0.0, 0.2]))
    assert outcomes[1].spent.cpu >= 0.15 > outcomes[0].spent.cpu
    assert outcomes[1].seconds >= 0.2 > outcomes[0].seconds


def busy(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


MADE = list[tuple[int, float]]()


def nap(item):
    number, seconds = item
    time.sleep(seconds)
    MADE.append(item)
    if number < 0:
        raise BadInput(f"source a, file b, row {-number}")
    return number


def napping(items):
    return fan_out(nap, items, stage="nap", source=None)


def tasks_of_naps(scheduler):
    return sum(
        prefix.state_counts["memory"]
        for name, prefix in scheduler.task_prefixes.items()
        if "nap shard" in name
    )


def test_many_short_jobs_take_few_tasks():
    """Nine in ten are short. The others take longer than a batch may, so that the rest of their batch waits again."""
    chance = random.Random(1)
    items = [(i, 0.3 if chance.random() < 0.01 else 0.002) for i in range(1000)]
    MADE.clear()
    with workers_that_offer({"one": {}, "two": {}}) as client, pytest.MonkeyPatch.context() as patch:
        patch.setattr("zyda_flows.tasks.workers.batches.BATCH_SECONDS", 0.1)
        assert client.submit(napping, items, pure=False).result() == [*range(1000)]
        tasks = tasks_of_naps(client.cluster.scheduler)
    assert sorted(MADE) == items, "each job runs once"
    assert tasks < 200


def test_error_of_a_job_in_a_batch_names_the_job():
    items = [(i if i != 400 else -400, 0.001) for i in range(500)]
    MADE.clear()
    with (
        workers_that_offer({"one": {}, "two": {}}) as client,
        pytest.raises(BadInput, match="source a, file b, row 400"),
    ):
        client.submit(napping, items, pure=False).result()
    assert len(MADE) == len({*MADE}), "no job is repeated"


@dataclass(frozen=True)
class FailsOnce(Numbered):
    """A job that fails until a file exists."""

    def make(self):
        made = f"begun/{self.number}-{time.monotonic_ns()}"
        self.folder.write(made, b"")
        if self.number == 40 and not self.folder.exists("repaired"):
            raise BadInput("source far, file 40, row 7: no text")
        return super().make()


def failing_once(url, count):
    jobs = [FailsOnce(Folder(url), "far", i) for i in range(count)]
    return fan_out(Numbered.__call__, jobs, stage="numbers", source="far")


def test_second_attempt_makes_only_jobs_that_were_not_finished(tmp_path):
    folder = Folder(str(tmp_path))
    with workers_that_offer({"one": {}, "two": {}}) as client:
        with pytest.raises(BadInput, match="source far, file 40, row 7"):
            client.submit(failing_once, folder.url, 100, pure=False).result()
        folder.write("repaired", b"")
        results = client.submit(failing_once, folder.url, 100, pure=False).result()
    assert [result.number for result in results] == [*range(100)]
    begun = [path.rpartition("/")[2].partition("-")[0] for path in folder.files("begun") if "-" in path]
    assert sorted(begun, key=int) == sorted([*map(str, range(100)), "40"], key=int)


@pytest.mark.slow
def test_death_of_a_worker_repeats_only_the_job_that_ran(tmp_path):
    folder = Folder(str(tmp_path))
    options = {"scheduler_kwargs": {"allowed_failures": ALLOWED_DEATHS}, "silence_logs": 50}
    with small_cluster(2, **options) as cluster, distributed.Client(cluster) as client:
        results = client.submit(number_many, folder.url, {30: 1, 61: window.DEATHS - 1}, pure=False).result()
    assert [result.number for result in results] == [*range(80)]
    times = {number: len(folder.files(f"begun/{number}")) for number in range(80)}
    assert times == dict.fromkeys(range(80), 1) | {30: 2, 61: window.DEATHS}


def number_many(url, deaths):
    jobs = [Numbered(Folder(url), "far", i, deaths.get(i, 0)) for i in range(80)]
    return fan_out(Numbered.__call__, jobs, stage="numbers", source="far")
