"""Measure lookups in a published corpus: of a text, and of a thousand new documents.

The corpus is built from generated documents of 40 words. Texts are looked up in it (`zyda find`), and new documents
are deduplicated against it.
"""

import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.corpora import WORDS, build_here, count_rows, near_copy, published, write_recipe, write_texts
from benchmarks.harness import Row, Size, Table, benchmark, timed
from zyda_flows.tasks.lookup.nearest import nearest
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.storage.tables import FOOTERS

NEW = 1000
FILE_DOCUMENTS = 500_000
COMMAND = Path(sys.executable).with_name("zyda")


def made_texts(count: int, seed: int) -> Iterator[pa.LargeStringArray]:
    """Yield texts of 40 words, FILE_DOCUMENTS at a time."""
    chance = np.random.default_rng(seed)
    words = np.array(WORDS)
    for start in range(0, count, FILE_DOCUMENTS):
        chosen = words[chance.integers(0, len(words), (min(FILE_DOCUMENTS, count - start), 40))]
        yield pa.array([" ".join(row) for row in chosen.tolist()], pa.large_string())


def write_corpus(folder: Path, name: str, texts: Iterable[pa.Array], **dedup: Any) -> str:
    """Write the texts and the recipe of a corpus with one source; return the path of the recipe."""
    write_texts(folder / f"{name}-in", (("only", column) for column in texts))
    return write_recipe(folder, name, {"only": f"{name}-in/*/*.parquet"}, dedup={"scope": "global", **dedup})


def new_documents(known: list[str]) -> pa.Array:
    """Return NEW texts, half of them near-copies of known texts."""
    chance = random.Random(2)
    copied = [near_copy(text, chance, 1000) for text in known[: NEW // 2]]
    return pa.array([*copied, *next(made_texts(NEW - len(copied), 3)).to_pylist()], pa.large_string())


def deduplicate_against(folder: Path, name: str, known: list[str], url: Path, **dedup: Any) -> Row:
    """Build a corpus of new documents against a published corpus; return a row of results."""
    recipe = write_corpus(folder, name, [new_documents(known)], against=str(url), **dedup)
    FOOTERS.clear()
    spent = build_here(recipe)
    return {
        "work": f"{NEW:,} new documents, {name}", "seconds": spent["matches"] + spent["against"],
        "found": count_rows(published(folder, name) / "removed"),
    }  # fmt: skip


def time_lookups(name: str, find: Callable[[str], object], texts: list[str]) -> Row:
    """Return the median time of looking up a text."""
    times, hits = list[float](), 0
    for text in texts:
        FOOTERS.clear()
        nearest_documents, spent = timed(lambda text=text: find(text))
        times.append(spent)
        hits += bool(nearest_documents)
    return {"work": name, "seconds": statistics.median(times), "found": hits}


def by_command(recipe: str, text: str) -> bytes:
    return subprocess.run([COMMAND, "find", recipe, text], check=True, capture_output=True).stdout


def rows_of(folder: Path, count: int) -> Iterator[Row]:
    recipe_path = write_corpus(folder, "known", made_texts(count, 1))
    first = pq.read_table(folder / "known-in/only/0000.parquet").column("text")
    known = first.slice(0, NEW).to_pylist()
    spent = build_here(recipe_path)
    yield {"work": f"index of {count:,} documents", "seconds": spent["index"], "found": count}
    yield {"work": "the whole build of these", "seconds": sum(spent.values()), "found": count}
    chance, recipe = random.Random(5), load_recipe(recipe_path)
    texts = [near_copy(text, chance, 1000) for text in known[:20]]
    nearest(recipe, texts[0])  # compiles
    yield time_lookups(
        f"find in this process, {count:,} documents", lambda text: nearest(recipe, text), texts
    )
    find = lambda text: by_command(recipe_path, text)  # noqa: E731
    yield time_lookups(f"find as a command, {count:,} documents", find, texts[:5])
    corpus = folder / "out/known"
    yield deduplicate_against(folder, f"against-{count}", known, corpus)
    yield deduplicate_against(folder, f"against-{count}-verified", known, corpus, verify={"containment": 0.5})


@benchmark("lookup")
def measure(documents: Size = 20_000) -> Iterator[Table]:
    with tempfile.TemporaryDirectory() as scratch:
        yield Table("lookups, one core", [*rows_of(Path(scratch), int(documents))])


if __name__ == "__main__":
    measure.main()
