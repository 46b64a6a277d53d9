"""Rows of a file to tables of at most a shard's size, with ids and exact counts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.artifacts import Record
from tasks.columns import conform, unify
from tasks.errors import bad_input
from tasks.listing import InputFile
from tasks.readers import BadRow, Chunk
from tasks.token_counts import Counter

COUNTED = pa.schema(
    [("doc_id", pa.uint64()), ("n_tokens", pa.uint32()), ("n_bytes", pa.uint32())]
)  # fmt: skip
ADDED = ("doc_id", "n_tokens", "n_bytes", "cluster_id", "quality_pred", "quality_prob")
ADDED_BY_MODEL = ("score", "int_score")


class IngestParameters(Record):
    """All that decides what the shards of a source hold, besides its files."""

    text: str
    classified: bool
    set_aside: bool
    shard_bytes: int
    tokenizer: str
    sample_rows: float


@dataclass
class Pending:
    """Rows of a piece that are not yet a shard."""

    tables: list[pa.Table] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    size: int = 0


def text_bytes(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the UTF-8 length of each text: (n,) int64."""
    return pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)


def sampled(rows: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Choose rows by a hash of their place, so that every run chooses the same: (n,) bool."""
    if fraction >= 1:
        return np.ones(len(rows), np.bool_)
    x = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (x ^ (x >> np.uint64(32))) < np.uint64(fraction * 2.0**64)


def shard_sized(
    chunks: Iterator[Chunk], parameters: IngestParameters, *, source: str, file: InputFile
) -> Iterator[tuple[Pending, list[BadRow]]]:
    """Gather chunks until they make a shard. Raises BadInput at a bad row that may not be set aside."""
    pending, bad = Pending(), list[BadRow]()
    for chunk in chunks:
        chosen = sampled(chunk.rows, parameters.sample_rows, file.seed)
        bad_rows = np.array([row.row for row in chunk.bad], np.int64)
        chosen_bad = sampled(bad_rows, parameters.sample_rows, file.seed)
        bad += [row for row, is_chosen in zip(chunk.bad, chosen_bad, strict=True) if is_chosen]
        if bad and not parameters.set_aside:
            raise bad_input(source, bad[0].reason, file=file.url, row=bad[0].row)
        rows, table = chunk.rows, chunk.table
        if not chosen.all():
            rows, table = rows[chosen], table.filter(pa.array(chosen))
        for part in slices(table, parameters):
            start, stop, size = part
            if pending.tables and pending.size + size > parameters.shard_bytes:
                yield pending, bad
                pending, bad = Pending(), []
            pending.tables.append(table.slice(start, stop - start))
            pending.rows.append(rows[start:stop])
            pending.size += size
    yield pending, bad


def slices(table: pa.Table, parameters: IngestParameters) -> Iterator[tuple[int, int, int]]:
    """Cut a chunk so that no slice has more text than a shard may have: (start, stop, bytes)."""
    if not len(table):
        return
    ends = np.cumsum(text_bytes(table.column(parameters.text)))
    start = before = 0
    while start < len(table):
        limit = before + parameters.shard_bytes
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, stop, int(ends[stop - 1]) - before
        start, before = stop, int(ends[stop - 1])


def shard_table(pending: Pending, parameters: IngestParameters, counter: Counter, *, first: int) -> pa.Table:
    """Make a shard's table: ids and counts, the text, and the source's other columns.

    first: the doc_id of row 0 of the file.
    """
    schema = unify([table.schema for table in pending.tables])
    table = pa.concat_tables([conform(table, schema) for table in pending.tables])
    texts = table.column(parameters.text)
    own = table.drop_columns([parameters.text])
    renamed = renames(own.column_names, parameters.text, classified=parameters.classified)
    own = own.rename_columns([renamed.get(name, name) for name in own.column_names])
    rows = np.concatenate(pending.rows).astype(np.uint64)
    ids = rows + np.uint64(first)
    counted = [
        pa.array(ids),
        pa.array(np.concatenate([counter.count(chunk) for chunk in texts.chunks])),
        pa.array(text_bytes(texts).astype(np.uint32)),
    ]
    columns = [*counted, texts, *own.columns]
    fields = [*COUNTED, pa.field("text", pa.large_string()), *own.schema]
    return pa.table(columns, schema=pa.schema(fields))


def renames(names: Iterable[str], text: str, *, classified: bool) -> dict[str, str]:
    """Give the source's columns whose names the build needs a name that it leaves free."""
    taken = {*ADDED, *(ADDED_BY_MODEL if classified else ()), "text"} - {text}
    return {name: f"source_{name}" for name in names if name in taken}
