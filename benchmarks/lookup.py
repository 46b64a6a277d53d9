"""Measure lookups in a published corpus: of a text, and of a thousand new documents, by the size of the corpus.

The first corpus is built from made documents of 40 words. Texts are looked up in it (`zyda find`), and new
documents are deduplicated against it. The second corpus has band keys alone, which are random but for those of
documents that the new ones copy.
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
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.published import NO_TABLE, Published, PublishedKeys, TableFile
from zyda_flows.tasks.ids import BITS
from zyda_flows.tasks.lookup.nearest import nearest
from zyda_flows.tasks.publish.corpus import with_tables
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.signatures import index
from zyda_flows.tasks.signatures.bands import key_ranges, write_band_rows
from zyda_flows.tasks.signatures.keys import band_keys, index_parameters
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import FOOTERS, write_artifact

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


def write_keys(folder: Path, count: int, known: list[str]) -> None:
    """Write the manifest and the band keys of a published corpus of `count` documents and some known texts."""
    folder.mkdir()
    dedup, root = MinHashRound(), Folder(str(folder))
    known_keys, _ = band_keys(pa.array(known, pa.large_string()), dedup)
    files, chance = list[TableFile](), np.random.default_rng(4)
    ranges = key_ranges(count)
    for band in range(dedup.bands):
        for number, keys in enumerate(ranges):
            own = known_keys[:, band]
            own = own[(own >= np.uint64(keys.low)) & (own <= np.uint64(keys.high - 1))]
            others = chance.integers(keys.low, keys.high, count // len(ranges), np.uint64, endpoint=False)
            both = np.sort(np.concatenate([own, others]))
            rows = [(band, both, np.arange(len(both), dtype=np.uint64))]
            name = f"{band:03d}-{number:05d}"
            write = lambda path, rows=rows: write_band_rows(path, rows, group_rows=index.GROUP_ROWS)  # noqa: E731
            shard = write_artifact(root, f"bands/{name}-00000000.parquet", name, write)
            files.append(TableFile(
                path=shard.path, sha256=shard.digest, size=shard.size, rows=shard.rows, footer=shard.footer,
                footer_sha256=shard.footer_digest,
            ))  # fmt: skip
    documents = count // len(ranges) * len(ranges) + len(known)
    manifest = Published(
        name="keys", sample=1, software="", tokenizer={}, recipe={}, made_of=(), id_bits=BITS, accounts=(),
        ledger=Ledger(lines=()), table=NO_TABLE,
        bands={"bands": PublishedKeys(parameters=index_parameters(dedup), documents=documents)},
    )  # fmt: skip
    manifest, texts = with_tables(manifest, files, {}, "")
    for path, content in texts.items():
        (folder / path).write_bytes(content)
    (folder / "manifest.json").write_text(manifest.model_dump_json())


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


def rows_of(folder: Path, count: int, key_count: int) -> Iterator[Row]:
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
    write_keys(folder / "keys", key_count, known)
    yield deduplicate_against(folder, f"against-{key_count}-keys", known, folder / "keys")


@benchmark("lookup")
def measure(documents: Size = 20_000, key_documents: Size = 200_000) -> Iterator[Table]:
    with tempfile.TemporaryDirectory() as scratch:
        yield Table("lookups, one core", [*rows_of(Path(scratch), int(documents), int(key_documents))])


if __name__ == "__main__":
    measure.main()
