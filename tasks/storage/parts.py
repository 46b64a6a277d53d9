"""Write rows by part, so that a part can be read from many files without the other parts.

The first column of such a file is `part`. Rows are sorted by it, and each row group has rows of one part. If rows
have a text, the texts of a part are read into a local file, because they may not fit in memory.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from cachetools import LRUCache
from numpy.typing import NDArray

from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import footer_of, open_table, parquet_writer

GROUP_BYTES = 8 << 20  # of text in a row group
GROUP_ROWS = 1 << 17  # in a row group without texts
PARTS: LRUCache[str, NDArray[np.int64]] = LRUCache(4 << 20, getsizeof=len)  # by the digests of footers
PARTS_LOCK = Lock()


def write_parts(scratch: Path, rows: pa.Table, *, shift: int = 0, **options: Any) -> None:
    """Write rows that are sorted by part. shift: 2**shift parts are read together. options: for the writer.

    Statistics are written for `part` only: no reader uses others, and text statistics contain two whole texts for
    each row group.
    """
    with parquet_writer(scratch, rows.schema, write_statistics=["part"], **options) as writer:
        for group in row_groups(rows, shift):
            writer.write_table(group, row_group_size=max(1, len(group)))


def row_groups(rows: pa.Table, shift: int = 0) -> Iterator[pa.Table]:
    """Divide sorted rows after 2**shift parts, and after GROUP_BYTES of text or GROUP_ROWS."""
    parts = rows.column("part").to_numpy() >> shift
    has_text = "text" in rows.column_names
    sizes = text_sizes(rows.column("text")) if has_text else np.full(len(rows), GROUP_BYTES // GROUP_ROWS)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    starts = [0, *(np.flatnonzero(parts[1:] != parts[:-1]) + 1).tolist(), len(rows)] if len(rows) else [0]
    for start, end in pairwise(starts):
        at = start
        while at < end:
            stop = min(end, max(at + 1, int(np.searchsorted(ends, ends[at] + GROUP_BYTES, side="right")) - 1))
            yield rows.slice(at, stop - at)
            at = stop


def text_sizes(texts: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the bytes of each text: (n,)."""
    sizes = [np.diff(offsets_of(chunk)) for chunk in texts.chunks]
    return np.concatenate([np.empty(0, np.int64), *sizes])


def offsets_of(texts: pa.LargeStringArray) -> NDArray[np.int64]:
    """Return the start of each text in the array's data, then the end of the last text: (n + 1,)."""
    if not len(texts):
        return np.zeros(1, np.int64)
    return np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]


def rows_of_part(
    folder: Folder, artifacts: Iterable[Artifact], part: int, shift: int = 0
) -> Iterator[pa.Table]:
    """Yield the rows of a part by row group, or the rows of the 2**shift parts that were written together."""
    for artifact in artifacts:
        if groups := np.flatnonzero(parts_of_groups(folder, artifact) >> shift == part).tolist():
            with open_table(folder, artifact) as parquet:
                for group in groups:
                    yield parquet.read_row_group(group)


def parts_of_groups(folder: Folder, artifact: Artifact) -> NDArray[np.int64]:
    """Return the part of each row group of a file, (n,), from its footer, which is read only once."""
    with PARTS_LOCK:
        if (parts := PARTS.get(artifact.footer_digest)) is not None:
            return parts
    footer = footer_of(folder, artifact)
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    parts = np.array([group.column(0).statistics.min if group.num_rows else -1 for group in groups], np.int64)
    with PARTS_LOCK, suppress(ValueError):  # larger than the whole cache
        PARTS[artifact.footer_digest] = parts
    return parts


def bytes_of_part(folder: Folder, artifact: Artifact, part: int) -> int:
    """Return the bytes of a part's rows in memory, about."""
    groups = np.flatnonzero(parts_of_groups(folder, artifact) == part).tolist()
    footer = footer_of(folder, artifact) if groups else None
    return sum(footer.row_group(group).total_byte_size for group in groups) if footer else 0


@dataclass(frozen=True)
class TextFile:
    """Texts in a local file with a descriptor. Text i is its bytes from ends[i] to ends[i + 1]; ends: (n + 1,).

    The file is read, not mapped: mapped memory counts as memory of the worker, and Dask ends workers that use too
    much memory.
    """

    descriptor: int
    ends: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.ends)

    def take(self, rows: NDArray[np.int64]) -> pa.LargeStringArray:
        """Read some texts. rows: indices of the texts, (n,)."""
        starts, sizes = self.ends[rows].tolist(), self.sizes[rows]
        places = zip(sizes.tolist(), starts, strict=True)
        data = b"".join(os.pread(self.descriptor, size, start) for size, start in places)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(data))


@contextmanager
def read_part(
    folder: Folder, artifacts: Iterable[Artifact], part: int, scratch: Path
) -> Iterator[tuple[pa.Table | None, TextFile]]:
    """Read a part: yield its rows without texts, and its texts in a local file.

    The rows are None if the part is empty. The TextFile is empty if the rows have no texts.
    """
    tables, offsets = list[pa.Table](), [np.zeros(1, np.int64)]
    with scratch.open("w+b") as file:
        for table in rows_of_part(folder, artifacts, part):
            if "text" in table.column_names:
                for chunk in table.column("text").chunks:
                    chunk_offsets = offsets_of(chunk)
                    if len(chunk):
                        file.write(memoryview(chunk.buffers()[2])[chunk_offsets[0] : chunk_offsets[-1]])
                        offsets.append(offsets[-1][-1] + chunk_offsets[1:] - chunk_offsets[0])
                table = table.drop_columns("text")
            tables.append(table)
        file.flush()
        rows = pa.concat_tables(tables) if tables else None
        yield rows, TextFile(file.fileno(), np.concatenate(offsets))
