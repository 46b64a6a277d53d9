"""Documents as token ids, with keys that find near-duplicates, and with values by which corpora are compared."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.quality.training.held_out import clusters_by_keys
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import keys_of_texts, signatures
from zyda_flows.tasks.tokens.engine import TokenEngine, TokenIds, batches, concatenated

CELLS = 1000  # of a histogram of MinHash values
CLUSTERS = MinHashRound()
VALUES = MinHashRound(shingle="words", width=1, values=64, bands=1)
# keys: the band keys of CLUSTERS, null for a text without shingles. cells: of the values of VALUES, likewise; or$
# the cell of its vector.
DRAWN = pa.schema(
    [
        ("hash", pa.uint64()),
        ("n_bytes", pa.uint32()),
        ("n_tokens", pa.uint32()),
        ("ids", pa.large_binary()),
        ("keys", pa.binary(8 * CLUSTERS.bands)),
        ("cells", pa.binary(2 * VALUES.values)),
    ]
)
IDS = np.dtype("<u4")


@dataclass(frozen=True)
class Encoder:
    """Encodes texts as documents of DRAWN, each of which begins with the token `separator`."""

    engine: TokenEngine
    separator: int

    def documents(
        self,
        texts: pa.LargeStringArray,
        hashes: NDArray[np.uint64],
        cells: NDArray[np.int64] | None = None,
    ) -> pa.Table:
        """Return DRAWN of texts. cells: of their vectors, negative without a vector; by default of VALUES."""
        tokens = concatenated([self.engine.encode_batch(batch) for batch in batches(texts)])
        ids = np.insert(tokens.ids, tokens.ends[:-1], np.uint32(self.separator)).astype(IDS)
        counts = tokens.counts + np.uint32(1)
        ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]) * IDS.itemsize
        binary = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(ids)]
        )
        keys, has_keys = keys_of_texts(texts, CLUSTERS)
        if cells is None:
            values = signatures(texts, VALUES)
            has_values = values[:, 0] != np.iinfo(np.uint64).max
        else:
            values, has_values = np.tile(cells[:, None], VALUES.values), cells >= 0
        columns = [
            pa.array(hashes), pc.binary_length(texts.cast(pa.large_binary())).cast(pa.uint32()), pa.array(counts),
            binary, fixed(keys, has_keys), fixed((values % CELLS).astype("<u2"), has_values),
        ]  # fmt: skip
        return pa.table(columns, schema=DRAWN)


def fixed(rows: NDArray[np.generic], is_valid: NDArray[np.bool_]) -> pa.FixedSizeBinaryArray:
    """Return each row of a matrix as a binary value, null for rows that are not valid."""
    kind = pa.binary(rows.shape[1] * rows.itemsize)
    data = pa.FixedSizeBinaryArray.from_buffers(
        kind, len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))]
    )
    return pc.if_else(pa.array(is_valid), data, pa.scalar(None, kind))


def token_ids(documents: pa.Table) -> TokenIds:
    """Return the token ids of DRAWN documents."""
    counts = documents.column("n_tokens").to_numpy().astype(np.int64)
    column = documents.column("ids")
    chunks = [np.frombuffer(chunk.buffers()[2] or b"", IDS)[slice_of(chunk)] for chunk in column.chunks]
    return TokenIds(
        np.concatenate([np.empty(0, np.uint32), *chunks]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )


def slice_of(chunk: pa.LargeBinaryArray) -> slice:
    """Return the place of the ids of a chunk in its buffer."""
    offsets = np.frombuffer(chunk.buffers()[1], np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
    return (
        slice(int(offsets[0]) // IDS.itemsize, int(offsets[-1]) // IDS.itemsize)
        if len(chunk)
        else slice(0, 0)
    )


def matrix(column: pa.ChunkedArray, kind: str) -> NDArray[np.generic]:
    """Return the valid values of a column of `fixed` as a matrix."""
    width = column.type.byte_width
    chunks = [chunk.drop_null() for chunk in column.chunks]
    parts = [
        np.frombuffer(
            chunk.buffers()[1], kind, len(chunk) * width // np.dtype(kind).itemsize, chunk.offset * width
        )
        for chunk in chunks
        if len(chunk)
    ]
    return np.concatenate([np.empty(0, kind), *parts]).reshape(-1, width // np.dtype(kind).itemsize)


def histogram(documents: pa.Table) -> NDArray[np.int64]:
    """Count the values of documents in CELLS cells."""
    return np.bincount(matrix(documents.column("cells"), "<u2").ravel().astype(np.int64), minlength=CELLS)


def clusters_of_documents(documents: pa.Table) -> NDArray[np.int64]:
    """Return the cluster of each document, (n,), by equal texts and by common band keys of CLUSTERS."""
    column = documents.column("keys")
    has_keys = column.is_valid().to_numpy()
    keys = np.zeros((len(documents), CLUSTERS.bands), np.uint64)
    keys[has_keys] = matrix(column, "<u8")
    return clusters_by_keys(documents.column("hash").to_numpy(), keys, has_keys)
