"""Measure Prefect and Dask: seconds, CPU-seconds, requests and memory of builds of very small corpora.

Each source is a file of a few documents. `zyda build` runs in a new process, as from a terminal, with a Prefect
server that only this benchmark uses: first; again, without the record of the finished build, so that the whole
flow runs and each stage finds its results; and once more, with nothing to do.

--simulate measures the flow with stages that do nothing (benchmarks/simulation.py), first and again.

CPU-seconds are sampled every 0.2 s, so the last 0.2 s of a process may be missing. Memory is the resident memory
of the process of the flow, and of the server. Requests are the lines of the server's access log.
"""

import json
import os
import random
import re
import string
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import psutil
import typer

from benchmarks.corpora import write_recipe
from benchmarks.harness import REPOSITORY, Row, Table, benchmark
from benchmarks.processes import Usage, run_watched
from zyda_flows.flows.server.local_server import export_api, start_server, wait_until_healthy
from zyda_flows.tasks.workers.ports import free_port

DOCUMENTS, WORDS = 4, 200  # of a source; of a document
PAGE = 200  # task runs of a request
REQUEST = re.compile(rb'"[A-Z]+ \S+ HTTP/[\d.]+" \d{3}')
ACCESS_LOG = {
    "PREFECT_SERVER_LOGGING_LEVEL": "INFO"
}  # uvicorn's level; it has precedence over our own setting
BUILD = [sys.executable, "-m", "zyda_flows", "build"]
SIMULATION = "from benchmarks.simulation import simulate; simulate({!r}, {}, {})"


class PrefectServer(NamedTuple):
    """A server that only this benchmark uses."""

    process: psutil.Process
    log: Path

    def requests(self) -> int:
        return len(REQUEST.findall(self.log.read_bytes()))


@contextmanager
def prefect_server(folder: Path) -> Iterator[PrefectServer]:
    """Start a Prefect server with an empty database, and make child processes use it."""
    os.environ.update({"PREFECT_HOME": str(folder), **ACCESS_LOG})
    log = folder / "server.log"
    process, api = start_server(free_port(), log)
    try:
        wait_until_healthy(process, api, log)
        with export_api(api):
            yield PrefectServer(psutil.Process(process.pid), log)
    finally:
        process.terminate()
        process.wait()


def write_corpus(folder: Path, sources: int) -> Path:
    """Write a recipe with a file for each source, and a document that all sources share; return its path."""
    chance = random.Random(0)

    def document() -> str:
        return " ".join("".join(chance.choices(string.ascii_lowercase, k=6)) for _ in range(WORDS))

    folder.mkdir()
    shared = document()
    for i in range(sources):
        texts = [shared, *(document() for _ in range(DOCUMENTS - 1))]
        (folder / f"s{i}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return Path(write_recipe(folder, f"of-{sources}", {f"s{i}": f"s{i}.jsonl" for i in range(sources)}))


def measure_command(command: list[str], server: PrefectServer) -> Row:
    """Run a build as a command; return its costs."""
    requests, server_usage = server.requests(), Usage(server.process)
    server_usage.sample()
    before, began = server_usage.cpu_seconds(), datetime.now(UTC)
    with server_usage.watched():
        seconds, build_usage = run_watched(command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    requests = server.requests() - requests
    tasks = task_starts(began)
    return {
        "seconds": seconds, "to the first task": (min(tasks) - began).total_seconds() if tasks else float("nan"),
        "task runs": len(tasks), "CPU-s, build": build_usage.cpu_seconds(),
        "CPU-s, server": server_usage.cpu_seconds() - before, "requests": requests,
        "MiB, flow": build_usage.peak, "MiB, server": server_usage.peak,
    }  # fmt: skip


def task_starts(since: datetime) -> list[datetime]:
    """Return the start times of the task runs of all flow runs that started after a time."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    starts = list[datetime]()
    with get_client(sync_client=True) as client:
        after = FlowRunFilter.model_validate({"start_time": {"after_": since.isoformat()}})
        while True:
            runs = client.read_task_runs(flow_run_filter=after, limit=PAGE, offset=len(starts))
            starts += [run.start_time or run.created or since for run in runs]
            if len(runs) < PAGE:
                return starts


def measure_builds(folder: Path, sources: int, server: PrefectServer) -> Iterator[Row]:
    recipe = write_corpus(folder / f"of-{sources}", sources)
    for kind in ("first", "again", "nothing to do"):
        if kind == "again":
            next(recipe.parent.glob("out/*/work/built.json")).unlink()
        yield {"sources": f"{sources:,}", "build": kind, **measure_command([*BUILD, str(recipe)], server)}


def measure_simulations(folder: Path, size: str, server: PrefectServer) -> Iterator[Row]:
    sources, files = map(int, size.split("x"))
    recipe = str(write_corpus(folder / f"simulated-{size}", 1))
    command = [sys.executable, "-c", SIMULATION.format(recipe, sources, files)]
    for kind in ("first", "again"):
        yield {"sources": f"{sources:,} x {files:,}", "build": kind, **measure_command(command, server)}


@benchmark("orchestration", as_worker=False)
def measure(
    sources: Annotated[list[int], typer.Option(help="Numbers of sources; repeat the option.")] = [1, 20],  # noqa: B006
    simulate: Annotated[list[str], typer.Option(metavar="SOURCESxFILES", help="Simulated builds.")] = [],  # noqa: B006
    postgres: Annotated[
        str, typer.Option(metavar="URL", help="Database of the server, instead of SQLite.")
    ] = "",
) -> Iterator[Table]:
    if postgres:
        os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = postgres
    with (
        tempfile.TemporaryDirectory(prefix="zyda-bench-") as scratch,
        prefect_server(Path(scratch) / "home") as server,
    ):
        folder = Path(scratch)
        rows = [row for count in sources for row in measure_builds(folder, count, server)]
        rows += [row for size in simulate for row in measure_simulations(folder, size, server)]
    database = "PostgreSQL" if postgres else "SQLite"
    yield Table(f"orchestration, {psutil.cpu_count()} cores, {database}", rows)


if __name__ == "__main__":
    measure.main()
