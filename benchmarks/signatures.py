"""Signatures of 25-character shingles, 128 values: MB/s of one core, ours and others'.

python -m benchmarks.signatures [FOLDER]
"""

import io
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasketch import MinHash
from rensa import RMinHash

from benchmarks.measure import DEMO, load_texts, megabytes_of, seconds, show
from tasks.minhash import band_keys
from tasks.recipe import Dedup

SLOW_DOCUMENTS = 60  # as many as the slow ones can do in reasonable time


def shingles(text: str) -> set[str]:
    return {text[i : i + 25] for i in range(max(1, len(text) - 24))}


def by_datasketch(texts: list[str]) -> None:
    for text in texts:
        sketch = MinHash(num_perm=128)
        sketch.update_batch([shingle.encode() for shingle in shingles(text)])


def by_rensa(texts: list[str]) -> None:
    for text in texts:
        sketch = RMinHash(num_perm=128, seed=1)
        sketch.update(list(shingles(text)))


def main() -> None:
    texts = load_texts(Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO)
    few = texts.take(pa.array(np.linspace(0, len(texts) - 1, SLOW_DOCUMENTS).astype(int)))
    few_texts, few_size = few.to_pylist(), megabytes_of(few)
    parquet = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), parquet, compression="zstd")
    band_keys(few, Dedup())
    speeds = {
        "reading the Parquet (pyarrow, zstd)": megabytes_of(texts)
        / seconds(lambda: pq.ParquetFile(io.BytesIO(parquet.getvalue())).read(use_threads=False)),
        "zyda-flows": megabytes_of(texts) / seconds(lambda: band_keys(texts, Dedup())),
        "rensa": few_size / seconds(lambda: by_rensa(few_texts), 1),
        "datasketch": few_size / seconds(lambda: by_datasketch(few_texts), 1),
    }
    ours = speeds["zyda-flows"]
    show(
        "signatures, MB/s of one core",
        [
            {"what": name, "MB/s": speed, "zyda-flows is faster by": ours / speed}
            for name, speed in speeds.items()
        ],
    )


if __name__ == "__main__":
    main()
