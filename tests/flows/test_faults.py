"""Builds with failing storage, servers and clusters: the corpus is equal, or the build fails with a clear message."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys

import distributed
import fsspec
import pytest
from broken_proxy import Proxy
from disturbances import family_of, is_under_way, start_build, using
from patience import HANG, wait_for
from small_corpus import build_here, contents, zyda

from zyda_flows.deployments.processes import alive_after
from zyda_flows.tasks.errors import Denied, Unavailable
from zyda_flows.tasks.sources.register import load_register
from zyda_flows.tasks.workers.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.early(2)]


@pytest.fixture
def broken_s3(s3):
    """Yield a proxy in front of the S3 server, and the environment to use it."""
    with Proxy(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])) as proxy:
        yield proxy, {"AWS_ENDPOINT_URL": f"http://{proxy.address}"}


def corpus_on_s3(larger, s3, name):
    return larger.write(storage=f"{s3}/{name}"), larger.load(storage=f"{s3}/{name}")


IMPATIENT_S3 = json.dumps({"config_kwargs": {"read_timeout": 2}})


def test_build_on_a_store_with_failing_requests_equals_an_undisturbed_build(
    larger, undisturbed, broken_s3, s3, server
):
    proxy, environment = broken_s3
    proxy.answers_500, proxy.resets, proxy.cuts_bodies, proxy.stalls_bodies = 0.05, 0.03, 0.02, 0.02
    proxy.away_from, proxy.to_refuse = b"/work/ingest/", 12
    path, recipe = corpus_on_s3(larger, s3, "breaks")
    finished = zyda("build", path, env=using(server, FSSPEC_S3=IMPATIENT_S3, **environment))
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert proxy.broken["answers_500"] > 3
    assert proxy.broken["resets"] > 3
    assert proxy.broken["cuts_bodies"]
    assert proxy.broken["stalls_bodies"]
    assert proxy.broken["refused"] == 12
    assert contents(recipe) == undisturbed


@pytest.fixture
def flipping_s3(broken_s3, monkeypatch):
    """Connect this process to S3 through a proxy that flips a bit in some artifacts."""
    proxy, environment = broken_s3
    proxy.only, proxy.flips_bodies = b"/work/", 0.1
    file_system = fsspec.get_filesystem_class("s3")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", environment["AWS_ENDPOINT_URL"])
        file_system.clear_instance_cache()
        yield proxy
    file_system.clear_instance_cache()


def test_bits_that_a_store_flips_never_reach_the_corpus(corpus, flipping_s3, s3):
    build_here(corpus.load())
    recipe = corpus.load(storage=f"{s3}/flips")
    for _ in range(5):
        with contextlib.suppress(Denied, Unavailable):  # Prefect's tasks would retry
            build_here(recipe)
    assert flipping_s3.broken["flips_bodies"]
    flipping_s3.flips_bodies = 0
    build_here(recipe)
    assert contents(recipe) == contents(corpus.load())


def test_build_on_a_full_disk_fails_with_the_cause_and_resumes(larger, undisturbed, server, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        filler = disk / "filler"
        filler.write_bytes(bytes(4_040_000))
        path = larger.write(storage=str(disk))
        failed = zyda("build", path, env=using(server, PREFECT_TASK_DEFAULT_RETRIES="0"))
        assert failed.returncode == 1
        assert "No space left on device" in failed.stderr
        filler.unlink()
        finished = zyda("build", path, env=using(server))
        assert finished.returncode == 0, finished.stderr
        assert contents(larger.load(storage=str(disk))) == undisturbed
    finally:
        subprocess.run(["umount", str(disk)], check=False)


ONE_LINE = r"dashboard: http://127\.0\.0\.1:\d+/zyda/sign-in#\S+\nzyda: {}; finished work is kept; start the build again .*\n"


@pytest.mark.parametrize(
    ("number", "status", "message"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGKILL, -9, None),
    ],
)
def test_signal_ends_a_build_and_its_processes(larger, terminal, number, status, message):
    """The signal is sent to all processes of the terminal, like Ctrl-C."""
    build = start_build(larger.write(), terminal(), is_forked=number == signal.SIGKILL)
    wait_for(lambda: is_under_way(larger), process=build)
    family = family_of(build)
    assert len(family) >= 4
    os.killpg(build.pid, number)
    _, errors = build.communicate()
    assert build.returncode == status, errors
    if message:
        assert re.fullmatch(ONE_LINE.format(message), errors)
    assert not alive_after(HANG, family)


SWALLOWED = """
import os, signal
from zyda_flows.flows.server.signals import end_on_signal

class Other(BaseException): pass
def another(number, frame): raise Other
with end_on_signal():
    signal.signal(signal.SIGTERM, another)  # as Prefect does during a flow run
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    except Other:
        raise ValueError("how pydantic says it") from None
"""


def test_signal_that_raises_another_error_is_reported_in_a_single_line():
    ended = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False)
    assert ended.returncode == 143
    assert re.fullmatch(r"zyda: ended by SIGTERM\n", ended.stderr)


IN_THE_COLLECTOR = """
import gc, os, signal, threading, time
from zyda_flows.flows.server.signals import end_on_signal

came = []
def collecting(phase, info):
    if not came:
        came.append(phase)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
gc.callbacks.append(collecting)
with end_on_signal():
    gc.collect()
    threading.Event().wait()
"""


def test_signal_during_garbage_collection_ends_the_build():
    ended = subprocess.run(
        [sys.executable, "-c", IN_THE_COLLECTOR], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130
    assert re.fullmatch(r"zyda: interrupted\n", ended.stderr)


def test_build_without_its_server_fails_with_a_single_line_and_resumes(larger, undisturbed, terminal):
    build = start_build(larger.write(), terminal())
    wait_for(lambda: is_under_way(larger), process=build)
    (server_process,) = (
        process
        for process in family_of(build)
        if process.cmdline()[1:3] == ["-m", "zyda_flows.flows.server.prefect_server"]
    )
    server_process.kill()
    _, errors = build.communicate()
    assert build.returncode == 1
    assert re.fullmatch(ONE_LINE.format(r"the Prefect server at http://\S+ is gone"), errors)
    build_here(larger.load())
    assert contents(larger.load()) == undisturbed


def test_build_without_workers_warns_and_fails_after_the_timeout(larger, server):
    with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        cluster.scheduler.no_workers_timeout = HANG
        build = start_build(
            larger.write(),
            using(
                server,
                DASK_SCHEDULER_ADDRESS=cluster.scheduler_address,
                DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT="25s",
            ),
        )
        _, waiting = build.stderr.readline(), build.stderr.readline()
        cluster.scheduler.no_workers_timeout = 0.1
        _, end = build.communicate()
    assert build.returncode == 1
    assert re.fullmatch(
        r"zyda: waiting for a worker of the Dask cluster at tcp://\S+: there has been none for \d+ s; "
        r"the build ends after 25s of that, unless the scheduler waits longer\n",
        waiting,
    )
    assert end.startswith(
        "zyda: the Dask cluster has had no worker for 25s; start workers, and then start the build"
    )


def test_missing_cluster_fails_with_a_single_line(larger, server):
    failed = zyda(
        "build", larger.write(),
        env={
            **os.environ,
            "PREFECT_API_URL": server,
            "DASK_SCHEDULER_ADDRESS": f"tcp://127.0.0.1:{free_port()}",
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s",
        },
    )  # fmt: skip
    assert failed.returncode == 1
    _, end = failed.stderr.splitlines()
    assert re.fullmatch(r"zyda: no Dask scheduler answers: .*", end)


def test_simultaneous_builds_of_two_servers_number_every_file_once(larger, undisturbed, terminal):
    """The servers do not know each other, so both builds run on the same storage."""
    builds = [start_build(larger.write(), terminal(name)) for name in ("one", "other")]
    for build in builds:
        _, errors = build.communicate()
        assert build.returncode == 0, errors
    recipe = larger.load()
    assert contents(recipe) == undisturbed
    for files in load_register(recipe.folder).files.values():
        assert [file.number for file in files] == list(range(len(files)))
        assert len({file.url for file in files}) == len(files)
