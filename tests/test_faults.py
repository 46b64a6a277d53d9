"""What a build does when what it stands on breaks: it ends like one that was left alone, or says why not."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from broken_proxy import Proxy
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
from small_corpus import Corpus, build_here, contents, prose, rows, write_rows, zyda
from test_flow import start_build

from deployments.local import Stack
from flows.local_server import free_port, start_server, wait_until_healthy
from tasks.artifacts import corpus_folder
from tasks.listing import load_register


@pytest.fixture
def larger(tmp_path):
    """A corpus of a dozen files, so that something is always under way."""
    corpus = Corpus(tmp_path)
    for i in range(8):
        write_rows(
            tmp_path / f"in/worst-{i + 2}.arrow", rows(**{f"n{i}_{j}": prose(f"n{j}") for j in range(5)})
        )
    return corpus


@pytest.fixture
def undisturbed(larger):
    recipe = larger.load(storage=str(larger.folder / "undisturbed"))
    build_here(recipe)
    return contents(recipe)


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
    deadline = time.monotonic() + 120
    while not corpus_folder(recipe).files("work/ingest") and time.monotonic() < deadline:
        time.sleep(0.05)
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


def test_killed_prefect_server_ends_the_build_which_then_resumes(larger, undisturbed, tmp_path, server):
    environment = {**os.environ, "PREFECT_HOME": str(tmp_path / "home")}
    log = tmp_path / "home/server.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", environment["PREFECT_HOME"])
        patch.delenv("PREFECT_API_DATABASE_CONNECTION_URL", raising=False)  # it is the other server's
        process, url = start_server(free_port(), log)
        wait_until_healthy(process, url, log)
    recipe = larger.load()
    build = start_build(larger.write(), url)
    deadline = time.monotonic() + 120
    while not corpus_folder(recipe).files("work/minhash") and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    try:
        build.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(build.pid, signal.SIGKILL)
        build.wait()
    done = zyda("build", larger.write(), env={**os.environ, "PREFECT_API_URL": server})
    assert done.returncode == 0, done.stderr
    assert contents(recipe) == undisturbed


def test_killed_dask_scheduler_ends_the_build_which_then_resumes(larger, undisturbed, tmp_path, server):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")} | {
        "PREFECT_HOME": str(tmp_path / "home")
    }
    assert zyda("up", "--workers", "2", env=environment).returncode == 0
    try:
        stack = Stack.model_validate_json((tmp_path / "home/zyda/stack.json").read_text())
        scheduler = stack.parts["scheduler"]
        recipe = larger.load()
        build = start_build(larger.write(), server, DASK_SCHEDULER_ADDRESS=scheduler.address)
        deadline = time.monotonic() + 120
        while not corpus_folder(recipe).files("work/minhash") and time.monotonic() < deadline:
            time.sleep(0.02)
        psutil.Process(scheduler.pid).kill()
        try:
            build.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(build.pid, signal.SIGKILL)
            build.wait()
        assert build.returncode != 0
    finally:
        zyda("down", env=environment)
    done = zyda("build", larger.write(), env={**os.environ, "PREFECT_API_URL": server})
    assert done.returncode == 0, done.stderr
    assert contents(recipe) == undisturbed


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


def test_machine_restarted_in_the_middle_of_a_build(larger, undisturbed, tmp_path):
    from prefect.deployments import run_deployment

    home = tmp_path / "home"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    environment["PREFECT_HOME"] = str(home)
    recipe, path = larger.load(), larger.write()
    try:
        for attempt in ("interrupted", "finished"):
            assert zyda("up", "--workers", "2", env=environment).returncode == 0
            stack = Stack.model_validate_json((home / "zyda/stack.json").read_text())
            url = stack.parts["server"].address
            with temporary_settings({PREFECT_API_URL: url, PREFECT_HOME: home}):
                if attempt == "finished":
                    run = run_deployment("build/build", parameters={"recipe": path}, timeout=200)
                    assert run.state.is_completed(), run.state
                    break
                run_deployment("build/build", parameters={"recipe": path}, timeout=0)
            deadline = time.monotonic() + 120
            while not corpus_folder(recipe).files("work/minhash") and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not corpus_folder(recipe).exists("published")
            kill_all(stack)
    finally:
        zyda("down", env=environment)
    assert contents(recipe) == undisturbed


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
