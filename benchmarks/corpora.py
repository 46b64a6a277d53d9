"""Inputs of benchmarks: real texts, documents made from them, made words, recipes, and builds in this process."""

import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from benchmarks.harness import DEMO, DEMO_TOKENIZER, timed
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.sources.reading import inspect, read
from zyda_flows.tasks.stage.results import HERE

PATTERNS = ("**/*.parquet", "**/*.jsonl.*", "**/*.arrow")
SOURCES = ("best", "middle", "worst")
FILE_MEGABYTES = 800  # larger than a shard, as some files on Hugging Face are
ROW_GROUP = 5_000
WORDS_PER_EDIT = 200
WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "e", "io", "ou") for c in "lmnrstx"]


def batches_of_files(files: Iterable[Path | str]) -> Iterator[pa.RecordBatch]:
    """Read files as ingest does; yield batches with a column `text`."""
    for file in list_files(Source(name="text", files=tuple(map(str, files)))):
        for piece in inspect("text", file, "text", 1 << 30, may_be_bad=True).file.pieces:
            for chunk in read("text", file, piece, "text"):
                yield from chunk.table.to_batches()


def load_texts(folder: Path = DEMO, megabytes: float = 30) -> pa.LargeStringArray:
    """Return about `megabytes` of the texts of a folder, or all if it has less."""
    files = [
        path for pattern in PATTERNS for path in sorted(folder.glob(pattern)) if path.suffix != ".sha256"
    ]
    if not files:
        raise SystemExit(
            f"{folder}: no file like {', '.join(PATTERNS)}; run `make run`, or name another folder"
        )
    columns, size = list[pa.Array](), 0.0
    for batch in batches_of_files(files):
        columns.append(batch.column("text"))
        size += megabytes_of(columns[-1])
        if size > megabytes:
            break
    return pa.concat_arrays(columns)


def megabytes_of(texts: pa.Array | pa.ChunkedArray) -> float:
    return float(pc.sum(pc.binary_length(texts)).as_py() or 0) / 1e6


def near_copy(text: str, chance: random.Random, every: int) -> str:
    """Replace one word in `every`."""
    words = text.split(" ")
    for place in range(chance.randrange(every), len(words), every):
        words[place] = f"edit{chance.randrange(1 << 20)}"
    return " ".join(words)


def multiplied(texts: list[str], count: int) -> Iterator[list[str]]:
    """Yield the documents, and then `count - 1` times as many without near-duplicates among them.

    The lines of a later document come from all documents. One word in WORDS_PER_EDIT occurs nowhere else.
    """
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
            for place in range(chance.randrange(WORDS_PER_EDIT), len(words), WORDS_PER_EDIT):
                words[place] += f"{number:x}"
                number += 1
            edited.append(" ".join(words))
        yield edited


def write_multiplied(folder: Path, texts: pa.Array, gigabytes: float) -> float:
    """Write multiplied texts as the Parquet files of SOURCES; return their megabytes."""
    size = megabytes_of(texts)
    count = max(len(SOURCES), round(gigabytes * 1000 / size))
    per_file = max(1, min(round(FILE_MEGABYTES / size), count // len(SOURCES)))
    writers: dict[Path, pq.ParquetWriter] = {}
    written, row = 0.0, 0
    for number, documents in enumerate(multiplied(texts.to_pylist(), count)):
        part, source = divmod(number, len(SOURCES))
        path = folder / SOURCES[source] / f"{part // per_file:04d}.parquet"
        path.parent.mkdir(exist_ok=True)
        urls = [f"https://example.org/{row + i}" for i in range(len(documents))]
        row += len(documents)
        table = pa.table({"url": urls, "text": documents})
        if path not in writers:
            writers[path] = pq.ParquetWriter(path, table.schema, compression="zstd")
        writers[path].write_table(table, row_group_size=ROW_GROUP)
        written += megabytes_of(table.column("text"))
    for writer in writers.values():
        writer.close()
    return written


def write_texts(folder: Path, batches: Iterable[tuple[str, pa.Array]]) -> float:
    """Write each (source, texts) as a Parquet file below a folder of the source; return the megabytes."""
    megabytes = 0.0
    for number, (source, texts) in enumerate(batches):
        (folder / source).mkdir(parents=True, exist_ok=True)
        path = folder / source / f"{number:04d}.parquet"
        pq.write_table(pa.table({"text": texts}), path, compression="zstd")
        megabytes += megabytes_of(texts)
    return megabytes


def write_recipe(folder: Path, name: str, sources: Mapping[str, str], **fields: Any) -> str:
    """Write NAME.yaml, whose corpus is stored in `folder`/out; return its path. sources: files by name."""
    recipe = {
        "name": name, "storage": "out", "tokenizer": str(DEMO_TOKENIZER), **fields,
        "sources": [{"name": source, "files": files} for source, files in sources.items()],
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return str(path)


def in_folders(sources: Iterable[str]) -> dict[str, str]:
    """Return the files of sources that have a folder of Parquet files each."""
    return {source: f"{source}/*.parquet" for source in sources}


def build_here(recipe_path: str) -> dict[str, float]:
    """Build a corpus in this process, one shard after another; return the seconds of each stage."""
    spent = dict[str, float]()

    def submit(stage: Any, *inputs: Any, **options: Any) -> Any:
        result, seconds = timed(lambda: HERE.submit(stage, *inputs, **options))
        spent[stage.name] = spent.get(stage.name, 0.0) + seconds
        return result

    run_pipeline(load_recipe(recipe_path), HERE._replace(submit=submit))
    return spent


def published(folder: Path, name: str) -> Path:
    return folder / "out" / name / "published"


def count_rows(folder: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))
