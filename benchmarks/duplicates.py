"""Measure the verification of duplicates by their texts: its cost, and its effect on pages of one template.

Two corpora are built with and without verification. In the first, real text is multiplied (`corpora.multiplied`)
and every twentieth document has a near-copy with one word of 100 replaced, so that a tenth of the documents are
in clusters. In the second, pages share nine tenths of their words; every hundredth page has a near-copy.
`benchmarks.peers` compares other tools.
"""

import random
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from benchmarks.corpora import (
    WORDS,
    build_here,
    count_rows,
    in_folders,
    load_texts,
    multiplied,
    near_copy,
    published,
    write_recipe,
    write_texts,
)
from benchmarks.harness import (
    DEMO,
    DEMO_TOKENIZER,
    Row,
    Size,
    Table,
    TextsFolder,
    TokenizerFile,
    benchmark,
    peak_mib,
)

SOURCES = ("best", "worst")
PAGE_WORDS = 400
BATCH = 20_000  # documents of a file
LOOSE: dict[str, object] = {"bands": 32, "rows": 4}  # finds half of the pairs with a similarity of 0.38
Documents = Iterator[tuple[str, str]]  # (source, text)


def tenth_in_clusters(texts: list[str], megabytes: float) -> Documents:
    chance, written = random.Random(0), 0
    for documents in multiplied(texts, 1 << 30):
        for number, text in enumerate(documents):
            yield SOURCES[number % 2], text
            if number % 20 == 0:
                yield SOURCES[1 - number % 2], near_copy(text, chance, 100)
            written += len(text)
            if written > megabytes * 1e6:
                return


def pages(count: int) -> Documents:
    chance = random.Random(1)
    template = [chance.choice(WORDS) for _ in range(PAGE_WORDS * 9 // 10)]
    half = len(template) // 2
    for number in range(count):
        own = [f"{chance.choice(WORDS)}{chance.randrange(10_000)}" for _ in range(PAGE_WORDS // 10)]
        text = " ".join([*template[:half], *own, *template[half:]])
        yield SOURCES[number % 2], text
        if number % 100 == 0:
            yield SOURCES[1 - number % 2], near_copy(text, chance, PAGE_WORDS)


def batches(documents: Documents) -> Iterator[tuple[str, pa.Array]]:
    while batch := list(islice(documents, BATCH)):
        for source in SOURCES:
            yield source, pa.array([text for name, text in batch if name == source], pa.large_string())


def build_by_rules(
    kind: str, documents: Documents, tokenizer: Path, rules: dict[str, dict[str, object]]
) -> Iterator[Row]:
    """Build a corpus of some documents by each rule; yield a row for each build."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        megabytes = write_texts(folder, batches(documents))

        def build(name: str, dedup: dict[str, object], sample: float = 1) -> dict[str, float]:
            fields = {"tokenizer": str(tokenizer), "sample": sample, "dedup": {"scope": "global", **dedup}}
            return build_here(write_recipe(folder, name, in_folders(SOURCES), **fields))

        build("warm", {"verify": {"jaccard": 0.5}}, 0.05)  # compiles
        for rule, dedup in rules.items():
            name = rule.replace(" ", "-")
            spent = build(name, dedup)
            whole, deciding = sum(spent.values()), spent["decisions"]
            place = published(folder, name)
            yield {
                "documents": kind, "rule": rule, "clustered": count_rows(place / "clusters"),
                "removed": count_rows(place / "removed"), "decisions, s": deciding,
                "share of the other stages": f"{deciding / (whole - deciding):.1%}",
                "MB/s, whole build": megabytes / whole, "peak GiB": peak_mib() / 1024,
            }  # fmt: skip


@benchmark("duplicates")
def measure(
    folder: TextsFolder = DEMO,
    tokenizer: TokenizerFile = DEMO_TOKENIZER,
    megabytes: Size = 100,
    page_count: Size = 10_000,
) -> Iterator[Table]:
    copies = tenth_in_clusters(load_texts(folder).to_pylist(), megabytes)
    rules: dict[str, dict[str, object]] = {
        "clusters alone": {},
        "containment 0.8": {"verify": {"containment": 0.8}},
    }
    rows = [*build_by_rules(f"{megabytes:,.0f} MB, a tenth in clusters", copies, tokenizer, rules)]
    rules = {"clusters alone": LOOSE, "containment 0.95": {**LOOSE, "verify": {"containment": 0.95}}}
    kind = f"{page_count:,.0f} pages of a template"
    rows += build_by_rules(kind, pages(int(page_count)), tokenizer, rules)
    yield Table("duplicates, one core", rows)


if __name__ == "__main__":
    measure.main()
