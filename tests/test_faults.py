"""What a build does when what it stands on breaks: it ends like one that was left alone, or says why not."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import dask
import distributed
import psutil
import pytest
from broken_proxy import Proxy
from prefect.client.orchestration import get_client
from small_corpus import Corpus, build_here, contents, prose, rows, write_rows, zyda
from test_flow import BUILD, start_build

from deployments.local import Stack
from flows.liveness import LEASE_SECONDS
from flows.local_server import free_port
from flows.watch import is_under_way as is_asked_for
from tasks.artifacts import corpus_folder
from tasks.register import load_register


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A corpus of a dozen files, so that something is always under way."""
    corpus = Corpus(tmp_path_factory.mktemp("inputs"))
    for i in range(8):
        write_rows(
            corpus.folder / f"in/worst-{i + 2}.arrow", rows(**{f"n{i}_{j}": prose(f"n{j}") for j in range(5)})
        )
    return corpus


@pytest.fixture(scope="module")
def undisturbed(inputs):
    recipe = inputs.elsewhere(inputs.folder).load(storage=str(inputs.folder / "undisturbed"))
    build_here(recipe)
    return contents(recipe)


@pytest.fixture
def larger(inputs, tmp_path):
    return inputs.elsewhere(tmp_path)


@pytest.fixture
def broken_s3(s3):
    """Give a proxy before the S3 server, and the environment to go through it."""
    proxy = Proxy(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]))
    yield proxy, {"AWS_ENDPOINT_URL": f"http://{proxy.address}"}
    proxy.shutdown()


def build_through(proxy_environment, path, server):
    return zyda("build", path, env={**os.environ, **proxy_environment, "PREFECT_API_URL": server})


def corpus_on_s3(larger, s3, name):
    return larger.write(storage=f"{s3}/{name}"), larger.load(storage=f"{s3}/{name}")


@pytest.mark.parametrize(("fault", "share"), [("answers_500", 0.05), ("resets", 0.03)])
def test_store_that_breaks_some_requests_at_random(larger, undisturbed, broken_s3, s3, server, fault, share):
    proxy, environment = broken_s3
    setattr(proxy, fault, share)
    path, recipe = corpus_on_s3(larger, s3, fault.replace("_", "-"))
    done = build_through(environment, path, server)
    assert done.returncode == 0, done.stderr
    assert proxy.broken > 3
    assert contents(recipe) == undisturbed


def test_store_that_refuses_connections_for_20_seconds(larger, undisturbed, broken_s3, s3, server):
    proxy, environment = broken_s3
    path, recipe = corpus_on_s3(larger, s3, "refuses")
    process = start_build(path, server, **environment)
    wait_for(lambda: corpus_folder(recipe).files("work/ingest"))
    proxy.refuses_until = time.monotonic() + 20
    output = process.communicate(timeout=200)[0].decode()
    assert process.returncode == 0, output[-3000:]
    assert proxy.broken > 0
    assert contents(recipe) == undisturbed


def test_full_disk_is_said_and_loses_nothing(larger, undisturbed, server, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs the right to mount a small file system")
    try:
        filler = disk / "filler"
        filler.write_bytes(bytes(1_350_000))
        path = larger.write(storage=str(disk))
        said = zyda(
            "build", path, env={**os.environ, "PREFECT_API_URL": server, "PREFECT_TASK_DEFAULT_RETRIES": "0"}
        )
        assert said.returncode == 1
        assert "No space left on device" in said.stderr
        filler.unlink()
        again = zyda("build", path, env={**os.environ, "PREFECT_API_URL": server})
        assert again.returncode == 0, again.stderr
        assert contents(larger.load(storage=str(disk))) == undisturbed
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


def alone(home):
    """Return the environment of a terminal in which nothing names a server or a cluster."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {**environment, "PREFECT_HOME": str(home)}


def start_alone(corpus, environment):
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, "build", corpus.write()],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def is_under_way(corpus):
    return bool(corpus_folder(corpus.load()).files("work/ingest"))


def family_of(process):
    """Return the processes of a build: its server, its guard, its workers."""
    return psutil.Process(process.pid).children(recursive=True)


ONE_LINE = (
    r"dashboard: http://127\.0\.0\.1:\d+/runs\nzyda: {}; what is finished is kept; start the build again .*\n"
)


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "ended by SIGTERM"),
        (signal.SIGKILL, -9, None),
    ],
)
def test_signal_ends_a_build_and_all_that_it_started(larger, tmp_path, number, status, said):
    """The signal goes to all processes of the terminal, as Ctrl-C does."""
    build = start_alone(larger, alone(tmp_path / "home"))
    wait_for(lambda: is_under_way(larger))
    family = family_of(build)
    assert len(family) >= 4
    os.killpg(build.pid, number)
    _, errors = build.communicate(timeout=60)
    assert build.returncode == status, errors
    if said:
        assert re.fullmatch(ONE_LINE.format(said), errors)
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


def test_lost_server_of_its_own_ends_the_build_with_one_line_which_then_resumes(
    larger, undisturbed, tmp_path, server
):
    build = start_alone(larger, alone(tmp_path / "home"))
    wait_for(lambda: is_under_way(larger))
    (found,) = (one for one in family_of(build) if one.cmdline()[1:5] == ["-m", "prefect", "server", "start"])
    found.kill()
    _, errors = build.communicate(timeout=30)
    assert build.returncode == 1
    assert re.fullmatch(ONE_LINE.format(r"the Prefect server at http://\S+ is gone"), errors)
    done = zyda("build", larger.write(), env={**os.environ, "PREFECT_API_URL": server})
    assert done.returncode == 0, done.stderr
    assert contents(larger.load()) == undisturbed


def test_cluster_without_workers_is_waited_for_aloud_and_then_given_up(larger, server):
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "25s"}),
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster,
    ):
        said = zyda(
            "build", larger.write(),
            env={
                **os.environ,
                "PREFECT_API_URL": server,
                "DASK_SCHEDULER_ADDRESS": cluster.scheduler_address,
                "DASK_DISTRIBUTED__SCHEDULER__NO_WORKERS_TIMEOUT": "25s",
            },
        )  # fmt: skip
    assert said.returncode == 1
    _, waiting, end = said.stderr.splitlines()
    assert re.fullmatch(r"zyda: waiting for a worker of the Dask cluster at tcp://\S+: .* after 25s", waiting)
    assert end == "zyda: the Dask cluster has had no worker for 25s; start workers, and then the build again"


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


def parts(stack):
    return Stack.model_validate_json(Path(stack["PREFECT_HOME"], "zyda/stack.json").read_text())


def terminal(stack):
    """Return the environment of a terminal of the stack's owner, who has set nothing."""
    return {k: v for k, v in stack.items() if k != "PREFECT_API_URL"}


def test_killed_dask_scheduler_ends_the_build_with_one_line_and_up_repairs_the_stack(
    larger, undisturbed, stack
):
    before = parts(stack)
    build = start_alone(larger, terminal(stack))  # it finds the stack by itself
    wait_for(lambda: is_under_way(larger))
    psutil.Process(before.parts["scheduler"].pid).kill()
    _, errors = build.communicate(timeout=90)
    assert build.returncode == 1
    assert len(errors.splitlines()) == 3, errors
    on_stack, _, end = errors.splitlines()
    assert on_stack == "on the server and the cluster of `zyda up`"
    assert end.startswith("zyda: the Dask cluster is gone: ")
    said = zyda("up", "--workers", "2", env=terminal(stack)).stdout
    for name in ("scheduler", "dask-workers", "worker"):
        assert f"starting the {name}\n" in said
    assert "starting the server" not in said
    after = parts(stack)
    assert {name: part.address for name, part in after.parts.items()} == {
        name: part.address for name, part in before.parts.items()
    }
    done = zyda("build", larger.write(), env=terminal(stack))
    assert done.returncode == 0, done.stderr
    assert contents(larger.load()) == undisturbed


def kill_all(stack):
    """Take the power away from everything that runs at once."""
    family = []
    for part in stack.parts.values():
        process = psutil.Process(part.pid)
        family += [*process.children(recursive=True), process]
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, timeout=20)


def test_machine_restarted_in_the_middle_of_a_build(larger, undisturbed, stack):
    from prefect.deployments import run_deployment

    recipe, path = larger.load(), larger.write()
    before = parts(stack)
    broken = run_deployment("build/build", parameters={"recipe": path}, timeout=0)
    wait_for(lambda: is_under_way(larger))
    assert not corpus_folder(recipe).exists("published")
    kill_all(before)
    said = zyda("up", "--workers", "2", env=terminal(stack))
    assert said.returncode == 0, said.stderr
    assert f"marked the run `build {path}` as crashed" in said.stdout
    assert parts(stack).ports == before.ports
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(broken.id).state
    assert state.is_crashed()
    assert "process of this run is gone" in state.message
    assert not is_asked_for(path, None, None)  # so that the watcher asks again
    run = run_deployment("build/build", parameters={"recipe": path}, timeout=200)
    assert run.state.is_completed(), run.state
    assert run.total_run_time.total_seconds() < LEASE_SECONDS  # nobody waited for what the dead one held
    assert contents(recipe) == undisturbed


def test_children_of_a_killed_part_are_stopped_before_it_starts_again(stack):
    before = parts(stack).parts["dask-workers"]
    children = psutil.Process(before.pid).children(recursive=True)
    for child in children:
        child.suspend()  # or they would see that their parent is gone
    psutil.Process(before.pid).kill()
    said = zyda("up", "--workers", "2", env=terminal(stack)).stdout
    assert "stopped what was left of the dask-workers, which had died" in said
    assert "starting the dask-workers" in said
    assert not psutil.wait_procs(children, timeout=1)[1]


def test_two_builds_from_two_prefect_servers_at_once_number_every_file_once(larger, undisturbed, tmp_path):
    """No server knows of the other, so both builds run; what they share is the storage."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    command = [sys.executable, "-c", "from flows.cli import main; main()", "build", larger.write()]
    homes = [{**environment, "PREFECT_HOME": str(tmp_path / f"home-{i}")} for i in range(2)]
    builds = [subprocess.Popen(command, env=home, stdout=-3, stderr=-1, text=True) for home in homes]
    for build in builds:
        _, said = build.communicate(timeout=300)
        assert build.returncode == 0, said
    recipe = larger.load()
    assert contents(recipe) == undisturbed
    for files in load_register(corpus_folder(recipe)).files.values():
        assert [file.number for file in files] == list(range(len(files)))
        assert len({file.url for file in files}) == len(files)
