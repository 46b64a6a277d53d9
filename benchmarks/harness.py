"""Run benchmarks: declare their command line, time calls, print tables and save them below benchmarks/results.

A benchmark is a function that yields tables. A module declares it as

    @benchmark("signatures")
    def measure(texts: TextsFolder = DEMO) -> Iterator[Table]: ...

    if __name__ == "__main__":
        measure.main()

The parameters (inputs, sizes, the Python of another tool) are the arguments of the command. The docstring of the
module is its help. The default sizes are small: `python -m benchmarks.all` measures with them.
"""

import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import wraps
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import typer

REPOSITORY = Path(__file__).parent.parent
RESULTS = REPOSITORY / "benchmarks/results"
DEMO = REPOSITORY / "demo/sources"
DEMO_TOKENIZER = REPOSITORY / "recipes/models/demo-tokenizer.json"

TextsFolder = Annotated[
    Path, typer.Argument(help="Folder of Parquet, Arrow or compressed JSON Lines files with a column `text`.")
]
TokenizerFile = Annotated[Path, typer.Argument(help="A tokenizer.json.")]
Size = Annotated[float, typer.Argument(help="Size of the measurement.")]
OtherPython = Annotated[
    str, typer.Argument(help="Python of an environment with datatrove; empty: not measured.")
]
InputFolder = Annotated[Path, typer.Argument(help="Folder with the input, as described above.")]
InputFile = Annotated[Path, typer.Argument(help="Input file, as described above.")]

Row = dict[str, str | float]
Result = TypeVar("Result")

DATATROVE_SPEEDS = """
import sys, time
import pyarrow.parquet as pq
from datatrove.data import Document
{imports}
texts = pq.read_table(sys.argv[1]).column("text").to_pylist()
for name, call in {calls}.items():
    call(texts[0])
    spent, size = 0.0, 0
    for text in texts:
        start = time.perf_counter()
        call(text)
        spent += time.perf_counter() - start
        size += len(text.encode())
        if spent > {limit}:
            break
    print(name, size / 1e6 / spent)
"""


class Table(NamedTuple):
    """One table of results: all rows have the keys of the first."""

    title: str
    rows: list[Row]


class Benchmark:
    """A function that yields tables, and its command line."""

    def __init__(self, name: str, measure: Callable[..., Iterable[Table]], *, as_worker: bool) -> None:
        self.name, self.measure, self.as_worker = name, measure, as_worker

    def run(self, *arguments: Any, **options: Any) -> list[Table]:
        """Measure; print each complete table as Markdown, and save all tables as NAME.json."""
        tables = list[Table]()
        for table in self.measure(*arguments, **options):
            print(f"{table.title}\n\n{markdown(table.rows)}\n")
            tables.append(table)
            save(self.name, tables)
        return tables

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run the benchmark as a command: with some arguments, or with those of this process."""
        if arguments is None and self.as_worker:
            restart_as_worker()

        @wraps(self.measure)
        def command(**options: Any) -> None:
            self.run(**options)

        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command(help=sys.modules[self.measure.__module__].__doc__)(command)
        app(arguments, prog_name=f"python -m benchmarks.{self.name}", standalone_mode=arguments is None)


def benchmark(name: str, *, as_worker: bool = True) -> Callable[[Callable[..., Iterable[Table]]], Benchmark]:
    """Declare a function as a benchmark.

    name: of the module, and of the file with the results.
    as_worker: measure in a process with the memory allocator's settings of the workers of a build.
    """
    return lambda measure: Benchmark(name, measure, as_worker=as_worker)


def restart_as_worker() -> None:
    """Replace this process by the same command with the allocator's settings of workers, unless it has them."""
    from zyda_flows.tasks.workers.dask_cluster import ALLOCATOR  # late: benchmarks.gpu needs no Dask

    settings = {name: str(value) for name, value in ALLOCATOR.items()}
    if not settings.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **settings})


def shortest_time(
    call: Callable[[], object], repeat: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of the fastest of `repeat` calls."""
    return min(timed(call, clock)[1] for _ in range(repeat))


def timed(call: Callable[[], Result], clock: Callable[[], float] = time.perf_counter) -> tuple[Result, float]:
    """Call a function; return its result and the seconds it took."""
    start = clock()
    result = call()
    return result, clock() - start


def peak_mib() -> float:
    """Return the largest resident memory that this process had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_new_process(call: Callable[[], Result], environment: Mapping[str, str] | None = None) -> Result:
    """Call an importable function in a new process, with additional environment variables."""
    with (
        mock.patch.dict(os.environ, environment or {}),
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        return pool.submit(call).result()


def run_tool(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Run another tool in a folder; return its output. Raises SystemExit with the end of its errors.

    variables: added to the environment.
    """
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", **variables}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr[-3000:])
    return ended.stdout


def datatrove_speeds(
    python: str, imports: str, calls: str, limit: float, texts: pa.LargeStringArray
) -> dict[str, float]:
    """Return the MB/s of functions of datatrove, by name.

    python: of an environment with datatrove.
    imports, calls: Python code; `calls` is a dictionary of functions that take a text.
    limit: seconds after which a function is given no further text.
    """
    script = DATATROVE_SPEEDS.format(imports=imports, calls=calls, limit=limit)
    with tempfile.TemporaryDirectory() as scratch:
        pq.write_table(pa.table({"text": texts}), f"{scratch}/texts.parquet")
        output = run_tool([python, "-c", script, "texts.parquet"], Path(scratch))
    return {name: float(speed) for name, speed in (line.rsplit(maxsplit=1) for line in output.splitlines())}


def save(name: str, tables: Iterable[Table]) -> None:
    """Write tables to benchmarks/results/NAME.json, with the name of the machine."""
    RESULTS.mkdir(exist_ok=True)
    machine = f"{platform.machine()}, {platform.processor()}"
    content = {"machine": machine, "tables": [table._asdict() for table in tables]}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1))


def markdown(rows: list[Row]) -> str:
    """Return rows as a table of Markdown. NaN is an empty cell."""
    names = list(rows[0])
    lines = [names, ["---" if isinstance(rows[0][name], str) else "---:" for name in names]]
    lines += [[markdown_cell(row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown_cell(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
