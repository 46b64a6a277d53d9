"""What Prefect and Dask cost: seconds, CPU-seconds, requests and memory of builds with next to nothing to build.

python -m benchmarks.orchestration [--sources 1 20 200] [--simulate 300x500] [--postgres URL]

Each source is one file of a few documents. `zyda build` runs in a process of its own, as from a terminal, against a
Prefect server of this measurement's: first; again without the note of what was built, so that the whole flow runs
and every stage finds that it is finished; and once more, when there is nothing to do.

--simulate SOURCESxFILES measures orchestration alone, on stages that do nothing: see benchmarks/simulation.py.

CPU-seconds are sampled every 0.2 s, so that what a process does in its last moment is not in them. Memory is what
is resident of the process that runs the flow, and of the server; requests are lines of the server's access log.
"""

import argparse
import json
import os
import random
import re
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import psutil
import yaml

from benchmarks.measure import REPOSITORY, keep, markdown
from zyda_flows.flows.server.local_server import export_api, start_server, wait_until_healthy
from zyda_flows.tasks.workers.ports import free_port

DOCUMENTS, WORDS = 4, 200  # of a source; of a document
SAMPLE_SECONDS = 0.2
PAGE = 200
REQUEST = re.compile(rb'"[A-Z]+ \S+ HTTP/[\d.]+" \d{3}')
ACCESS_LOG = {"PREFECT_SERVER_LOGGING_LEVEL": "INFO"}  # which uvicorn takes over; it is heard before our own
TOKENIZER = REPOSITORY / "recipes/models/demo-tokenizer.json"
BUILD = [sys.executable, "-m", "zyda_flows", "build"]
SIMULATION = "from benchmarks.simulation import simulate; simulate({!r}, {}, {})"


class PrefectServer(NamedTuple):
    """A server of this measurement's own."""

    process: psutil.Process
    log: Path

    def requests(self) -> int:
        return len(REQUEST.findall(self.log.read_bytes()))


class Spent:
    """What processes have used so far: CPU-seconds of them and of all that they start, and their peak memory."""

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self.seconds = dict[tuple[int, float], float]()
        self.peak = 0

    def sample(self) -> None:
        for process in (self.root, *self.descendants()):
            try:
                times = process.cpu_times()
                self.seconds[process.pid, process.create_time()] = times.user + times.system
                if process == self.root:
                    self.peak = max(self.peak, process.memory_info().rss)
            except psutil.Error:
                continue

    def descendants(self) -> list[psutil.Process]:
        try:
            return list(self.root.children(recursive=True))
        except psutil.Error:
            return []

    def total(self) -> float:
        return sum(self.seconds.values())


@contextmanager
def server_of_its_own(folder: Path) -> Iterator[PrefectServer]:
    """Start a Prefect server with an empty database, and have what is started next use it."""
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
    """Write a recipe of so many sources with a file each; some documents are in two of them. Return its path."""
    chance = random.Random(0)

    def document() -> str:
        return " ".join("".join(chance.choices(string.ascii_lowercase, k=6)) for _ in range(WORDS))

    folder.mkdir()
    shared = document()
    for i in range(sources):
        texts = [shared, *(document() for _ in range(DOCUMENTS - 1))]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"s{i}.jsonl").write_text(lines)
    path = folder / "recipe.yaml"
    named = [{"name": f"s{i}", "files": f"s{i}.jsonl"} for i in range(sources)]
    recipe = {"name": f"of-{sources}", "storage": "out", "tokenizer": str(TOKENIZER), "sources": named}
    path.write_text(yaml.safe_dump(recipe))
    return path


def measured(command: list[str], server: PrefectServer) -> dict[str, str | float]:
    """Run a build in a process of its own; return what it cost."""
    requests, of_server = server.requests(), Spent(server.process)
    of_server.sample()
    before, began, start = of_server.total(), datetime.now(UTC), time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        of_build = Spent(psutil.Process(process.pid))
        while process.poll() is None:
            of_build.sample()
            of_server.sample()
            time.sleep(SAMPLE_SECONDS)
        spent = time.perf_counter() - start
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{said.read().decode()[-4000:]}")
    of_server.sample()
    requests = server.requests() - requests
    tasks = task_starts(began)
    return {
        "seconds": spent,
        "to the first task": (min(tasks) - began).total_seconds() if tasks else float("nan"),
        "task runs": len(tasks),
        "CPU-s, build": of_build.total(),
        "CPU-s, server": of_server.total() - before,
        "requests": requests,
        "MiB, flow": of_build.peak / 2**20,
        "MiB, server": of_server.peak / 2**20,
    }


def task_starts(since: datetime) -> list[datetime]:
    """Return when the task runs of the builds since a moment started, or were found to be finished."""
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


def builds(folder: Path, sources: int, server: PrefectServer) -> Iterator[dict[str, str | float]]:
    """Build a corpus for the first time, again, and when there is nothing to do; yield what each cost."""
    recipe = write_corpus(folder / f"of-{sources}", sources)
    for when in ("first", "again", "nothing to do"):
        if when == "again":
            next(recipe.parent.glob("out/*/work/built.json")).unlink()
        yield {"sources": f"{sources:,}", "build": when, **measured([*BUILD, str(recipe)], server)}


def simulations(
    folder: Path, sources: int, files: int, server: PrefectServer
) -> Iterator[dict[str, str | float]]:
    """Run the flow on stages that do nothing, first and again; yield what each cost."""
    recipe = str(write_corpus(folder / f"simulated-{sources}-{files}", 1))
    command = [sys.executable, "-c", SIMULATION.format(recipe, sources, files)]
    for when in ("first", "again"):
        yield {"sources": f"{sources:,} x {files:,}", "build": when, **measured(command, server)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what orchestration costs.")
    parser.add_argument("--sources", type=int, nargs="*", default=[1, 20])
    parser.add_argument("--simulate", nargs="*", default=[], metavar="SOURCESxFILES")
    parser.add_argument("--postgres", metavar="URL", help="keep Prefect's state there, and not in SQLite")
    asked = parser.parse_args(arguments)
    if asked.postgres:
        os.environ["PREFECT_API_DATABASE_CONNECTION_URL"] = asked.postgres
    with (
        tempfile.TemporaryDirectory(prefix="zyda-bench-") as scratch,
        server_of_its_own(Path(scratch) / "home") as server,
    ):
        folder = Path(scratch)
        rows = [row for sources in asked.sources for row in builds(folder, sources, server)]
        for size in asked.simulate:
            sources, files = map(int, size.split("x"))
            rows += simulations(folder, sources, files, server)
    title = f"orchestration, {psutil.cpu_count()} cores, {'PostgreSQL' if asked.postgres else 'SQLite'}"
    print(markdown(rows))
    keep(title, rows)


if __name__ == "__main__":
    main()
