"""Measure MinHash signatures of 25 characters and of 13 words: MB/s of one core, beside rensa and datasketch.

Signatures have 128 values, as those of the other libraries, and once 286.
"""

import io
import string
import unicodedata
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash
from rensa import RMinHash

from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import DEMO, Table, TextsFolder, benchmark, shortest_time
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import band_keys

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
FEW = 60  # documents for the slow libraries


def character_shingles(text: str) -> set[str]:
    return {text[i : i + 25] for i in range(max(1, len(text) - 24))}


def word_shingles(text: str) -> set[str]:
    """Fold a text as Zyda-1 did and cut it into runs of 13 words."""
    folded = unicodedata.normalize("NFC", text).lower().translate(NO_PUNCTUATION).split()
    return {" ".join(folded[i : i + 13]) for i in range(max(1, len(folded) - 12))}


def by_datasketch(texts: list[str], cut: Callable[[str], set[str]]) -> None:
    for text in texts:
        sketch = MinHash(num_perm=128)
        sketch.update_batch([shingle.encode() for shingle in cut(text)])


def by_rensa(texts: list[str], cut: Callable[[str], set[str]]) -> None:
    for text in texts:
        sketch = RMinHash(num_perm=128, seed=1)
        sketch.update(list(cut(text)))


@benchmark("signatures")
def measure(folder: TextsFolder = DEMO) -> Iterator[Table]:
    texts = load_texts(folder)
    few = texts.take(pa.array(np.linspace(0, len(texts) - 1, FEW).astype(int)))
    size, few_size = megabytes_of(texts), megabytes_of(few)
    parquet = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), parquet, compression="zstd")
    rounds = {
        "characters": MinHashRound(),
        "characters, 26 x 11": MinHashRound(bands=26, rows=11),
        "words": MinHashRound(shingle="words"),
    }
    speeds = {
        "reading the Parquet (pyarrow, zstd)": size
        / shortest_time(lambda: pq.ParquetFile(io.BytesIO(parquet.getvalue())).read(use_threads=False))
    }
    for name, dedup in rounds.items():
        band_keys(few, dedup)  # compiles
        speeds[f"zyda-flows, {name}"] = size / shortest_time(lambda dedup=dedup: band_keys(texts, dedup))
    for kind, cut in {"characters": character_shingles, "words": word_shingles}.items():
        for library, call in {"rensa": by_rensa, "datasketch": by_datasketch}.items():
            work = lambda call=call, cut=cut: call(few.to_pylist(), cut)  # noqa: E731
            speeds[f"{library}, {kind}"] = few_size / shortest_time(work, 1)
    ours = {kind: speeds[f"zyda-flows, {kind}"] for kind in ("characters", "words")}
    yield Table("signatures, MB/s of one core", [
        {"work": name, "MB/s": speed,
         "zyda-flows is faster by": ours["words" if name.endswith("words") else "characters"] / speed}
        for name, speed in speeds.items()
    ])  # fmt: skip


if __name__ == "__main__":
    measure.main()
