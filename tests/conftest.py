"""What the tests share: a small corpus, a real Prefect server, a real Dask cluster."""

import os

import dask
import distributed
import pytest
from object_stores import gcs, s3  # noqa: F401 (fixtures)
from postgres import postgres  # noqa: F401 (fixture)
from small_corpus import SHARED, Corpus

from flows.local_server import free_port, start_server, wait_until_healthy


def pytest_addoption(parser):
    parser.addoption("--postgres", action="store_true", help="keep Prefect's state in PostgreSQL")


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
    os.environ["PREFECT_HOME"] = str(prefect_home)
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
