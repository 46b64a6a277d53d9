"""What the measurements share: text that every machine has, a clock, a table."""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect, read
from zyda_flows.tasks.workers.dask_cluster import ALLOCATOR

REPOSITORY = Path(__file__).parent.parent
DEMO = REPOSITORY / "demo/sources"
RESULTS = REPOSITORY / "benchmarks/results"
PATTERNS = ("**/*.parquet", "**/*.jsonl.*", "**/*.arrow")


def as_workers_are() -> None:
    """Start this command again with the allocator's settings of a build's workers, unless it has them."""
    wanted = {name: str(value) for name, value in ALLOCATOR.items()}
    if not wanted.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **wanted})


def load_texts(folder: Path = DEMO, megabytes: float = 30) -> pa.LargeStringArray:
    """Return real texts, `megabytes` of UTF-8 of them, or all that there are."""
    files = [
        path for pattern in PATTERNS for path in sorted(folder.glob(pattern)) if path.suffix != ".sha256"
    ]
    if not files:
        raise SystemExit(f"{folder}: no text there; run `make run` first, or name a folder of datasets")
    source = Source(name="text", files=tuple(map(str, files)))
    chunks, size = list[pa.Array](), 0
    for file in list_files(source):
        for piece in inspect("text", file, "text", 1 << 30, may_be_bad=True).file.pieces:
            for chunk in read("text", file, piece, "text"):
                column = chunk.table.column("text").combine_chunks()
                size += pc.sum(pc.binary_length(column)).as_py() or 0
                chunks.append(column)
        if size > megabytes * 1e6:
            break
    return pa.concat_arrays(chunks)


def megabytes_of(texts: pa.LargeStringArray) -> float:
    return float(pc.sum(pc.binary_length(texts)).as_py()) / 1e6


def seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Return the shortest time of a call, after one to warm up where it is repeated."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def show(title: str, rows: list[dict[str, str | float]]) -> None:
    """Print a table, and save it with the machine's name under benchmarks/results."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(value if isinstance(value, str) else f"{value:,.3g}" for value in row.values()))
    Console(width=110).print(table)
    keep(title, rows)


def keep(title: str, rows: list[dict[str, str | float]]) -> None:
    """Save a table with the machine's name under benchmarks/results."""
    RESULTS.mkdir(exist_ok=True)
    content = {"title": title, "machine": f"{platform.machine()}, {platform.processor()}", "rows": rows}
    name = "".join(c if c.isalnum() else "-" for c in title.split(",")[0].lower())
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1))


def markdown(rows: list[dict[str, str | float]]) -> str:
    """Write a table as Markdown; what is not a number of anything is left out."""
    names = list(rows[0])
    lines = [names, ["---" if isinstance(rows[0][name], str) else "---:" for name in names]]
    lines += [[shown(row[name]) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"
