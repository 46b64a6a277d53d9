"""What the tests share: a small corpus, a real Prefect server, a real Dask cluster."""

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
from browser import browser, deceived_browser, page  # noqa: F401 (fixtures)
from clusters import small_cluster
from filelock import FileLock
from hypothesis import HealthCheck, settings
from object_stores import gcs, s3  # noqa: F401 (fixtures)
from patience import HANG
from postgres import postgres  # noqa: F401 (fixture)
from published_code import judged, judged_by_datatrove  # noqa: F401 (fixtures)
from report_pages import labelled  # noqa: F401 (fixture)
from small_corpus import (
    SHARED,
    Corpus,
    another,
    build_here,
    copy_of,
    of_two_sources,
    published_by_itself,
    zyda,
)

from zyda_flows.flows.server.local_server import (
    export_api,
    flush_logs_and_events,
    start_server,
    wait_until_healthy,
)
from zyda_flows.flows.server.login import saved_api, use_api
from zyda_flows.tasks.workers.ports import free_port

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks the hub, and none waits for it

# What takes a minute of patience for people takes a moment here.
IMPATIENT = {
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS": "5",
    "PREFECT_WORKER_QUERY_SECONDS": "1",
    "PREFECT_TASK_DEFAULT_RETRY_DELAY_SECONDS": "2",
    "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
}
os.environ.update(IMPATIENT)
# And no example of Hypothesis fails because the machine has more to do.
settings.register_profile("whenever", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("whenever")
# Dask's nannies kill a worker that does not end in 4 seconds, and fail where it lives for one more.
distributed.Nanny.close = partialmethod(distributed.Nanny.close, timeout=HANG)
# Hundreds of processes are started here; each would compile every file of the project again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("ZYDA_ENGINE", None)
# One thread for arithmetic, as Dask's workers have it: small tables cost more in several, and tests run beside each other.
os.environ["OMP_NUM_THREADS"] = "1"
pyarrow.set_cpu_count(1)
OBJECTS_BETWEEN_COLLECTIONS = 20_000  # of garbage; Python's 700 are for small programs
LONGEST_ID = {str: 80, bytes: 16}  # characters or bytes of a value that names a test
ABOUT_GPUS = Path(__file__).parent / "gpu"


def pytest_configure(config):
    """Hide the machine's GPUs, but for the tests about them alone: elsewhere answers are a CPU's to the last digit.

    Processes that the tests start can be interrupted, also where a shell runs the tests in its background.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = [(config.invocation_params.dir / one.split("::")[0]).resolve() for one in config.args]
    if not all(one.is_relative_to(ABOUT_GPUS) for one in asked):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_addoption(parser):
    parser.addoption("--postgres", action="store_true", help="keep Prefect's state in PostgreSQL")


def pytest_make_parametrize_id(val, argname):
    """Name a long value by its argument: compressed bytes hold a time, and differ between two xdist processes."""
    longest = LONGEST_ID.get(type(val))
    return argname if longest and len(val) > longest else None


SERVERS = {"server", "running_stack", "s3", "gcs", "bucket", "postgres"}  # fixtures that start one
SERVERS_OF = {"server": ["server"], "stack": ["running_stack"]}  # of a group's tests


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests that start servers as slow, and begin with the tests that take longest.

    Tests that share the Prefect server run in one process, so that one server and one cluster are started. The others
    are grouped by their files.
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
    """Collect no garbage while test modules are imported: that took a third of the time. What is imported stays."""
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
    """End a server after the last test of its group: for the rest of a run it would take a tenth of a core."""
    if "PYTEST_XDIST_WORKER" in os.environ and (nextitem is None or group_of(item) != group_of(nextitem)):
        for name in SERVERS_OF.get(group_of(item), ()):
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
    """Give a small corpus that is built: of its output a copy, which the test may change."""
    corpus = copy_of(built_once, tmp_path)
    build_here(corpus.load())  # which looks through the files, as storage says something new of them
    return corpus


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, compiled):
    """Give a corpus of a dozen files with all that a build can have to do.

    Its near-duplicates are verified, and it is against another corpus, which has some of its documents.
    """
    other = another(tmp_path_factory.mktemp("other"))
    corpus = of_two_sources(tmp_path_factory.mktemp("inputs"), 8)
    corpus.recipe["dedup"] = {"verify": {"containment": 0.8}, "against": other}
    return corpus


@pytest.fixture(scope="module")
def undisturbed(inputs, compiled):
    """Give the digests of the files that a build of `inputs` publishes."""
    return published_by_itself(inputs)


@pytest.fixture
def larger(inputs, tmp_path):
    """Give the same corpus, to be built in a folder of the test's own."""
    return inputs.elsewhere(tmp_path)


@pytest.fixture(autouse=True)
def logs_are_heard():
    """Begin each test with our logs as Python has them: libraries that configure logging switch off those of others."""
    logging.disable(logging.NOTSET)
    for name in ("zyda", "textkernels"):
        logging.getLogger(name).disabled = False
    if logging.root.level > logging.WARNING:
        logging.root.setLevel(logging.WARNING)
    for handler in logging.root.handlers:  # a cluster of Dask's that is not closed in time leaves them silent
        handler.setLevel(min(handler.level, logging.WARNING))


@pytest.fixture(scope="module", autouse=True)
def senders_of_this_module():
    """Have Prefect's senders of events and log lines end with the module whose server they know.

    A process has one of each, which stays with the server for which it was started, and another module may
    have another server.
    """
    yield
    if "prefect.events.worker" in sys.modules:
        flush_logs_and_events()


@pytest.fixture(scope="session")
def of_all(tmp_path_factory):
    """Give a folder that the processes of the tests, which run beside each other, share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def compiled(of_all, tmp_path_factory):
    """Compile the kernels once, where no run before has: half a minute for each process that has to."""
    with FileLock(of_all / "compiled.lock"):
        build_here(Corpus(tmp_path_factory.mktemp("compiled")).load())


@pytest.fixture(scope="session")
def prefect_database(of_all):
    """Make an empty database of Prefect once for all tests: every server would take ten seconds for it."""
    home = of_all / "prefect-database"
    with FileLock(of_all / "prefect-database.lock"):
        if not home.exists():
            command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
            subprocess.run(command, env=nothing_named(home), check=True, capture_output=True)
    return home / "prefect.db"


def nothing_named(home):
    """Return the environment of a terminal in which nothing names a server or a cluster."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {**environment, "PREFECT_HOME": str(home)}


@pytest.fixture
def terminal(prefect_database, tmp_path):
    """Give the environments of terminals in which nothing names a server or a cluster, each with a home."""

    def environment(name="home"):
        (tmp_path / name).mkdir()
        shutil.copy(prefect_database, tmp_path / name)
        return nothing_named(tmp_path / name)

    return environment


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory, prefect_database):
    home = tmp_path_factory.mktemp("prefect")
    shutil.copy(prefect_database, home)
    return home


@pytest.fixture(scope="session")
def server(prefect_home, request):
    """Give the address of a Prefect server of these tests' own, also to the processes they start."""
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
    """Bring up one stack for all tests, in a home of its own; give its environment."""
    home = tmp_path_factory.mktemp("stack")
    shutil.copy(prefect_database, home)
    environment = {**nothing_named(home), **IMPATIENT}
    said = zyda("up", "--workers", "2", env=environment)
    assert said.returncode == 0, said.stderr
    request.getfixturevalue("compiled")
    yield environment
    zyda("down", env=environment)


@pytest.fixture(scope="module")
def stack(running_stack):
    """Give the environment of the stack, whose server is that of this process, too."""
    from prefect.settings import PREFECT_HOME, temporary_settings

    home = Path(running_stack["PREFECT_HOME"])
    api = saved_api(home / "zyda")
    with use_api(api), temporary_settings({PREFECT_HOME: home}):
        yield {**running_stack, "PREFECT_API_URL": api.url, "PREFECT_API_SSL_CERT_FILE": api.certificate}


@pytest.fixture(scope="session")
def cluster(server):
    """Give a Dask cluster of two workers that all flows of the tests use."""
    with small_cluster(2) as found:
        yield found


@pytest.fixture
def build(cluster):
    """Give the build flow, on the tests' server and cluster."""
    from zyda_flows.flows.build import build
    from zyda_flows.tasks.stage.runner import task_runner

    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        yield build.with_options(task_runner=task_runner())
