"""What the tests share: a small corpus, a real Prefect server, a real Dask cluster."""

import os
from pathlib import Path

import dask
import distributed
import pytest
from object_stores import gcs, s3  # noqa: F401 (fixtures)
from postgres import postgres  # noqa: F401 (fixture)
from small_corpus import SHARED, Corpus, zyda

from deployments.local import Stack
from flows.local_server import free_port, start_server, wait_until_healthy

os.environ["HF_HUB_OFFLINE"] = "1"  # no test asks the hub, and none waits for it

# What takes a minute of patience for people takes a moment here.
IMPATIENT = {
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "1",
    "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
}


def pytest_addoption(parser):
    parser.addoption("--postgres", action="store_true", help="keep Prefect's state in PostgreSQL")


SERVERS = {
    "server",
    "cluster",
    "build",
    "stack",
    "running_stack",
    "s3",
    "gcs",
    "bucket",
    "broken_s3",
    "postgres",
}
LONG = {"test_cli", "test_cluster", "test_faults", "test_flow", "test_rate", "test_schedules", "test_stack"}
# Files whose tests run one after another, for what they share; those that take longest come first.
TOGETHER = {"test_schedules": "stack", "test_stack": "stack", "test_faults": "stack"}
LONGEST_FIRST = (
    "stack",
    "test_flow",
    "test_inputs",
    "test_damage",
    "test_stores",
    "test_postgres",
    "test_sweep",
)


def group_of(nodeid):
    stem = nodeid.partition("::")[0].rpartition("/")[2].removesuffix(".py")
    return TOGETHER.get(stem, stem)


def pytest_collection_modifyitems(items):
    """Mark as slow what starts servers or commands or computes for long; begin with what takes longest."""
    for item in items:
        if item.path.stem in LONG or SERVERS & set(item.fixturenames):
            item.add_marker("slow")
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(group_of(item.nodeid), len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each of the processes that run tests beside each other a group at a time."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.fixture(scope="session")
def shared():
    if not (SHARED / "corpora").is_dir():
        pytest.skip("needs ../shared/corpora, which is not part of the project")
    return SHARED


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory):
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="session")
def server(prefect_home, request):
    """Give the address of a Prefect server of these tests' own, also to the processes they start."""
    os.environ.update(IMPATIENT, PREFECT_HOME=str(prefect_home))
    if request.config.getoption("postgres"):
        os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = request.getfixturevalue("postgres")("tests")
    log = prefect_home / "server.log"
    process, url = start_server(free_port(), log)
    wait_until_healthy(process, url, log)
    os.environ["PREFECT_API_URL"] = url
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    with temporary_settings({PREFECT_API_URL: url, PREFECT_HOME: prefect_home}):
        yield url
    process.terminate()
    process.wait(20)


@pytest.fixture(scope="session")
def running_stack(tmp_path_factory):
    """Bring up one stack for all tests, in a home of its own; give its environment."""
    home = tmp_path_factory.mktemp("stack")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": str(home), **IMPATIENT}
    said = zyda("up", "--workers", "2", env=environment)
    assert said.returncode == 0, said.stderr
    yield environment
    zyda("down", env=environment)


@pytest.fixture(scope="module")
def stack(running_stack):
    """Give the environment of the stack, whose server is that of this process, too."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    home = Path(running_stack["PREFECT_HOME"])
    url = Stack.model_validate_json((home / "zyda/stack.json").read_text()).parts["server"].address
    with temporary_settings({PREFECT_API_URL: url, PREFECT_HOME: home}):
        yield {**running_stack, "PREFECT_API_URL": url}


@pytest.fixture(scope="session")
def cluster(server):
    """Give a Dask cluster of two workers that all flows of the tests use."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found


@pytest.fixture
def build(cluster):
    """Give the build flow, on the tests' server and cluster."""
    from flows.build import build
    from tasks.cluster import task_runner

    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        yield build.with_options(task_runner=task_runner())
