"""A build against a Prefect server that keeps its state in PostgreSQL, as a team's does."""

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
    """Give the address of the API of such a server, with a home of its own."""
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
    said = subprocess.run(["psql", address, "-tAc", query], capture_output=True, text=True, check=True)
    return said.stdout.split("\n")[:-1]


def count(database, query):
    return int(rows_of(database, query)[0])


def tasks_in(database, state):
    named = "select name from task_run where state_name = "
    return sorted(rows_of(database, f"{named}'{state}'"))


def test_build_and_its_second_run_with_prefects_state_in_postgresql(corpus, url, database, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", url)
    for _ in range(2):
        done = zyda("build", corpus.write())
        assert done.returncode == 0, done.stderr
        corpus.load().folder.delete("work/built.json")  # else the second would not ask Prefect at all
    undisturbed = corpus.load(storage=str(corpus.folder / "undisturbed"))
    build_here(undisturbed)
    assert contents(corpus.load()) == contents(undisturbed)
    assert count(database, "select count(*) from flow_run where state_type = 'COMPLETED'") == 2
    pages = "select count(*) from artifact where type = 'markdown'"
    assert count(database, pages) == 6  # a page, the accounts and the report each
    always = ["accounts", "corpus", "note", "prepare", "report"]
    assert sorted(tasks_in(database, "Cached") + 2 * always) == tasks_in(database, "Completed")
