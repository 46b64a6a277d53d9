"""Fixtures of all tests: a small corpus, a real Prefect server, a real Dask cluster."""

import gc
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
from functools import partialmethod
from pathlib import Path

import dask
import distributed
import pyarrow
import pytest
from browser import browser, browser_with_local_names, page  # noqa: F401 (fixtures)
from clusters import small_cluster
from filelock import FileLock
from hypothesis import HealthCheck, settings
from meaning_models import sentence_encoder, static_model  # noqa: F401 (fixtures)
from object_stores import gcs, s3  # noqa: F401 (fixtures)
from patience import HANG
from postgres import postgres  # noqa: F401 (fixture)
from published_code import judged, judged_by_datatrove  # noqa: F401 (fixtures)
from report_pages import labelled  # noqa: F401 (fixture)
from semantic_corpus import families  # noqa: F401 (fixture)
from small_corpus import (
    SHARED,
    Corpus,
    another,
    build_here,
    copy_of,
    corpus_of_two_sources,
    published_undisturbed,
    zyda,
)
from token_judges import random_judge

from zyda_flows.flows.server.local_server import (
    export_api,
    flush_logs_and_events,
    start_server,
    wait_until_healthy,
)
from zyda_flows.flows.server.login import saved_api, use_api
from zyda_flows.tasks.workers.ports import free_port

os.environ["HF_HUB_OFFLINE"] = "1"  # no test connects to the hub

# Loops of Prefect that run every few seconds here, and every minute or hour for users.
IMPATIENT = {
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "5",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_TASK_DEFAULT_RETRY_DELAY_SECONDS": "2",
    "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
}
os.environ.update(IMPATIENT)
# No example of Hypothesis fails because the machine is busy.
settings.register_profile("whenever", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("whenever")
# Dask's nannies kill a worker that does not end within 4 seconds, and fail if it still lives a second later.
distributed.Nanny.close = partialmethod(distributed.Nanny.close, timeout=HANG)
# Hundreds of processes are started here; each would compile every file of the project again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("ZYDA_ENGINE", None)
# One thread for arithmetic, as in Dask's workers: several threads are slower for small tables, and tests run in parallel.
os.environ["OMP_NUM_THREADS"] = "1"
pyarrow.set_cpu_count(1)
OBJECTS_BETWEEN_COLLECTIONS = 20_000  # of garbage; Python's 700 are for small programs
LONGEST_ID = {str: 80, bytes: 16}  # characters or bytes of a value that names a test
GPU_TESTS = Path(__file__).parent / "gpu"


def pytest_configure(config):
    """Hide the GPUs of the machine, except from tests/gpu: other tests expect the exact results of a CPU.

    SIGINT ends processes of the tests, also if a shell runs the tests in its background.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    paths = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    if not all(path.is_relative_to(GPU_TESTS) for path in paths):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_addoption(parser):
    parser.addoption("--postgres", action="store_true", help="keep Prefect's state in PostgreSQL")


def pytest_make_parametrize_id(val, argname):
    """Name a long value by its argument: compressed bytes contain a time, and differ between two xdist processes."""
    longest = LONGEST_ID.get(type(val))
    return argname if longest and len(val) > longest else None


SERVERS = {"server", "running_stack", "s3", "gcs", "bucket", "postgres"}  # fixtures that start a server
GROUP_SERVERS = {
    "server": ["server"],
    "stack": ["running_stack"],
}  # group of tests: its fixtures that start a server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests that start servers as slow, and move the longest tests to the front.

    Tests with the fixture `server` run in one process, which starts one server and one cluster. Other tests are
    grouped by their files.
    """
    for item in items:
        if SERVERS & set(item.fixturenames):
            item.add_marker("slow")
        if not item.get_closest_marker("xdist_group"):
            group = "server" if "server" in item.fixturenames else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=turn_of)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while test modules are imported, which halves the time. Imported objects are never collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Stop a server after the last test of its group. An idle server uses a tenth of a core."""
    if "PYTEST_XDIST_WORKER" in os.environ and (nextitem is None or group_of(item) != group_of(nextitem)):
        for name in GROUP_SERVERS.get(group_of(item), ()):
            for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
                fixture.finish(item._request)


def group_of(item):
    return item.get_closest_marker("xdist_group").args[0]


def turn_of(item):
    early = item.get_closest_marker("early")
    return early.args[0] if early else math.inf


@pytest.fixture(scope="session")
def shared():
    if not (SHARED / "corpora").is_dir():
        pytest.skip("needs ../shared/corpora, which is not part of the project")
    return SHARED


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


@pytest.fixture(scope="session")
def built_once(tmp_path_factory, compiled):
    corpus = Corpus(tmp_path_factory.mktemp("sources")).elsewhere(tmp_path_factory.mktemp("once"))
    build_here(corpus.load())
    return corpus


@pytest.fixture
def ready(built_once, tmp_path):
    """Return a small corpus that is built. Its output is a copy, which the test may change."""
    corpus = copy_of(built_once, tmp_path)
    build_here(corpus.load())  # which reads the files once: they have new times
    return corpus


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, compiled):
    """Return a corpus of eight files that uses all stages of a build.

    Near-duplicates are verified. Documents of another corpus, which has some of the same documents, are removed.
    """
    other = another(tmp_path_factory.mktemp("other"))
    corpus = corpus_of_two_sources(tmp_path_factory.mktemp("inputs"), 3)
    corpus.recipe["dedup"] = {"verify": {"containment": 0.8}, "against": other}
    corpus.recipe["judges"] = [{"name": "own", "model": str(random_judge(corpus.folder / "own"))}]
    corpus.recipe["publish_vectors"] = "own"
    return corpus


@pytest.fixture(scope="module")
def undisturbed(inputs, compiled):
    """Return the digests of the files that a build of `inputs` publishes."""
    return published_undisturbed(inputs)


@pytest.fixture
def larger(inputs, tmp_path):
    """Return the corpus of `inputs`, to be built in the folder of the test."""
    return inputs.elsewhere(tmp_path)


@pytest.fixture(autouse=True)
def enable_logs():
    """Enable our loggers before each test: libraries that configure logging disable the loggers of others."""
    logging.disable(logging.NOTSET)
    for name in ("zyda", "textkernels"):
        logging.getLogger(name).disabled = False
    if logging.root.level > logging.WARNING:
        logging.root.setLevel(logging.WARNING)
    for handler in logging.root.handlers:  # a cluster of Dask that is not closed in time leaves a high level
        handler.setLevel(min(handler.level, logging.WARNING))


@pytest.fixture(scope="module", autouse=True)
def end_senders():
    """End Prefect's senders of events and of log lines after each module.

    A process has one sender of each kind, which keeps the address of the server for which it was started. The next
    module may have another server.
    """
    yield
    if "prefect.events.worker" in sys.modules:
        flush_logs_and_events()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """Return a folder that all processes of this test run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def compiled(run_folder, tmp_path_factory):
    """Compile the kernels in one process, if they are not compiled yet: it takes half a minute."""
    with FileLock(run_folder / "compiled.lock"):
        build_here(Corpus(tmp_path_factory.mktemp("compiled")).load())


@pytest.fixture(scope="session")
def prefect_database(run_folder):
    """Make an empty database of Prefect once for all tests: each server would need ten seconds to make it."""
    home = run_folder / "prefect-database"
    with FileLock(run_folder / "prefect-database.lock"):
        if not home.exists():
            command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
            subprocess.run(command, env=environment_without_server(home), check=True, capture_output=True)
    return home / "prefect.db"


def environment_without_server(home):
    """Return the environment of a terminal without the address of a server or a cluster, and with a home of Prefect."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {**environment, "PREFECT_HOME": str(home)}


@pytest.fixture
def terminal(prefect_database, tmp_path):
    """Return a function that makes the environment of a terminal without a server or a cluster, with its own home."""

    def environment(name="home"):
        (tmp_path / name).mkdir()
        shutil.copy(prefect_database, tmp_path / name)
        return environment_without_server(tmp_path / name)

    return environment


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory, prefect_database):
    home = tmp_path_factory.mktemp("prefect")
    shutil.copy(prefect_database, home)
    return home


@pytest.fixture(scope="session")
def server(prefect_home, request):
    """Return the address of a Prefect server for these tests. Started processes get it by their environment."""
    os.environ["PREFECT_HOME"] = str(prefect_home)
    if request.config.getoption("postgres"):
        os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = request.getfixturevalue("postgres")("tests")
    log = prefect_home / "server.log"
    process, api = start_server(free_port(), log)
    wait_until_healthy(process, api, log)
    from prefect.settings import PREFECT_HOME, temporary_settings

    with temporary_settings({PREFECT_HOME: prefect_home}), export_api(api):
        yield api.url
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def running_stack(tmp_path_factory, prefect_database, request):
    """Start one stack for all tests, with its own home of Prefect; return its environment."""
    home = tmp_path_factory.mktemp("stack")
    shutil.copy(prefect_database, home)
    environment = {**environment_without_server(home), **IMPATIENT}
    ended = zyda("up", "--workers", "2", env=environment)
    assert ended.returncode == 0, ended.stderr
    request.getfixturevalue("compiled")
    yield environment
    zyda("down", env=environment)


@pytest.fixture(scope="module")
def stack(running_stack):
    """Return the environment of the stack. This process uses the server of the stack, too."""
    from prefect.settings import PREFECT_HOME, temporary_settings

    home = Path(running_stack["PREFECT_HOME"])
    api = saved_api(home / "zyda")
    with use_api(api), temporary_settings({PREFECT_HOME: home}):
        yield {**running_stack, "PREFECT_API_URL": api.url, "PREFECT_API_SSL_CERT_FILE": api.certificate}


@pytest.fixture(scope="session")
def cluster(server):
    """Return a Dask cluster of two workers that all flows of the tests use."""
    with small_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def build(cluster):
    """Return the build flow, which runs on the server and the cluster of the tests."""
    from zyda_flows.flows.build import build
    from zyda_flows.tasks.stage.runner import task_runner

    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        yield build.with_options(task_runner=task_runner())
