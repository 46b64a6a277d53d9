"""The usual tools for near-duplicates on the same documents: what they find, what they keep, how long they take.

python -m benchmarks.peers FOLDER PYTHON_WITH_DATATROVE PYTHON_WITH_TEXT_DEDUP

All cut 5 words and look for a Jaccard similarity from about 0.72 on with 14 bands of 8 rows, and keep one document
of each cluster; each on one core, in an environment of its own. What is true is found by comparing all pairs, by
our words (see `tasks.signatures.shingles`); the tools' differ a little.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from benchmarks.measure import REPOSITORY, as_workers_are, load_texts, show
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.stage.results import HERE
from zyda_flows.textkernels.sets import overlaps

LIKE = 0.8
ASKED = {"shingle": "words", "width": 5, "bands": 14, "rows": 8}
PAIRS_AT_ONCE = 1 << 20
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


def ours(folder: Path, **more: object) -> list[int]:
    """Build with our own, in this process, and return the numbers of the documents that are kept."""
    recipe = {
        "name": f"ours-{len(more)}", "storage": "out", "dedup": {**ASKED, "scope": "global", **more},
        "tokenizer": str(REPOSITORY / "recipes/models/demo-tokenizer.json"),
        "sources": [{"name": "only", "files": "documents.parquet"}],
    }  # fmt: skip
    path = folder / f"ours-{len(more)}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    run_pipeline(load_recipe(str(path)), HERE)
    published = folder / f"out/ours-{len(more)}/published/only"
    return [number for file in published.iterdir() for number in numbers_in(pq.read_table(file))]


def numbers_in(table: pa.Table) -> list[int]:
    return [int(number) for number in table.column("number").to_pylist()]


def datatrove(folder: Path, python: str) -> list[int]:
    script = folder / "with_datatrove.py"
    script.write_text(DATATROVE)
    run([python, str(script), str(folder)], folder)
    lines = [line for file in (folder / "kept").iterdir() for line in file.read_text().splitlines()]
    return [int(json.loads(line)["metadata"]["number"]) for line in lines]


def text_dedup(folder: Path, python: str) -> list[int]:
    run(
        [python, "-m", "text_dedup.minhash", "--path", "json", "--data_files", str(folder / "in/documents.jsonl"),
         "--split", "train", "--output", str(folder / "kept-by-text-dedup"), "--column", "text", "--ngram", "5",
         "--b", "14", "--r", "8", "--num_perm", "112", "--num_proc", "1", "--hash_func", "xxh3",
         "--min_length", "0", "--cache_dir", str(folder / "cache")],
        folder,
    )  # fmt: skip
    files = (folder / "kept-by-text-dedup").glob("*.arrow")
    return [
        number for file in files for number in numbers_in(pa.ipc.open_stream(file.read_bytes()).read_all())
    ]


def run(command: list[str], folder: Path) -> None:
    """Run a tool in a folder, where its logs go."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr[-3000:])


def like_pairs(texts: pa.LargeStringArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Compare all pairs of texts; return those with a similarity above 0, (p, 2), and it, (p,)."""
    hashes, ends = shingle_sets(texts, MinHashRound.model_validate(ASKED))
    sizes = np.diff(ends)
    pairs, found = list[NDArray[np.int64]](), list[NDArray[np.float64]]()
    for first in range(len(texts) - 1):
        others = np.arange(first + 1, len(texts))
        both = overlaps(hashes, ends, np.full(len(others), first), others)
        is_any = both > 0
        pairs.append(np.stack([np.full(is_any.sum(), first), others[is_any]], axis=1))
        found.append(both[is_any] / (sizes[first] + sizes[others] - both)[is_any])
    return np.concatenate(pairs), np.concatenate(found)


def row_of(
    name: str,
    call: Callable[[], list[int]],
    pairs: NDArray[np.int64],
    similarity: NDArray[np.float64],
    count: int,
) -> dict[str, str | float]:
    """Run a tool, and compare what it keeps with what is true."""
    start = time.perf_counter()
    is_kept = np.zeros(count, np.bool_)
    is_kept[call()] = True
    spent = time.perf_counter() - start
    like = pairs[similarity >= LIKE]
    best = np.zeros(count)
    for a, b in ((0, 1), (1, 0)):
        of_kept = is_kept[pairs[:, b]]
        np.maximum.at(best, pairs[of_kept, a], similarity[of_kept])
    gone = ~is_kept
    return {
        "tool": name,
        "seconds": spent,
        "kept": f"{is_kept.sum():,}",
        f"pairs from {LIKE} on of which one went": f"{1 - is_kept[like].all(axis=1).mean():.1%}",
        f"gone, and below {LIKE} to all kept": f"{(gone & (best < LIKE)).sum() / max(1, gone.sum()):.1%}",
    }


def main() -> None:
    """Measure all three on the documents of a folder."""
    source, with_datatrove, with_text_dedup = (os.path.abspath(path) for path in sys.argv[1:4])
    texts = load_texts(Path(source), 1000)
    numbers = [str(number) for number in range(len(texts))]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        rows = [
            {"id": n, "number": n, "text": text} for n, text in zip(numbers, texts.to_pylist(), strict=True)
        ]
        (folder / "in/documents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        pq.write_table(pa.Table.from_pylist(rows), folder / "documents.parquet")
        pairs, similarity = like_pairs(texts)
        ours(folder, prefer=["source", "longest"], verify={"jaccard": 0.1})  # compiles
        tools: dict[str, Callable[[], list[int]]] = {
            "zyda-flows": lambda: ours(folder),
            f"zyda-flows, verify jaccard {LIKE}": lambda: ours(folder, verify={"jaccard": LIKE}),
            "text-dedup": lambda: text_dedup(folder, with_text_dedup),
            "datatrove": lambda: datatrove(folder, with_datatrove),
        }
        show(
            "peers, one core",
            [row_of(name, call, pairs, similarity, len(texts)) for name, call in tools.items()],
        )


if __name__ == "__main__":
    as_workers_are()
    main()
