"""Removals by the texts themselves: what verifying costs, and what it does with documents of one template.

python -m benchmarks.duplicates [FOLDER] [TOKENIZER.JSON] [MEGABYTES] [PAGES] [DOCUMENTS] [DOCUMENTS OF KEYS]

Of real text, multiplied as in `benchmarks.end_to_end`, a tenth of the documents are in clusters: near-copies, of
which one word in 100 differs. The pages are one text of which each has another tenth; one in a hundred is there
again, with a few words changed. Then come the measurements of `benchmarks.lookup`, of so many documents;
`benchmarks.peers` has other tools beside.
"""

import random
import resource
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.end_to_end import copies, on_one_core
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, megabytes_of, show
from zyda_flows.tasks.recipe.loading import load_recipe

SOURCES = ("best", "worst")
PAGE_WORDS = 400
WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "e", "io", "ou") for c in "lmnrstx"]
LOOSE: dict[str, object] = {"bands": 32, "rows": 4}  # finds half of the pairs at 0.38


def near_copy(text: str, chance: random.Random, every: int) -> str:
    """Replace one word in `every`."""
    words = text.split(" ")
    for place in range(chance.randrange(every), len(words), every):
        words[place] = f"edit{chance.randrange(1 << 20)}"
    return " ".join(words)


def tenth_in_clusters(texts: list[str], megabytes: float) -> Iterator[tuple[str, str]]:
    """Yield (source, text): of twenty documents one is there again, in another source."""
    chance, written = random.Random(0), 0
    for documents in copies(texts, 1 << 30):
        for number, text in enumerate(documents):
            yield SOURCES[number % 2], text
            if number % 20 == 0:
                yield SOURCES[1 - number % 2], near_copy(text, chance, 100)
            written += len(text)
            if written > megabytes * 1e6:
                return


def pages(count: int) -> Iterator[tuple[str, str]]:
    """Yield (source, text) of pages of one template of nine tenths; each hundredth page is there twice."""
    chance = random.Random(1)
    template = [chance.choice(WORDS) for _ in range(PAGE_WORDS * 9 // 10)]
    half = len(template) // 2
    for number in range(count):
        own = [f"{chance.choice(WORDS)}{chance.randrange(10_000)}" for _ in range(PAGE_WORDS // 10)]
        text = " ".join([*template[:half], *own, *template[half:]])
        yield SOURCES[number % 2], text
        if number % 100 == 0:
            yield SOURCES[1 - number % 2], near_copy(text, chance, PAGE_WORDS)


def write_sources(folder: Path, documents: Iterator[tuple[str, str]]) -> float:
    """Write some documents as Parquet files of their sources; return their megabytes."""
    megabytes, number = 0.0, 0
    while some := list(islice(documents, 20_000)):
        for source in SOURCES:
            texts = pa.array([text for of_source, text in some if of_source == source], pa.large_string())
            (folder / source).mkdir(exist_ok=True)
            pq.write_table(
                pa.table({"text": texts}), folder / source / f"{number:04d}.parquet", compression="zstd"
            )
            megabytes += megabytes_of(texts)
        number += 1
    return megabytes


def build(
    folder: Path, name: str, tokenizer: str, dedup: dict[str, object], sample: float = 1
) -> dict[str, float]:
    """Build on one core; return the seconds of each stage, with the documents that went."""
    recipe = {
        "name": name.replace(" ", "-"), "sample": sample, "storage": "out", "tokenizer": tokenizer, "dedup": dedup,
        "sources": [{"name": source, "files": f"{source}/*.parquet"} for source in SOURCES],
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    spent = on_one_core(load_recipe(str(path)))
    return spent | {"gone": rows_in(folder, name, "removed"), "clustered": rows_in(folder, name, "clusters")}


def rows_in(folder: Path, name: str, place: str) -> int:
    """Count the rows of what is published in a place."""
    published = folder / "out" / name.replace(" ", "-") / "published"
    return sum(pq.read_metadata(path).num_rows for path in (published / place).rglob("*.parquet"))


def rows_of(
    kind: str, folder: Path, tokenizer: str, megabytes: float, rules: dict[str, dict[str, object]]
) -> Iterator[dict[str, str | float]]:
    """Build one corpus by each of some rules; yields a row each."""
    build(folder, "warm", tokenizer, {"scope": "global", "verify": {"jaccard": 0.5}}, 0.05)  # compiles
    for name, rule in rules.items():
        spent = build(folder, name, tokenizer, {"scope": "global", **rule})
        gone, clustered = spent.pop("gone"), spent.pop("clustered")
        whole, deciding = sum(spent.values()), spent["decisions"]
        yield {
            "documents": kind,
            "rule": name,
            "clustered": clustered,
            "gone": gone,
            "decisions, s": deciding,
            "of the rest": f"{deciding / (whole - deciding):.1%}",
            "MB/s, whole build": megabytes / whole,
            "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        }


def main() -> None:
    """Measure both corpora."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO
    tokenizer = sys.argv[2] if len(sys.argv) > 2 else str(REPOSITORY / "recipes/models/demo-tokenizer.json")
    megabytes = float(sys.argv[3]) if len(sys.argv) > 3 else 100
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 10_000
    rows = list[dict[str, str | float]]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = write_sources(folder, tenth_in_clusters(load_texts(source).to_pylist(), megabytes))
        rules = {"clusters alone": {}, "containment 0.8": {"verify": {"containment": 0.8}}}
        rows += rows_of(f"{size:,.0f} MB, a tenth in clusters", folder, tokenizer, size, rules)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        size = write_sources(folder, pages(count))
        rules = {"clusters alone": LOOSE, "containment 0.95": {**LOOSE, "verify": {"containment": 0.95}}}
        rows += rows_of(f"{count:,} pages of a template", folder, tokenizer, size, rules)
    show("duplicates, one core", rows)
    from benchmarks import lookup  # which imports from here

    lookup.measure(*(int(float(size)) for size in sys.argv[5:7]))


if __name__ == "__main__":
    as_workers_are()
    main()
