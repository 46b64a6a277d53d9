"""The processes of workers of a local cluster: memory, threads, private files, and forks."""

import ast
import asyncio
import copy
import os
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed
import psutil
import pytest
from disturbances import code_run_by, is_refused

from zyda_flows.deployments.local import ServiceProcess, worker_commands
from zyda_flows.deployments.stack import Stack
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.runner import threads_for, threads_of_run
from zyda_flows.tasks.workers import dask_cluster, private_files
from zyda_flows.tasks.workers.dask_cluster import (
    ALLOWED_DEATHS,
    local_cluster,
    memory_limits,
    open_cluster,
)
from zyda_flows.tasks.workers.process import FORK, FORKED, METHOD, worker_start_method

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("gpus", "others", "threads"), [(1, 15, 1), (8, 88, 2), (2, 0, 1), (2, -1, 1)])
def test_workers_of_a_machine_with_gpus_share_its_memory(gpus, others, threads):
    limits = memory_limits(gpus, others, threads)
    total = gpus * limits["GPU"] + max(0, others) * limits["CPU"]
    assert 0.99 * dask_cluster.MEMORY_LIMIT < total <= dask_cluster.MEMORY_LIMIT
    assert limits["GPU"] >= limits["CPU"]


def test_build_that_waits_for_a_store_has_two_threads_for_each_core(corpus, monkeypatch):
    remote_sources = [{"name": "far", "files": "s3://somewhere/*.parquet"}]
    assert threads_for(corpus.load()) == 1
    assert threads_for(corpus.load(storage="gs://corpora")) == 2
    assert threads_for(corpus.load(sources=remote_sources)) == 2
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with open_cluster(2) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(1)
        assert list(client.nthreads().values()) == [2]


def test_stack_has_gpu_workers_and_hides_gpus_from_cpu_workers():
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


def test_cluster_of_a_build_rejects_clients_without_its_certificate(monkeypatch):
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with open_cluster() as cluster:
        with distributed.Client(cluster) as client:
            assert client.submit(sum, [1, 2]).result() == 3
        address = cluster.scheduler_address
        for place, files in [(address, ["own"]), (address, []), (address.replace("tls://", "tcp://"), [])]:
            assert is_refused(code_run_by(place, *files))


def test_files_of_workers_are_in_a_private_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    monkeypatch.setattr(private_files, "gettempdir", lambda: str(tmp_path))
    with local_cluster() as cluster, distributed.Client(cluster) as client:
        (folder,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
    (private_folder,) = tmp_path.iterdir()
    assert private_folder in Path(folder).parents
    assert stat.S_IMODE(private_folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["open to all", "a link", "a file"])
def test_folder_of_another_user_is_not_used(monkeypatch, tmp_path, kind):
    """Modules are imported from the folder."""
    monkeypatch.setattr(private_files, "gettempdir", lambda: str(tmp_path))
    trap = tmp_path / f"zyda-dask-{os.getuid()}"
    if kind == "open to all":
        trap.mkdir()
        trap.chmod(0o777)
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        trap.symlink_to(tmp_path / "elsewhere")
    else:
        trap.touch()
    folder = Path(private_files.private_folder())
    assert folder != trap
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()


def test_cluster_restores_dasks_settings(monkeypatch):
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


def test_parent_of_forked_workers_has_a_single_thread():
    process = subprocess.run(
        [sys.executable, "-c", WHAT_IS_FORKED], capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["1"]


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
def test_parent_of_forked_workers_blocks_interrupts():
    """Python ignores the signal there late. Before, the process ended with a traceback, and the build waited for workers."""
    process = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True)
    (blocked,) = process.stdout.split()
    assert int(blocked, 16) >> (signal.SIGINT - 1) & 1


def test_workers_of_a_machine_with_gpus_are_not_forked():
    with worker_start_method(gpus=1):
        assert dask.config.get(METHOD) == "spawn"
    with worker_start_method(gpus=0):
        assert dask.config.get(METHOD) == FORK


def keys_on_this_worker(_):
    return [str(key) for key in distributed.get_worker().state.tasks]


def test_dask_keys_of_shards_begin_with_their_stage(monkeypatch):
    """From the stage in the key, Dask learns the durations of shards, and which shards to move to idle workers."""
    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with open_cluster() as cluster, distributed.Client(cluster) as client:
        run = partial(fan_out, keys_on_this_worker, range(2), stage="edges", source=None)
        task_keys = {key for keys in client.submit(run, pure=False).result() for key in keys}
    assert any(
        distributed.utils.key_split(ast.literal_eval(key)) == "edges shard" for key in task_keys if "(" in key
    )


def test_worker_that_does_not_close_is_killed(monkeypatch):
    async def never(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(dask.system, "CPU_COUNT", 1)
    with local_cluster(close_seconds=1) as cluster:
        worker = psutil.Process(cluster.workers[0].process.pid)
        monkeypatch.setattr(distributed.Nanny, "close", never)
    worker.wait()


def test_runs_of_deployments_have_the_threads_of_terminal_runs(corpus, monkeypatch):
    """The worker of a deployment passes the run in the environment."""
    parameters = {"recipe": corpus.write(storage="gs://corpora"), "storage": None, "sample": None}
    monkeypatch.setattr("zyda_flows.tasks.stage.runner.flow_run", SimpleNamespace(parameters=parameters))
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


def test_unguarded_script_that_starts_workers_fails_with_the_remedy(tmp_path):
    """Each worker would run the script again, and start more workers."""
    path = tmp_path / "script.py"
    path.write_text(UNGUARDED)
    process = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert 'under `if __name__ == "__main__":`' in process.stderr
