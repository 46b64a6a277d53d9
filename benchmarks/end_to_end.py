"""Measure a whole build without a classifier: MB/s of one core, and the share of each stage.

The text is real, and multiplied without near-duplicates (`corpora.multiplied`).
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from benchmarks.corpora import SOURCES, build_here, in_folders, load_texts, write_multiplied, write_recipe
from benchmarks.harness import DEMO, DEMO_TOKENIZER, Size, Table, TextsFolder, TokenizerFile, benchmark, timed
from benchmarks.processes import Usage

ZYDA1 = [{"clean": "zyda1"}, {"filter": "zyda1"}]


def by_pyarrow(folder: Path) -> float:
    """Return the seconds in which pyarrow reads and writes the text twice, as ingest and publish do."""
    reading = writing = 0.0
    for path in (path for source in SOURCES for path in sorted((folder / source).glob("*.parquet"))):
        parquet = pq.ParquetFile(path)
        with pq.ParquetWriter(folder / "again.parquet", parquet.schema_arrow, compression="zstd") as writer:
            for group in range(parquet.num_row_groups):
                table, spent = timed(
                    lambda group=group, file=parquet: file.read_row_group(group, use_threads=False)
                )
                reading += spent
                writing += timed(lambda table=table: writer.write_table(table, row_group_size=len(table)))[1]
    return 2 * (reading + writing)


def with_prefect(recipe_path: str) -> tuple[float, float]:
    """Build as `zyda build` does; return the seconds of the flow and the GiB of the largest worker."""
    from zyda_flows.flows.server.local_server import prefect_server

    with prefect_server():
        from zyda_flows.flows.build import build  # Prefect reads its settings when it is imported

        with Usage(psutil.Process()).watched() as usage:
            _, spent = timed(lambda: build(recipe_path))
        return spent, usage.worker_peak / 1024


@benchmark("end_to_end")
def measure(
    folder: TextsFolder = DEMO, tokenizer: TokenizerFile = DEMO_TOKENIZER, gigabytes: Size = 0.2
) -> Iterator[Table]:
    with tempfile.TemporaryDirectory(prefix="zyda-bench-") as scratch:
        place = Path(scratch)
        size = write_multiplied(place, load_texts(folder, megabytes=100), gigabytes)

        def recipe(name: str, **fields: object) -> str:
            return write_recipe(
                place, name, in_folders(SOURCES), tokenizer=str(tokenizer.resolve()), **fields
            )

        spent = build_here(recipe("one-core"))
        ingest_with_steps = build_here(recipe("steps", documents=ZYDA1))["ingest"]
        floor = by_pyarrow(place)
        together, peak = with_prefect(recipe("all-cores"))
    total, cores = sum(spent.values()), psutil.cpu_count() or 1
    lines = [(name, seconds, total) for name, seconds in (spent | {"all, one core": total}).items()]
    with_steps = total - spent["ingest"] + ingest_with_steps
    lines.append(("ingest with the steps of Zyda-1", ingest_with_steps, with_steps))
    lines.append(("pyarrow alone, reading and writing twice", floor, total))
    rows = [
        {
            "stage": name,
            "seconds": seconds,
            "share, %": 100 * seconds / whole,
            "MB/s of one core": size / seconds,
        }
        for name, seconds, whole in lines
    ]
    rows.append({
        "stage": f"all, {cores} workers with Prefect and Dask", "seconds": together, "share, %": float("nan"),
        "MB/s of one core": size / together / cores,
    })  # fmt: skip
    yield Table(f"end to end, {size:,.0f} MB of text; largest worker {peak:.2f} GiB", rows)


if __name__ == "__main__":
    measure.main()
