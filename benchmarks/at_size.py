"""Measure a mixture, the report and a removal of a corpus of many clustered documents, with a limit of memory.

Documents with texts of 20 bytes are generated, nearly all of them in clusters of equal texts, from pairs to tens of
thousands. `zyda build` makes a corpus of them; then `zyda mix` with `repeat` and `validation`, `zyda report` and
`zyda forget` with a list of addresses run, each in new processes. No process may reserve more than LIMIT GiB of
address space (RLIMIT_AS). FOLDER keeps the corpus of each number of documents, where an interrupted run continues.
"""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
import yaml
from numpy.typing import NDArray

from benchmarks.corpora import in_folders, write_recipe
from benchmarks.harness import DEMO_TOKENIZER, REPOSITORY, Row, Size, Table, benchmark
from benchmarks.processes import run_watched

SOURCES = {"best": 0.95, "other": 0.05}  # shares of the documents
FILE_DOCUMENTS = 1_000_000
DOCUMENTS_PER_CLUSTER = 8  # on average
GOLDEN, LETTERS = np.uint64(0x9E3779B97F4A7C15), 10  # of half a text
ADDRESS = b"https://example.org/000000000000"
# The allocator reserves 64 MiB of address space for each thread, which no thread needs.
VARIABLES = {"ZYDA_ENGINE": "cpu", "MALLOC_ARENA_MAX": "2"}
# A text is a single shingle, so that equal texts have equal signatures of any size.
DEDUP = {"bands": 1, "rows": 2, "scope": "across"}
MIXTURE = {
    "name": "mixed", "storage": "mixed", "corpora": "out/clustered", "end": "<|endoftext|>",
    "tokenizer": str(DEMO_TOKENIZER), "parts": [{"name": "all", "epochs": 1}],
    "repeat": {1: 1, 2: 2, 100: 3}, "validation": {"share": 0.01},
}  # fmt: skip


def generated_documents(start: int, count: int, documents: int) -> pa.Table:
    """Return `count` of `documents` documents, from the number `start` on, with a text and an address each.

    The square of a random number chooses the cluster, so that clusters have very different sizes.
    """
    clusters = max(1, documents // DOCUMENTS_PER_CLUSTER)
    cluster = (clusters * np.random.default_rng(start).random(count) ** 2).astype(np.uint64)
    halves = [letters_of((cluster * np.uint64(2) + np.uint64(half)) * GOLDEN) for half in (0, 1)]
    digits = np.arange(start, start + count)[:, None] // 10 ** np.arange(11, -1, -1) % 10
    addresses = np.tile(np.frombuffer(ADDRESS, np.uint8), (count, 1))
    addresses[:, -12:] += digits.astype(np.uint8)
    return pa.table({"url": strings(addresses), "text": strings(np.concatenate(halves, axis=1))})


def letters_of(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return LETTERS letters for each number: (n, LETTERS)."""
    places = np.uint64(26) ** np.arange(LETTERS, dtype=np.uint64)
    return (97 + numbers[:, None] // places % np.uint64(26)).astype(np.uint8)


def strings(characters: NDArray[np.uint8]) -> pa.LargeStringArray:
    """Return the rows of (n, width) ASCII characters as strings."""
    count, width = characters.shape
    offsets = np.arange(0, (count + 1) * width, width)
    data = np.ascontiguousarray(characters)
    return pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


def write_documents(folder: Path, documents: int) -> None:
    """Write the Parquet files of all sources, and the list of at most 1,000 addresses to remove."""
    start = 0
    for source, share in SOURCES.items():
        (folder / source).mkdir(parents=True, exist_ok=True)
        end = start + round(documents * share)
        for first in range(start, end, FILE_DOCUMENTS):
            table = generated_documents(first, min(FILE_DOCUMENTS, end - first), documents)
            pq.write_table(table, folder / source / f"{first:012d}.parquet", compression="zstd")
        start = end
    removed = range(0, documents, max(1000, documents // 1000))
    (folder / "requests.txt").write_text("".join(f"{ADDRESS[:-12].decode()}{i:012d}\n" for i in removed))


def measure_command(name: str, arguments: list[str | Path], limit: float) -> Row:
    """Run a zyda command whose processes have a limit of address space in GiB; return its costs."""
    size = int(limit * 2**30)
    seconds, usage = run_watched(
        [sys.executable, "-m", "zyda_flows", name, *arguments], cwd=REPOSITORY, env={**os.environ, **VARIABLES},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )  # fmt: skip
    return {
        "command": f"zyda {name}", "seconds": seconds, "CPU s": usage.cpu_seconds(),
        "flow, MiB": usage.peak, "largest worker, MiB": usage.worker_peak,
    }  # fmt: skip


@benchmark("at_size", as_worker=False)
def measure(
    folder: Annotated[Path, typer.Argument(help="Folder for the corpus; about 300 bytes a document.")],
    documents: Size = 1e5,
    limit: Annotated[float, typer.Option(help="GiB of address space of each process.")] = 3,
) -> Iterator[Table]:
    folder = folder.resolve() / f"{documents:.0f}"
    if not (folder / "requests.txt").exists():
        write_documents(folder, int(documents))
    recipe = write_recipe(folder, "clustered", in_folders(SOURCES), dedup=DEDUP)
    mixture = folder / "mixture.yaml"
    mixture.write_text(yaml.safe_dump(MIXTURE))
    rows = [
        measure_command(name, arguments, limit)
        for name, arguments in {
            "build": [recipe],
            "mix": [mixture],
            "report": [recipe],
            "forget": [recipe, "--urls", folder / "requests.txt", "--yes"],
        }.items()
    ]
    yield Table(f"{documents:,.0f} clustered documents, address space of {limit:g} GiB", rows)


if __name__ == "__main__":
    measure.main()
