"""The workers that run the shards of a stage, on a real Dask cluster."""

import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import aiohttp
import dask
import distributed
import pytest
from clusters import workers_that_offer
from multidict import CIMultiDict, CIMultiDictProxy
from patience import HANG, wait_for
from yarl import URL

from zyda_flows.tasks.errors import BadInput, BadRecipe, LostWorkers, Unavailable
from zyda_flows.tasks.log import LOG
from zyda_flows.tasks.stage.fan_out import WARNINGS, fan_out, has_gpus
from zyda_flows.tasks.stage.prefect_tasks import task
from zyda_flows.tasks.storage.stores import explain_errors
from zyda_flows.tasks.workers import dask_cluster, submission
from zyda_flows.tasks.workers import engine as engine_module
from zyda_flows.tasks.workers.dask_cluster import (
    GPU_THREADS,
    SHARE,
    add_cpu_workers,
    close_cluster,
    open_cluster,
)
from zyda_flows.tasks.workers.engine import Engine, FollowUp, is_on_gpu, requested_engine
from zyda_flows.tasks.workers.events import CallInRun, follow

pytestmark = pytest.mark.slow


def name_of_worker(_):
    return distributed.get_worker().name


def spread_over_workers(engine):
    return set(fan_out(name_of_worker, range(8), stage="where", source=None, engine=engine))


@pytest.mark.parametrize(
    ("offered", "engine", "expected"),
    [
        ({"cpu": {}, "gpu": {"GPU": 1}}, Engine.AUTO, {"gpu"}),
        ({"cpu": {}, "gpu": {"GPU": 1}}, Engine.GPU, {"gpu"}),
        ({"cpu": {}, "gpu": {"GPU": 1}}, Engine.CPU, {"cpu", "gpu"}),
        ({"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}, Engine.CPU, {"cpu"}),
        ({"cpu": {}, "other": {}}, Engine.AUTO, {"cpu", "other"}),
    ],
)
def test_shards_run_on_the_workers_of_their_engine(offered, engine, expected):
    with workers_that_offer(offered) as client:
        workers = client.submit(spread_over_workers, engine, pure=False).result()
    assert workers
    assert workers <= expected


def test_repeatedly_killed_worker_is_always_restarted(monkeypatch):
    """The only worker is killed so often that it is missing at each check by Dask for lost workers."""
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with monkeypatch.context() as patch:
        patch.setattr(dask_cluster, "NEVER", "1 s")
        assert is_closed_by_kills(15)  # as with Dask's default of 15 seconds
    assert not is_closed_by_kills(5)


def is_closed_by_kills(seconds):
    """Kill the only worker of a cluster whenever it is running, for `seconds`. Return whether its nanny was closed."""
    cluster = open_cluster()
    try:
        with distributed.Client(cluster) as client:
            return kill_until_closed(cluster, client, seconds)
    finally:
        close_cluster(cluster, 5)


def kill_until_closed(cluster, client, seconds):
    (nanny,), until = cluster.workers.values(), time.monotonic() + seconds
    while time.monotonic() < until:
        process = nanny.process
        if nanny.status is distributed.Status.closed:
            return True
        if process is not None and process.pid and client.scheduler_info()["workers"]:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.1)
    return False


def test_engine_gpu_without_gpus_raises(monkeypatch):
    monkeypatch.setattr(submission, "no_workers_timeout", lambda: "2s")
    with workers_that_offer({"cpu": {}}) as client:
        for function in (spread_over_workers, has_gpus):
            with pytest.raises(
                LostWorkers, match="ZYDA_ENGINE=gpu, and for 2s no worker of the cluster has offered a GPU"
            ):
                client.submit(function, Engine.GPU, pure=False).result()
        assert not client.submit(has_gpus, Engine.AUTO, pure=False).result()


def test_engine_gpu_waits_for_a_starting_gpu_worker(monkeypatch):
    offered, looks = submission.offered_by_workers, []
    monkeypatch.setattr(
        submission, "offered_by_workers", lambda client: looks.append(client) or offered(client)
    )
    with workers_that_offer({"cpu": {"CPU": 1}}) as client:
        waiting = client.submit(has_gpus, Engine.GPU, pure=False)
        wait_for(lambda: len(looks) > 2)
        assert not waiting.done()
        options = {"nthreads": 1, "resources": {"GPU": 1}}
        client.cluster.worker_spec["gpu"] = {"cls": distributed.Worker, "options": options}
        client.cluster.sync(client.cluster._correct_state)
        assert waiting.result()


AT_ONCE = Counter[str]()
MOST_AT_ONCE = Counter[str]()
COUNTING = threading.Lock()
ALL_TOGETHER = threading.Barrier(GPU_THREADS)


def count_at_once(kind):
    with COUNTING:
        AT_ONCE[kind] += 1
        MOST_AT_ONCE[kind] = max(MOST_AT_ONCE[kind], AT_ONCE[kind])
    if kind == "shards":
        ALL_TOGETHER.wait(HANG)  # so that all of them run at the same time
    time.sleep(0.02)
    with COUNTING:
        AT_ONCE[kind] -= 1


def spread_over_gpu(kind, gpus):
    fan_out(count_at_once, [kind] * 3 * GPU_THREADS, stage=kind, source=None, engine=Engine.GPU, gpus=gpus)


def test_shards_share_a_gpu_unless_they_need_all_of_it():
    MOST_AT_ONCE.clear()
    with workers_that_offer({"gpu": {"GPU": 1}}, nthreads=GPU_THREADS + 1) as client:
        for kind, gpus in (("shards", SHARE), ("edges", 1)):
            client.submit(spread_over_gpu, kind, gpus, pure=False).result()
    assert {"shards": GPU_THREADS, "edges": 1} == MOST_AT_ONCE


FOLLOWED = list[tuple[str, int]]()


def ten_times(number):
    return 10 * number


def next_two(result):
    return result + 1, result + 2


def note_where(item):
    FOLLOWED.append((distributed.get_worker().name, item))
    if item == 52:
        raise BadInput("it cannot be sketched")


def spread_and_follow(count):
    then = FollowUp(Engine.AUTO, next_two, note_where)
    return fan_out(ten_times, range(count), stage="where", source=None, follow_up=then)


def test_follow_up_runs_on_gpus_and_its_error_is_raised():
    FOLLOWED.clear()
    with workers_that_offer({"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}) as client:
        assert client.submit(spread_and_follow, 5, pure=False).result() == [0, 10, 20, 30, 40]
        assert sorted(FOLLOWED) == [("gpu", 10 * i + k) for i in range(5) for k in (1, 2)]
        with pytest.raises(BadInput, match="cannot be sketched"):
            client.submit(spread_and_follow, 6, pure=False).result()


MADE, DONE, OPEN = list[int](), list[int](), list[int]()


def make_at_once(number):
    MADE.append(number)
    OPEN.append(len(MADE) - len(DONE))
    return number


def only_this(result):
    return (result,)


def follow_slowly(number):
    time.sleep(0.01)
    DONE.append(number)


def spread_faster_than_gpus(count):
    then = FollowUp(Engine.AUTO, only_this, follow_slowly)
    return fan_out(make_at_once, range(count), stage="fast", source=None, follow_up=then)


def test_items_wait_for_their_follow_ups():
    with workers_that_offer({"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}) as client:
        assert client.submit(spread_faster_than_gpus, 100, pure=False).result() == [*range(100)]
    assert sorted(DONE) == [*range(100)]
    window = 16
    assert max(OPEN) <= 2 * window + 2


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({}, 2),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, 0),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, 0),
        ({"ZYDA_ENGINE": "cpu"}, 0),
        ({"ZYDA_ENGINE": ""}, 2),
    ],
)
def test_hidden_and_disabled_gpus_are_not_counted(environment, count, monkeypatch):
    pynvml = SimpleNamespace(nvmlInit=lambda: None, NVMLError=OSError)
    for name, module in (("pynvml", pynvml), ("dask_cuda", None), ("dask_cuda.utils", None)):
        monkeypatch.setitem(sys.modules, name, module or SimpleNamespace(get_n_gpus=lambda: 2))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(dask_cluster, "LIBRARIES", ())
    assert dask_cluster.gpu_count() == count
    monkeypatch.setattr(dask_cluster, "LIBRARIES", ("no_such_library",))
    assert dask_cluster.gpu_count() == 0


def test_local_cluster_with_engine_gpu_and_no_gpu_raises(monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", "gpu")
    monkeypatch.setattr(dask_cluster, "gpu_count", lambda: 0)
    with pytest.raises(LostWorkers, match="ZYDA_ENGINE=gpu needs a GPU"):
        open_cluster()


BEGUN = threading.Event()


def begin_on_gpu(_):
    BEGUN.set()
    time.sleep(0.1)


def spread_slowly(count):
    return fan_out(begin_on_gpu, range(count), stage="keys", source=None, engine=Engine.AUTO)


def test_build_that_lost_its_gpu_workers_raises():
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "2s"}):
        offered = {"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}
        with workers_that_offer(offered) as client:
            running = client.submit(spread_slowly, 10_000, pure=False, resources={"CPU": 1})
            assert BEGUN.wait(HANG)
            gpu_workers = [
                worker
                for worker, about in client.scheduler_info()["workers"].items()
                if about["name"] == "gpu"
            ]
            client.retire_workers(gpu_workers, close_workers=True)
            with pytest.raises(
                LostWorkers, match="keys: for 2 s, no worker of the cluster has offered a GPU; start some, or"
            ):
                running.result()


def is_on_gpu_here(_):
    return is_on_gpu()


def engines_on_workers(engine):
    return set(fan_out(is_on_gpu_here, range(4), stage="where", source=None, engine=engine))


def test_gpu_worker_without_libraries_raises_with_engine_gpu(monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('CUDA driver version is insufficient')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for libraries, fault in (
        (("broken_library",), r"cannot import broken_library: .*CUDA driver version is insufficient"),
        (("cudf", "no_such_library"), r"has no .*no_such_library"),
    ):
        expect_fault_without(libraries, fault, monkeypatch)
    assert not is_on_gpu()


def expect_fault_without(libraries, fault, monkeypatch):
    monkeypatch.setattr(engine_module, "LIBRARIES", libraries)
    for function in (engine_module.missing_libraries, engine_module.warn_once):
        function.cache_clear()
    with workers_that_offer({"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}) as client:
        assert client.submit(engines_on_workers, Engine.AUTO, pure=False).result() == {False}
        with pytest.raises(LostWorkers, match=rf"offers a GPU and {fault}; install"):
            client.submit(engines_on_workers, Engine.GPU, pure=False).result()
        monkeypatch.setattr(engine_module, "LIBRARIES", ())
        engine_module.missing_libraries.cache_clear()
        assert client.submit(engines_on_workers, Engine.AUTO, pure=False).result() == {True}
        assert client.submit(engines_on_workers, Engine.CPU, pure=False).result() == {False}
    engine_module.missing_libraries.cache_clear()


def test_unknown_engine_raises(monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", "tpu")
    with pytest.raises(BadRecipe, match="ZYDA_ENGINE: expected one of auto, cpu, gpu, got 'tpu'"):
        requested_engine()
    monkeypatch.setenv("ZYDA_ENGINE", "GPU ")
    assert requested_engine() is Engine.GPU
    monkeypatch.delenv("ZYDA_ENGINE")
    assert requested_engine() is Engine.AUTO


def warn_about(item):
    LOG.warning("of %s", item)


def warn_for(run):
    with distributed.worker_client() as client:
        client.submit(CallInRun(warn_about, run), run, pure=False).result()


def test_messages_of_workers_reach_only_their_run():
    messages = {"one": [], "two": []}
    worker = {"cls": distributed.Worker, "options": {"nthreads": 2}}
    options = {"dashboard_address": "127.0.0.1:0", "port": 0, "host": "127.0.0.1"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with (
        distributed.SpecCluster(workers={"one": worker}, scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        for run, received in messages.items():
            with distributed.Client(cluster) as follower:
                follow(SimpleNamespace(client=follower), WARNINGS, run, received.append)
                for other_run in sorted(messages, key=run.__eq__):  # the messages of the other run come first
                    client.submit(warn_for, other_run, pure=False).result()
                wait_for(received.__len__)
    assert messages == {"one": ["of one"], "two": ["of two"]}


def ask_a_server_that_is_busy(_):
    """Fail like fsspec at a web server: with headers in the cause, which cannot be pickled."""
    headers = CIMultiDictProxy(CIMultiDict())
    request = aiohttp.RequestInfo(URL("http://far"), "GET", headers, URL("http://far"))
    with explain_errors("http://far"):
        raise aiohttp.ClientResponseError(request, (), status=503, message="busy", headers=headers)


def test_failure_of_a_web_server_on_a_worker_raises_unavailable():
    """Otherwise the build would not retry, and end with a traceback."""
    options = {"dashboard_address": "127.0.0.1:0", "port": 0, "host": "127.0.0.1"}
    with (
        distributed.SpecCluster(
            workers={"one": {"cls": distributed.Worker}},
            scheduler={"cls": distributed.Scheduler, "options": options},
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for function in (
            CallInRun(ask_a_server_that_is_busy, "run"),
            task(name="ask")(ask_a_server_that_is_busy).fn,
        ):
            with pytest.raises(Unavailable, match="http://far: ClientResponseError: 503"):
                client.submit(function, None, pure=False).result()


def visible_devices():
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def test_machine_with_gpus_has_workers_for_the_other_cores(monkeypatch):
    """A plain worker that offers a GPU replaces the worker of dask-cuda, which needs a real GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}),  # with this environment
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            resources={"GPU": 1},
            dashboard_address="127.0.0.1:0",
            protocol="tls://",
            security=distributed.Security.temporary(),
        ) as cluster,
        distributed.Client(add_cpu_workers(cluster, 1)) as client,
    ):
        client.wait_for_workers(2)
        gpu_worker, cpu_worker = sorted(
            client.run(visible_devices, workers=None).values(), key=str, reverse=True
        )
        assert (gpu_worker, cpu_worker) == (None, "")
        workers = client.submit(spread_over_workers, True, pure=False).result()
        assert workers == {0}
