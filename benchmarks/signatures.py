"""Signatures of 128 values (and of 286), of 25 characters and of 13 words: MB/s of one core, ours and others'.

python -m benchmarks.signatures [FOLDER]
"""

import io
import string
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash
from rensa import RMinHash

from benchmarks.measure import DEMO, as_workers_are, load_texts, megabytes_of, seconds, show
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import band_keys

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
SLOW_DOCUMENTS = 60  # as many as the slow ones can do in reasonable time


def shingles(text: str) -> set[str]:
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


def main() -> None:
    texts = load_texts(Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO)
    few = texts.take(pa.array(np.linspace(0, len(texts) - 1, SLOW_DOCUMENTS).astype(int)))
    few_texts, few_size = few.to_pylist(), megabytes_of(few)
    parquet = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), parquet, compression="zstd")
    characters, words, longer = MinHashRound(), MinHashRound(shingle="words"), MinHashRound(bands=26, rows=11)
    for dedup in (characters, words, longer):
        band_keys(few, dedup)
    speeds = {
        "reading the Parquet (pyarrow, zstd)": megabytes_of(texts)
        / seconds(lambda: pq.ParquetFile(io.BytesIO(parquet.getvalue())).read(use_threads=False)),
        "zyda-flows, characters": megabytes_of(texts) / seconds(lambda: band_keys(texts, characters)),
        "zyda-flows, characters, 26 x 11": megabytes_of(texts) / seconds(lambda: band_keys(texts, longer)),
        "rensa, characters": few_size / seconds(lambda: by_rensa(few_texts, shingles), 1),
        "datasketch, characters": few_size / seconds(lambda: by_datasketch(few_texts, shingles), 1),
        "zyda-flows, words": megabytes_of(texts) / seconds(lambda: band_keys(texts, words)),
        "rensa, words": few_size / seconds(lambda: by_rensa(few_texts, word_shingles), 1),
        "datasketch, words": few_size / seconds(lambda: by_datasketch(few_texts, word_shingles), 1),
    }
    ours = {kind: speeds[f"zyda-flows, {kind}"] for kind in ("characters", "words")}
    show(
        "signatures, MB/s of one core",
        [
            {
                "what": name,
                "MB/s": speed,
                "zyda-flows is faster by": ours["words" if name.endswith("words") else "characters"] / speed,
            }
            for name, speed in speeds.items()
        ],
    )


if __name__ == "__main__":
    as_workers_are()
    main()
