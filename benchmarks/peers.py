"""Compare tools for near-duplicates on the same documents: missed duplicates, removed documents, and the time.

All tools cut shingles of 5 words, use 14 bands of 8 rows (a Jaccard similarity of about 0.72), and keep one
document of each cluster, on one core. datatrove and text-dedup run in environments of their own. The right
answers come from comparing all pairs, by our words (`tasks.signatures.shingles`), which differ a little from
those of the other tools.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from benchmarks.corpora import build_here, load_texts, published, write_recipe
from benchmarks.harness import OtherPython, Row, Table, TextsFolder, benchmark, run_tool, timed
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.textkernels.sets import overlaps

SIMILAR = 0.8
ROUND = {"shingle": "words", "width": 5, "bands": 14, "rows": 8}
DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster
from datatrove.pipeline.dedup import MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.typeshelper import Languages
top, config = sys.argv[1], MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
if __name__ == "__main__":
    reader = JsonlReader(f"{top}/in", glob_pattern="*.jsonl")
    for pipeline, tasks in (
        ([reader, MinhashDedupSignature(f"{top}/sig", config=config, language=Languages.english)], 1),
        ([MinhashDedupBuckets(f"{top}/sig", f"{top}/buckets", config=config)], 14),
        ([MinhashDedupCluster(f"{top}/buckets", f"{top}/gone", config=config)], 1),
        ([reader, MinhashDedupFilter(f"{top}/gone"), JsonlWriter(f"{top}/kept", compression=None)], 1),
    ):
        LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, skip_completed=False).run()
"""


class Pairs(NamedTuple):
    """All pairs of documents with a similarity above 0: their places, (p, 2), and the similarity, (p,)."""

    places: NDArray[np.int64]
    similarity: NDArray[np.float64]


def by_zyda(folder: Path, name: str, **dedup: object) -> list[int]:
    """Build in this process; return the numbers of the kept documents."""
    dedup = {**ROUND, "scope": "global", **dedup}
    build_here(write_recipe(folder, name, {"only": "documents.parquet"}, dedup=dedup))
    files = (published(folder, name) / "only").iterdir()
    return [number for file in files for number in numbers_of(pq.read_table(file))]


def numbers_of(table: pa.Table) -> list[int]:
    return [int(number) for number in table.column("number").to_pylist()]


def by_datatrove(folder: Path, python: str) -> list[int]:
    script = folder / "with_datatrove.py"
    script.write_text(DATATROVE)
    run_tool([python, script, folder], folder)
    lines = [line for file in (folder / "kept").iterdir() for line in file.read_text().splitlines()]
    return [int(json.loads(line)["metadata"]["number"]) for line in lines]


def by_text_dedup(folder: Path, python: str) -> list[int]:
    options = {
        "path": "json", "data_files": folder / "in/documents.jsonl", "split": "train",
        "output": folder / "text-dedup", "column": "text", "ngram": 5, "b": 14, "r": 8, "num_perm": 112,
        "num_proc": 1, "hash_func": "xxh3", "min_length": 0, "cache_dir": folder / "cache",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    run_tool([python, "-m", "text_dedup.minhash", *words], folder)
    streams = (pa.ipc.open_stream(file.read_bytes()) for file in (folder / "text-dedup").glob("*.arrow"))
    return [number for stream in streams for number in numbers_of(stream.read_all())]


def compare_all(texts: pa.LargeStringArray) -> Pairs:
    hashes, ends = shingle_sets(texts, MinHashRound.model_validate(ROUND))
    sizes = np.diff(ends)
    places, similarity = list[NDArray[np.int64]](), list[NDArray[np.float64]]()
    for first in range(len(texts) - 1):
        others = np.arange(first + 1, len(texts))
        both = overlaps(hashes, ends, np.full(len(others), first), others)
        is_any = both > 0
        places.append(np.stack([np.full(is_any.sum(), first), others[is_any]], axis=1))
        similarity.append(both[is_any] / (sizes[first] + sizes[others] - both)[is_any])
    return Pairs(np.concatenate(places), np.concatenate(similarity))


def row_of(name: str, call: Callable[[], list[int]], pairs: Pairs, count: int) -> Row:
    """Run a tool on `count` documents, and compare the documents it keeps with the right answers."""
    is_kept = np.zeros(count, np.bool_)
    kept, spent = timed(call)
    is_kept[kept] = True
    similar = pairs.places[pairs.similarity >= SIMILAR]
    best = np.zeros(count)
    for a, b in ((0, 1), (1, 0)):
        kept_pairs = is_kept[pairs.places[:, b]]
        np.maximum.at(best, pairs.places[kept_pairs, a], pairs.similarity[kept_pairs])
    unlike = (~is_kept & (best < SIMILAR)).sum() / max(1, (~is_kept).sum())
    return {
        "tool": name, "seconds": spent, "kept": f"{is_kept.sum():,}",
        f"pairs from {SIMILAR} with one removed": f"{1 - is_kept[similar].all(axis=1).mean():.1%}",
        f"removed, and below {SIMILAR} to all kept": f"{unlike:.1%}",
    }  # fmt: skip


@benchmark("peers")
def measure(
    source: TextsFolder, python: OtherPython,
    text_dedup_python: Annotated[str, typer.Argument(help="Python of an environment with text-dedup.")],
) -> Iterator[Table]:  # fmt: skip
    texts = load_texts(source, 1000)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        numbered = [
            {"id": str(n), "number": str(n), "text": text} for n, text in enumerate(texts.to_pylist())
        ]
        (folder / "in/documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in numbered))
        pq.write_table(pa.Table.from_pylist(numbered), folder / "documents.parquet")
        pairs = compare_all(texts)
        by_zyda(folder, "warm", prefer=["source", "longest"], verify={"jaccard": 0.1})  # compiles
        tools: dict[str, Callable[[], list[int]]] = {
            "zyda-flows": lambda: by_zyda(folder, "ours"),
            f"zyda-flows, verify jaccard {SIMILAR}": lambda: by_zyda(
                folder, "verified", verify={"jaccard": SIMILAR}
            ),
            "text-dedup": lambda: by_text_dedup(folder, str(Path(text_dedup_python).absolute())),
            "datatrove": lambda: by_datatrove(folder, str(Path(python).absolute())),
        }
        yield Table(
            "peers, one core", [row_of(name, call, pairs, len(texts)) for name, call in tools.items()]
        )


if __name__ == "__main__":
    measure.main()
