"""What a build does when what it stands on breaks: it ends like one that was left alone, or says why not."""

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
    """Give a proxy before the S3 server, and the environment to go through it."""
    with Proxy(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2])) as proxy:
        yield proxy, {"AWS_ENDPOINT_URL": f"http://{proxy.address}"}


def corpus_on_s3(larger, s3, name):
    return larger.write(storage=f"{s3}/{name}"), larger.load(storage=f"{s3}/{name}")


IMPATIENT_S3 = json.dumps({"config_kwargs": {"read_timeout": 2}})


def test_store_that_breaks_some_requests_and_a_dozen_one_after_another(
    larger, undisturbed, broken_s3, s3, server
):
    proxy, environment = broken_s3
    proxy.answers_500, proxy.resets, proxy.cuts_bodies, proxy.stalls_bodies = 0.05, 0.03, 0.02, 0.02
    proxy.away_from, proxy.to_refuse = b"/work/ingest/", 12
    path, recipe = corpus_on_s3(larger, s3, "breaks")
    done = zyda("build", path, env=using(server, FSSPEC_S3=IMPATIENT_S3, **environment))
    assert done.returncode == 0, done.stderr[-3000:]
    assert proxy.broken["answers_500"] > 3
    assert proxy.broken["resets"] > 3
    assert proxy.broken["cuts_bodies"]
    assert proxy.broken["stalls_bodies"]
    assert proxy.broken["refused"] == 12
    assert contents(recipe) == undisturbed


@pytest.fixture
def flipping_s3(broken_s3, monkeypatch):
    """Have this process reach S3 through a proxy that flips a bit in some of the artifacts."""
    proxy, environment = broken_s3
    proxy.only, proxy.flips_bodies = b"/work/", 0.1
    file_system = fsspec.get_filesystem_class("s3")
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", environment["AWS_ENDPOINT_URL"])
        file_system.clear_instance_cache()
        yield proxy
    file_system.clear_instance_cache()


def test_bit_that_a_store_flips_in_its_answers_reaches_no_corpus(corpus, flipping_s3, s3):
    build_here(corpus.load())
    recipe = corpus.load(storage=f"{s3}/flips")
    for _ in range(5):
        with contextlib.suppress(Denied, Unavailable):  # Prefect's tasks would try again
            build_here(recipe)
    assert flipping_s3.broken["flips_bodies"]
    flipping_s3.flips_bodies = 0
    build_here(recipe)
    assert contents(recipe) == contents(corpus.load())


def test_full_disk_is_said_and_loses_nothing(larger, undisturbed, server, tmp_path):
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
        said = zyda("build", path, env=using(server, PREFECT_TASK_DEFAULT_RETRIES="0"))
        assert said.returncode == 1
        assert "No space left on device" in said.stderr
        filler.unlink()
        again = zyda("build", path, env=using(server))
        assert again.returncode == 0, again.stderr
        assert contents(larger.load(storage=str(disk))) == undisturbed
    finally:
        subprocess.run(["umount", str(disk)], check=False)


ONE_LINE = r"dashboard: http://127\.0\.0\.1:\d+/zyda/sign-in#\S+\nzyda: {}; finished work is kept; start the build again .*\n"


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGKILL, -9, None),
    ],
)
def test_signal_ends_a_build_and_all_that_it_started(larger, terminal, number, status, said):
    """The signal goes to all processes of the terminal, as Ctrl-C does."""
    build = start_build(larger.write(), terminal())
    wait_for(lambda: is_under_way(larger), process=build)
    family = family_of(build)
    assert len(family) >= 4
    os.killpg(build.pid, number)
    _, errors = build.communicate()
    assert build.returncode == status, errors
    if said:
        assert re.fullmatch(ONE_LINE.format(said), errors)
    assert not alive_after(HANG, family)


SWALLOWED = """
import os, signal
from zyda_flows.flows.server.signals import end_in_order

class Other(BaseException): pass
def another(number, frame): raise Other
with end_in_order():
    signal.signal(signal.SIGTERM, another)  # as Prefect does during a flow run
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    except Other:
        raise ValueError("how pydantic says it") from None
"""


def test_signal_that_comes_out_as_another_error_is_still_one_line():
    ended = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, check=False)
    assert ended.returncode == 143
    assert re.fullmatch(r"zyda: ended by SIGTERM\n", ended.stderr)


IN_THE_COLLECTOR = """
import gc, os, signal, threading, time
from zyda_flows.flows.server.signals import end_in_order

came = []
def collecting(phase, info):
    if not came:
        came.append(phase)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
gc.callbacks.append(collecting)
with end_in_order():
    gc.collect()
    threading.Event().wait()
"""


def test_signal_that_comes_while_garbage_is_collected_ends_the_build_all_the_same():
    ended = subprocess.run(
        [sys.executable, "-c", IN_THE_COLLECTOR], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 130
    assert re.fullmatch(r"zyda: interrupted\n", ended.stderr)


def test_lost_server_of_its_own_ends_the_build_with_one_line_which_then_resumes(
    larger, undisturbed, terminal, server
):
    build = start_build(larger.write(), terminal())
    wait_for(lambda: is_under_way(larger), process=build)
    (found,) = (
        one
        for one in family_of(build)
        if one.cmdline()[1:3] == ["-m", "zyda_flows.flows.server.prefect_server"]
    )
    found.kill()
    _, errors = build.communicate()
    assert build.returncode == 1
    assert re.fullmatch(ONE_LINE.format(r"the Prefect server at http://\S+ is gone"), errors)
    done = zyda("build", larger.write(), env=using(server))
    assert done.returncode == 0, done.stderr
    assert contents(larger.load()) == undisturbed


def test_cluster_without_workers_is_waited_for_aloud_and_then_given_up(larger, server):
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


def test_cluster_that_is_not_there_is_one_line(larger, server):
    said = zyda(
        "build", larger.write(),
        env={
            **os.environ,
            "PREFECT_API_URL": server,
            "DASK_SCHEDULER_ADDRESS": f"tcp://127.0.0.1:{free_port()}",
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s",
        },
    )  # fmt: skip
    assert said.returncode == 1
    _, end = said.stderr.splitlines()
    assert re.fullmatch(r"zyda: no Dask scheduler answers: .*", end)


def test_two_builds_from_two_prefect_servers_at_once_number_every_file_once(larger, undisturbed, terminal):
    """No server knows of the other, so both builds run; what they share is the storage."""
    builds = [start_build(larger.write(), terminal(name)) for name in ("one", "other")]
    for build in builds:
        _, said = build.communicate()
        assert build.returncode == 0, said
    recipe = larger.load()
    assert contents(recipe) == undisturbed
    for files in load_register(recipe.folder).files.values():
        assert [file.number for file in files] == list(range(len(files)))
        assert len({file.url for file in files}) == len(files)
