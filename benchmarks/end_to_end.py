"""The whole build without a classifier, from ingest to publish: MB/s of one core, and each stage's share.

python -m benchmarks.end_to_end [FOLDER] [TOKENIZER.JSON] [GIGABYTES]

Real text is multiplied without making near-duplicates: every copy of a document but the first has its
lines from all over the text, and one word in 200 is a word that stands nowhere else.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, megabytes_of, show
from zyda_flows.tasks import pipeline
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe

SOURCES = ("best", "middle", "worst")
FILE_MEGABYTES = 800  # more than a shard, as the files of the hub sometimes are
ROW_GROUP = 5_000
WORDS_FOR_ONE_EDIT = 200
ZYDA1 = [{"clean": "zyda1"}, {"filter": "zyda1"}]
ONE_CORE = [stage for stage in pipeline.names() if stage not in {"rules", "matches", "against", "classify"}]


def copies(texts: list[str], count: int) -> Iterator[list[str]]:
    """Yield the documents, then as many other documents of the same lines, `count` times in all."""
    yield texts
    chance = random.Random(0)
    documents = [text.splitlines(keepends=True) for text in texts]
    lines = [line for document in documents for line in document]
    number = 0
    for _ in range(count - 1):
        chance.shuffle(lines)
        start, edited = 0, []
        for document in documents:
            words = "".join(lines[start : start + len(document)]).split(" ")
            start += len(document)
            for place in range(chance.randrange(WORDS_FOR_ONE_EDIT), len(words), WORDS_FOR_ONE_EDIT):
                words[place] += f"{number:x}"
                number += 1
            edited.append(" ".join(words))
        yield edited


def write_sources(folder: Path, texts: pa.Array, gigabytes: float) -> float:
    """Write the input of the three sources, in files of Parquet; return its megabytes."""
    size = megabytes_of(texts)
    count = max(len(SOURCES), round(gigabytes * 1000 / size))
    per_file = max(1, min(round(FILE_MEGABYTES / size), count // len(SOURCES)))
    writers: dict[Path, pq.ParquetWriter] = {}
    written, row = 0.0, 0
    for i, documents in enumerate(copies(texts.to_pylist(), count)):
        part, source = divmod(i, len(SOURCES))
        path = folder / SOURCES[source] / f"{part // per_file:04d}.parquet"
        path.parent.mkdir(exist_ok=True)
        urls = [f"https://example.org/{row + j}" for j in range(len(documents))]
        row += len(documents)
        table = pa.table({"url": urls, "text": documents})
        if path not in writers:
            writers[path] = pq.ParquetWriter(path, table.schema, compression="zstd")
        writers[path].write_table(table, row_group_size=ROW_GROUP)
        written += megabytes_of(table.column("text"))
    for writer in writers.values():
        writer.close()
    return written


def write_recipe(folder: Path, name: str, tokenizer: str, **more: object) -> str:
    path = folder / f"{name}.yaml"
    sources = [{"name": source, "files": f"{source}/*.parquet"} for source in SOURCES]
    path.write_text(
        yaml.safe_dump({"name": name, "storage": "out", "tokenizer": tokenizer, "sources": sources, **more})
    )
    return str(path)


def on_one_core(recipe: Recipe) -> dict[str, float]:
    """Build a corpus in this process, shard after shard; return the seconds of each stage."""
    from zyda_flows.tasks.running import run_pipeline
    from zyda_flows.tasks.stage.results import HERE

    spent = dict[str, float]()

    def timed(stage: Any, *inputs: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = HERE.submit(stage, *inputs, **options)
        spent[stage.name] = spent.get(stage.name, 0) + time.perf_counter() - start
        return result

    run_pipeline(recipe, HERE._replace(submit=timed))
    return spent


def by_pyarrow(folder: Path) -> float:
    """Return the seconds that pyarrow takes to read the text as often as a build does, and to write it.

    A build reads it for ingest and for publish, and writes it in both.
    """
    reading = writing = 0.0
    for source in SOURCES:
        for path in sorted((folder / source).glob("*.parquet")):
            parquet = pq.ParquetFile(path)
            with pq.ParquetWriter(
                folder / "again.parquet", parquet.schema_arrow, compression="zstd"
            ) as writer:
                for group in range(parquet.num_row_groups):
                    start = time.perf_counter()
                    table = parquet.read_row_group(group, use_threads=False)
                    read = time.perf_counter()
                    writer.write_table(table, row_group_size=len(table))
                    reading += read - start
                    writing += time.perf_counter() - read
    return 2 * (reading + writing)


class Memory(threading.Thread):
    """Watches the resident memory of the processes that this one starts."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopped = threading.Event()
        self.peak = 0.0

    def run(self) -> None:
        while not self.stopped.wait(0.2):
            for child in psutil.Process().children(recursive=True):
                try:
                    if "distributed" in " ".join(child.cmdline()) or "spawn" in " ".join(child.cmdline()):
                        self.peak = max(self.peak, child.memory_info().rss / 2**30)
                except psutil.Error:
                    continue


def with_prefect(path: str) -> tuple[float, float]:
    """Build a corpus as `zyda build` does; return the seconds of its flow and its largest worker's GiB."""
    from zyda_flows.flows.server.local_server import prefect_server

    with prefect_server():
        from zyda_flows.flows.build import build

        memory = Memory()
        memory.start()
        start = time.perf_counter()
        build(path)
        spent = time.perf_counter() - start
        memory.stopped.set()
        return spent, memory.peak


def main(gigabytes: float = 0.2) -> None:
    arguments = dict(enumerate(sys.argv))
    tokenizer = arguments.get(2, str(REPOSITORY / "recipes/models/demo-tokenizer.json"))
    texts = load_texts(Path(arguments.get(1, DEMO)), megabytes=100)
    with tempfile.TemporaryDirectory(prefix="zyda-bench-") as scratch:
        folder = Path(scratch)
        size = write_sources(folder, texts, float(arguments.get(3, gigabytes)))
        spent = on_one_core(load_recipe(write_recipe(folder, "one-core", str(Path(tokenizer).resolve()))))
        steps = write_recipe(folder, "steps", str(Path(tokenizer).resolve()), documents=ZYDA1)
        ingesting_with_steps = on_one_core(load_recipe(steps))["ingest"]
        floor = by_pyarrow(folder)
        together, peak = with_prefect(write_recipe(folder, "all-cores", str(Path(tokenizer).resolve())))
    total = sum(spent.values())
    rows: list[dict[str, str | float]] = [
        {
            "stage": name,
            "seconds": seconds,
            "share, %": 100 * seconds / total,
            "MB/s of one core": size / seconds,
        }
        for name, seconds in spent.items()
    ]
    cores = psutil.cpu_count() or 1
    rows.append(
        {"stage": "all, one core", "seconds": total, "share, %": 100.0, "MB/s of one core": size / total}
    )
    with_steps = total - spent["ingest"] + ingesting_with_steps
    rows.append(
        {"stage": "ingest with the steps of Zyda-1", "seconds": ingesting_with_steps,
         "share, %": 100 * ingesting_with_steps / with_steps, "MB/s of one core": size / ingesting_with_steps}
    )  # fmt: skip
    rows.append(
        {"stage": "pyarrow alone, reading and writing twice", "seconds": floor,
         "share, %": 100 * floor / total, "MB/s of one core": size / floor}
    )  # fmt: skip
    rows.append(
        {"stage": f"all, {cores} workers with Prefect and Dask", "seconds": together,
         "share, %": float("nan"), "MB/s of one core": size / together / cores}
    )  # fmt: skip
    show(f"end to end, {size:,.0f} MB of text; largest worker {peak:.2f} GiB", rows)


if __name__ == "__main__":
    as_workers_are()
    main()
