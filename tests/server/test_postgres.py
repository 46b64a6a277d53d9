"""A build with a Prefect server that keeps its state in PostgreSQL, like the server of a team."""

import subprocess

import pytest
from small_corpus import build_here, contents, zyda

from zyda_flows.flows.server.local_server import start_server, wait_until_healthy
from zyda_flows.tasks.workers.ports import free_port

pytestmark = pytest.mark.early(7)


@pytest.fixture
def database(postgres):
    return postgres("prefect")


@pytest.fixture
def url(database, tmp_path, monkeypatch):
    """Yield the address of the API of a server with PostgreSQL and a temporary home."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", database)
    log = tmp_path / "home/server.log"
    process, api = start_server(free_port(), log)
    wait_until_healthy(process, api, log)
    for name, value in api.clients.items():
        monkeypatch.setenv(name, value)
    yield api.url
    process.terminate()
    process.wait()


def rows_of(database, query):
    address = database.replace("postgresql+asyncpg", "postgresql")
    process = subprocess.run(["psql", address, "-tAc", query], capture_output=True, text=True, check=True)
    return process.stdout.split("\n")[:-1]


def count(database, query):
    return int(rows_of(database, query)[0])


def tasks_in(database, state):
    query = "select name from task_run where state_name = "
    return sorted(rows_of(database, f"{query}'{state}'"))


def test_second_build_with_postgresql_is_cached(corpus, url, database, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", url)
    for _ in range(2):
        finished = zyda("build", corpus.write())
        assert finished.returncode == 0, finished.stderr
        corpus.load().folder.delete("work/built.json")  # otherwise the second build would not use Prefect
    undisturbed = corpus.load(storage=str(corpus.folder / "undisturbed"))
    build_here(undisturbed)
    assert contents(corpus.load()) == contents(undisturbed)
    assert count(database, "select count(*) from flow_run where state_type = 'COMPLETED'") == 2
    pages = "select count(*) from artifact where type = 'markdown'"
    assert count(database, pages) == 6  # the page, the accounts and the report of two builds
    always = ["accounts", "corpus", "note", "prepare", "report"]
    assert sorted(tasks_in(database, "Cached") + 2 * always) == tasks_in(database, "Completed")
