"""Where a stage's shards run, on a real Dask cluster."""

import ast
import asyncio
import copy
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import dask
import distributed
import psutil
import pytest
from clusters import workers_that_offer
from disturbances import code_run_by, is_refused
from multidict import CIMultiDict, CIMultiDictProxy
from patience import HANG, wait_for
from yarl import URL

from zyda_flows.deployments.local import ServiceProcess, worker_commands
from zyda_flows.deployments.stack import Stack
from zyda_flows.tasks.errors import BadInput, BadRecipe, LostWorkers, Unavailable
from zyda_flows.tasks.log import LOG
from zyda_flows.tasks.stage.fan_out import WARNINGS, fan_out, has_gpus
from zyda_flows.tasks.stage.prefect_tasks import task
from zyda_flows.tasks.stage.runner import threads_for, threads_of_run
from zyda_flows.tasks.storage.stores import explain_errors
from zyda_flows.tasks.workers import dask_cluster, private_files, submission
from zyda_flows.tasks.workers import engine as engine_module
from zyda_flows.tasks.workers.dask_cluster import (
    ALLOWED_DEATHS,
    GPU_THREADS,
    SHARE,
    add_cpu_workers,
    close_cluster,
    local_cluster,
    memory_limits,
    open_cluster,
)
from zyda_flows.tasks.workers.engine import Engine, FollowUp, is_on_gpu, requested_engine
from zyda_flows.tasks.workers.events import BoundToRun, follow
from zyda_flows.tasks.workers.process import FORK, FORKED, METHOD, worker_start_method

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
        found = client.submit(spread_over_workers, engine, pure=False).result()
    assert found
    assert found <= expected


def test_worker_that_dies_again_and_again_is_always_started_again(monkeypatch):
    """Kill the one worker so that it is away whenever Dask looks whether a worker that was lost has come back."""
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with monkeypatch.context() as with_a_second:
        with_a_second.setattr(dask_cluster, "NEVER", "1 s")
        assert is_closed_by_kills(15)  # so it was with Dask's own fifteen
    assert not is_closed_by_kills(5)


def is_closed_by_kills(seconds):
    """Kill a cluster's one worker whenever it is there, for so long; return whether its nanny was closed."""
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


def test_build_that_must_have_gpus_says_that_there_are_none(monkeypatch):
    monkeypatch.setattr(submission, "no_workers_timeout", lambda: "2s")
    with workers_that_offer({"cpu": {}}) as client:
        for function in (spread_over_workers, has_gpus):
            with pytest.raises(
                LostWorkers, match="ZYDA_ENGINE=gpu, and for 2s no worker of the cluster has offered a GPU"
            ):
                client.submit(function, Engine.GPU, pure=False).result()
        assert not client.submit(has_gpus, Engine.AUTO, pure=False).result()


def test_build_that_must_have_gpus_waits_for_one_that_starts_again(monkeypatch):
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
        ALL_TOGETHER.wait(HANG)  # or there would never be so many at once
    time.sleep(0.02)
    with COUNTING:
        AT_ONCE[kind] -= 1


def spread_over_gpu(kind, gpus):
    fan_out(count_at_once, [kind] * 3 * GPU_THREADS, stage=kind, source=None, engine=Engine.GPU, gpus=gpus)


def test_shards_share_a_gpu_and_what_takes_it_whole_has_it_alone():
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
    return fan_out(ten_times, range(count), stage="where", source=None, then=then)


def test_what_follows_a_result_runs_on_gpus_and_its_fault_is_the_builds():
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
    return fan_out(make_at_once, range(count), stage="fast", source=None, then=then)


def test_items_wait_for_what_follows_them():
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
def test_no_gpu_is_used_that_is_hidden_or_not_wanted(environment, count, monkeypatch):
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


def test_cluster_of_this_machine_without_a_gpu_says_so_where_one_must_be(monkeypatch):
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


def test_build_whose_gpus_are_gone_says_so():
    with dask.config.set({"distributed.scheduler.no-workers-timeout": "2s"}):
        offered = {"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}
        with workers_that_offer(offered) as client:
            running = client.submit(spread_slowly, 10_000, pure=False, resources={"CPU": 1})
            assert BEGUN.wait(HANG)
            gone = [
                worker
                for worker, about in client.scheduler_info()["workers"].items()
                if about["name"] == "gpu"
            ]
            client.retire_workers(gone, close_workers=True)
            with pytest.raises(
                LostWorkers, match="keys: for 2 s, no worker of the cluster has offered a GPU; start some, or"
            ):
                running.result()


def is_on_gpu_here(_):
    return is_on_gpu()


def asked_on_workers(engine):
    return set(fan_out(is_on_gpu_here, range(4), stage="where", source=None, engine=engine))


def test_gpu_without_its_libraries_is_said_or_an_error(monkeypatch, tmp_path):
    (tmp_path / "broken_library.py").write_text("raise RuntimeError('CUDA driver version is insufficient')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for libraries, fault in (
        (("broken_library",), r"cannot import broken_library: .*CUDA driver version is insufficient"),
        (("cudf", "no_such_library"), r"has no .*no_such_library"),
    ):
        said_without(libraries, fault, monkeypatch)
    assert not is_on_gpu()


def said_without(libraries, fault, monkeypatch):
    monkeypatch.setattr(engine_module, "LIBRARIES", libraries)
    for remembered in (engine_module.missing_libraries, engine_module.warn_once):
        remembered.cache_clear()
    with workers_that_offer({"cpu": {"CPU": 1}, "gpu": {"GPU": 1}}) as client:
        assert client.submit(asked_on_workers, Engine.AUTO, pure=False).result() == {False}
        with pytest.raises(LostWorkers, match=rf"offers a GPU and {fault}; install"):
            client.submit(asked_on_workers, Engine.GPU, pure=False).result()
        monkeypatch.setattr(engine_module, "LIBRARIES", ())
        engine_module.missing_libraries.cache_clear()
        assert client.submit(asked_on_workers, Engine.AUTO, pure=False).result() == {True}
        assert client.submit(asked_on_workers, Engine.CPU, pure=False).result() == {False}
    engine_module.missing_libraries.cache_clear()


def test_engine_that_is_none_is_a_fault_before_any_work(monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", "tpu")
    with pytest.raises(BadRecipe, match="ZYDA_ENGINE: expected one of auto, cpu, gpu, got 'tpu'"):
        requested_engine()
    monkeypatch.setenv("ZYDA_ENGINE", "GPU ")
    assert requested_engine() is Engine.GPU
    monkeypatch.delenv("ZYDA_ENGINE")
    assert requested_engine() is Engine.AUTO


def warned_of(item):
    LOG.warning("of %s", item)


def warn_for(run):
    with distributed.worker_client() as client:
        client.submit(BoundToRun(warned_of, run), run, pure=False).result()


def test_what_workers_say_reaches_the_run_that_it_is_about_and_no_other():
    heard = {"one": [], "two": []}
    worker = {"cls": distributed.Worker, "options": {"nthreads": 2}}
    options = {"dashboard_address": "127.0.0.1:0", "port": 0, "host": "127.0.0.1"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    with (
        distributed.SpecCluster(workers={"one": worker}, scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        for run, found in heard.items():
            with distributed.Client(cluster) as follower:
                follow(SimpleNamespace(client=follower), WARNINGS, run, found.append)
                for told in sorted(heard, key=run.__eq__):  # what is the other's passes first
                    client.submit(warn_for, told, pure=False).result()
                wait_for(found.__len__)
    assert heard == {"one": ["of one"], "two": ["of two"]}


def ask_a_server_that_is_busy(_):
    """Fail as fsspec does at a web server: with headers in the cause, which no pickle can hold."""
    headers = CIMultiDictProxy(CIMultiDict())
    request = aiohttp.RequestInfo(URL("http://far"), "GET", headers, URL("http://far"))
    with explain_errors("http://far"):
        raise aiohttp.ClientResponseError(request, (), status=503, message="busy", headers=headers)


def test_failure_of_a_web_server_reaches_the_build_as_what_it_is():
    """Or nothing would be tried again, and the build would end with a traceback."""
    options = {"dashboard_address": "127.0.0.1:0", "port": 0, "host": "127.0.0.1"}
    with (
        distributed.SpecCluster(
            workers={"one": {"cls": distributed.Worker}},
            scheduler={"cls": distributed.Scheduler, "options": options},
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for function in (
            BoundToRun(ask_a_server_that_is_busy, "run"),
            task(name="ask")(ask_a_server_that_is_busy).fn,
        ):
            with pytest.raises(Unavailable, match="http://far: ClientResponseError: 503"):
                client.submit(function, None, pure=False).result()


def visible_devices():
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def test_machine_with_gpus_has_a_worker_for_every_other_core_too(monkeypatch):
    """A plain worker that offers a GPU stands for the one of dask-cuda's cluster, which wants a real one."""
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
        found = client.submit(spread_over_workers, True, pure=False).result()
        assert found == {0}


@pytest.mark.parametrize(("gpus", "others", "threads"), [(1, 15, 1), (8, 88, 2), (2, 0, 1), (2, -1, 1)])
def test_workers_of_a_machine_with_gpus_share_its_memory(gpus, others, threads):
    limits = memory_limits(gpus, others, threads)
    whole = gpus * limits["GPU"] + max(0, others) * limits["CPU"]
    assert 0.99 * dask_cluster.MEMORY_LIMIT < whole <= dask_cluster.MEMORY_LIMIT
    assert limits["GPU"] >= limits["CPU"]


def test_build_that_waits_for_a_store_has_two_threads_for_each_core(corpus, monkeypatch):
    far = [{"name": "far", "files": "s3://somewhere/*.parquet"}]
    assert threads_for(corpus.load()) == 1
    assert threads_for(corpus.load(storage="gs://corpora")) == 2
    assert threads_for(corpus.load(sources=far)) == 2
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with open_cluster(2) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(1)
        assert list(client.nthreads().values()) == [2]


def test_stack_has_workers_for_gpus_where_there_are_any_and_hides_them_from_the_others():
    stack = Stack(
        parts={"scheduler": ServiceProcess(name="scheduler", pid=1, birth="", address="tcp://127.0.0.1:1")}
    )
    assert list(worker_commands(stack, 3, 0)) == ["dask-workers", "worker"]
    with_gpus = worker_commands(stack, 3, 2)
    assert list(with_gpus) == ["dask-workers", "gpu-workers", "worker"]
    assert with_gpus["dask-workers"][1] == {**FORKED, "CUDA_VISIBLE_DEVICES": ""}
    cpu_command, _ = with_gpus["dask-workers"]
    assert cpu_command[cpu_command.index("--resources") + 1] == "CPU=1"
    limits = memory_limits(2, 3, 1)
    assert cpu_command[cpu_command.index("--memory-limit") + 1] == str(limits["CPU"])
    command, environment = with_gpus["gpu-workers"]
    assert command[:3] == ["dask", "cuda", "worker"]
    assert command[command.index("--resources") + 1] == "GPU=1"
    assert command[command.index("--memory-limit") + 1] == str(limits["GPU"])
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert environment == {}


def test_cluster_of_a_build_takes_no_work_from_who_has_not_its_certificate(monkeypatch):
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with open_cluster() as cluster:
        with distributed.Client(cluster) as client:
            assert client.submit(sum, [1, 2]).result() == 3
        address = cluster.scheduler_address
        for place, files in [(address, ["own"]), (address, []), (address.replace("tls://", "tcp://"), [])]:
            assert is_refused(code_run_by(place, *files))


def test_what_workers_keep_on_disk_is_in_a_folder_of_this_user(monkeypatch, tmp_path):
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    monkeypatch.setattr(private_files, "gettempdir", lambda: str(tmp_path))
    with local_cluster() as cluster, distributed.Client(cluster) as client:
        (folder,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
    (own,) = tmp_path.iterdir()
    assert own in Path(folder).parents
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


@pytest.mark.parametrize("made", ["open to all", "a link", "a file"])
def test_folder_that_somebody_else_may_have_made_is_not_used(monkeypatch, tmp_path, made):
    """Modules are imported from it."""
    monkeypatch.setattr(private_files, "gettempdir", lambda: str(tmp_path))
    trap = tmp_path / f"zyda-dask-{os.getuid()}"
    if made == "open to all":
        trap.mkdir()
        trap.chmod(0o777)
    elif made == "a link":
        (tmp_path / "elsewhere").mkdir()
        trap.symlink_to(tmp_path / "elsewhere")
    else:
        trap.touch()
    folder = Path(private_files.private_folder())
    assert folder != trap
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()


def test_cluster_leaves_dasks_settings_as_they_were(monkeypatch):
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    before = copy.deepcopy(dask.config.config)
    with open_cluster() as cluster:
        assert cluster.scheduler.allowed_failures == ALLOWED_DEATHS
        assert cluster.scheduler.no_workers_timeout == 300
    assert dask.config.config == before


WHAT_IS_FORKED = """
import importlib, sys, threading
from zyda_flows.tasks.workers.process import IMPORTED
for name in IMPORTED:
    importlib.import_module(name)
print(threading.active_count(), *({"duckdb", "sqlglot", "torch", "transformers", "matplotlib"} & sys.modules.keys()))
"""


def test_process_that_workers_are_forked_from_has_one_thread_and_nothing_that_starts_some():
    said = subprocess.run([sys.executable, "-c", WHAT_IS_FORKED], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["1"]


BLOCKED = """
import dask, psutil
from pathlib import Path
from zyda_flows.tasks.workers.dask_cluster import local_cluster
dask.system.CPU_COUNT = 1
with local_cluster():
    for child in psutil.Process().children():
        if "multiprocessing.forkserver" in " ".join(child.cmdline()):
            print(Path(f"/proc/{child.pid}/status").read_text().partition("SigBlk:")[2].split()[0])
"""


@pytest.mark.skipif(FORK != "forkserver", reason="workers are forked on Linux alone")
def test_process_that_workers_are_forked_from_hears_no_interrupt():
    """Python ignores it there late. Before, it would end with a traceback, and workers would be waited for."""
    said = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    (blocked,) = said.stdout.split()
    assert int(blocked, 16) >> (signal.SIGINT - 1) & 1


def test_workers_of_a_machine_with_gpus_are_not_forked():
    with worker_start_method(gpus=1):
        assert dask.config.get(METHOD) == "spawn"
    with worker_start_method(gpus=0):
        assert dask.config.get(METHOD) == FORK


def keys_on_this_worker(_):
    return [str(key) for key in distributed.get_worker().state.tasks]


def test_shards_are_known_to_dask_by_their_stage(monkeypatch):
    """By which it learns how long they take, and so which to move to an idle worker."""
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with open_cluster() as cluster, distributed.Client(cluster) as client:
        ask = partial(fan_out, keys_on_this_worker, range(2), stage="edges", source=None)
        found = {key for keys in client.submit(ask, pure=False).result() for key in keys}
    assert any(
        distributed.utils.key_split(ast.literal_eval(key)) == "edges shard" for key in found if "(" in key
    )


def test_worker_that_does_not_end_is_killed_and_the_build_goes_on(monkeypatch):
    async def never(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with local_cluster(close_seconds=1) as cluster:
        worker = psutil.Process(cluster.workers[0].process.pid)
        monkeypatch.setattr(distributed.Nanny, "close", never)
    worker.wait()


def test_run_from_the_dashboard_has_the_threads_that_one_from_the_terminal_has(corpus, monkeypatch):
    """The worker that runs a deployment says which run it is by the environment."""
    asked = {"recipe": corpus.write(storage="gs://corpora"), "storage": None, "sample": None}
    monkeypatch.setattr("zyda_flows.tasks.stage.runner.flow_run", SimpleNamespace(parameters=asked))
    assert threads_of_run() == threads_for(corpus.load(storage="gs://corpora")) == 2
    monkeypatch.setattr(
        "zyda_flows.tasks.stage.runner.flow_run", SimpleNamespace(parameters={"recipe": "nothing.yaml"})
    )
    assert threads_of_run() == 1


UNGUARDED = """
from zyda_flows.tasks.workers.dask_cluster import local_cluster
with local_cluster():
    pass
"""


def test_script_that_starts_workers_as_it_is_imported_is_told_so(tmp_path):
    """Each worker would run it again, and so on."""
    path = tmp_path / "script.py"
    path.write_text(UNGUARDED)
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert 'under `if __name__ == "__main__":`' in ended.stderr
