"""The columns that every document of every source has from ingest on, and the row groups of its files."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

ROW_GROUP_BYTES = 32 << 20  # of a file of documents, in memory

DOCUMENT_COUNTS = pa.schema(
    [("doc_id", pa.uint64()), ("n_tokens", pa.uint32()), ("n_bytes", pa.uint32())]
)  # fmt: skip


def row_groups(tables: Iterable[pa.Table], limit: int) -> Iterator[pa.Table]:
    """Join and cut tables of one schema to tables of about `limit` bytes in memory."""
    waiting, size = list[pa.Table](), 0
    for table in tables:
        rows = max(1, len(table) * limit // max(1, table.nbytes))
        for part in (table.slice(start, rows) for start in range(0, len(table), rows)):
            if waiting and size + part.nbytes > limit:
                yield pa.concat_tables(waiting)
                waiting, size = [], 0
            waiting.append(part)
            size += part.nbytes
    if waiting:
        yield pa.concat_tables(waiting)
