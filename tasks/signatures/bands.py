"""Files of band keys: their layout, and reading them by key range.

A file has (band, key, doc_id) sorted by the three, in row groups of a single band each. The file's footer has the
smallest and the largest key of each row group, so reading a range of a band costs only its row groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cachetools import LRUCache
from numpy.typing import NDArray

from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import footer_of, open_table, parquet_writer

GROUP_ROWS = 1 << 16  # 2**13 to 2**19 are as fast, within a twentieth (measured with clusters)
# Documents in a range: 128 MiB of keys and ids. With 2**19, clusters take a fifth longer.
RANGE_ROWS = 8 << 20
BAND_ROWS = pa.schema([("band", pa.uint8()), ("key", pa.uint64()), ("doc_id", pa.uint64())])
WIDE_ROWS = pa.schema([*BAND_ROWS, ("low", pa.uint64())])  # of 128-bit keys, of which `key` is the upper half
# A cache of footers by their digests, 40 bytes for each row group.
GROUPS: LRUCache[str, "Groups"] = LRUCache(2 << 20, getsizeof=lambda groups: len(groups.rows))
GROUPS_LOCK = Lock()

KeyArray = NDArray[np.uint64]


def rows_schema(*, is_wide: bool) -> pa.Schema:
    """Return the columns of a file of 64-bit or, if is_wide, 128-bit keys."""
    return WIDE_ROWS if is_wide else BAND_ROWS


def upper(keys: KeyArray) -> KeyArray:
    """Return the 64 bits of each key by which files are sorted: (n,) or (n, 2) to (n,)."""
    return keys if keys.ndim == 1 else keys[:, 0]


def write_band_rows(
    path: Path,
    parts: Iterable[tuple[int, KeyArray, KeyArray]],
    schema: pa.Schema = BAND_ROWS,
    group_rows: int = GROUP_ROWS,
) -> None:
    """Write (band, keys, doc_ids), (n,) uint64 or for wide keys (n, 2), and (n,), as one file.

    The parts come by band, within a band by ranges of keys, and the ids of a key are ascending. The keys may come
    in any order; partly sorted keys are sorted in a tenth of the time. Keys are hashes, so they are written without
    a dictionary and compression.
    """
    with parquet_writer(
        path, schema, use_dictionary=["band"], compression="none", write_statistics=["band", "key"]
    ) as writer:
        for band, keys, doc_ids in parts:
            order = np.argsort(upper(keys), kind="stable")
            columns = [np.full(len(keys), band, np.uint8), upper(keys)[order], doc_ids[order]]
            if schema == WIDE_ROWS:
                columns.append(keys[order, 1])
            writer.write_table(pa.table([*map(pa.array, columns)], schema=schema), row_group_size=group_rows)


def numbers_in_name(artifact: Artifact) -> list[int]:
    """Return the numbers in a shard's name: of its file, its piece and its part."""
    return [int(number) for number in artifact.name.split("-")]


@dataclass(frozen=True)
class KeyRange:
    """The keys from `low` up to, but without, `high`."""

    low: int
    high: int


ALL_KEYS = KeyRange(0, 1 << 64)


def key_ranges(rows: int) -> list[KeyRange]:
    """Divide the 64-bit keys of a band into ranges of equal width, with at most RANGE_ROWS rows. rows: of the band.

    Ranges have more rows if keys are not uniform: a bucket of a billion equal documents is in one range.
    """
    # A power of two, so that equal steps end exactly at 2**64.
    count = 1 << (rows // RANGE_ROWS).bit_length()
    step = (1 << 64) // count
    return [KeyRange(i * step, (i + 1) * step) for i in range(count)]


def read_range(
    folder: Folder, artifacts: Iterable[Artifact], band: int, keys: KeyRange
) -> tuple[KeyArray, KeyArray]:
    """Read a range of a band from all files: keys, (n,) uint64 or (n, 2), and doc_ids, (n,), unsorted."""
    tables = folder.map(lambda artifact: rows_in(folder, artifact, band, keys), artifacts)
    rows = pa.concat_tables(tables) if tables else rows_schema(is_wide=False).empty_table()
    keys_read = rows.column("key").to_numpy()
    if "low" in rows.column_names:
        keys_read = np.stack([keys_read, rows.column("low").to_numpy()], axis=1)
    return keys_read, rows.column("doc_id").to_numpy()


class Groups(NamedTuple):
    """The non-empty row groups of a file: number, band, smallest and largest key, and rows, (n,) each."""

    numbers: NDArray[np.int64]
    bands: NDArray[np.int64]
    first: KeyArray
    last: KeyArray
    rows: NDArray[np.int64]

    def may_have(self, band: int, keys: KeyRange) -> NDArray[np.bool_]:
        """Return which row groups may have keys of a range: (n,)."""
        highest = np.uint64(keys.high - 1)  # `high` itself may be 2**64, which no uint64 holds
        return (self.bands == band) & (self.first <= highest) & (self.last >= np.uint64(keys.low))


def groups_of(folder: Folder, artifact: Artifact) -> Groups:
    """Return the row groups of a file, from its footer, which is read once for all ranges."""
    with GROUPS_LOCK:
        if known := GROUPS.get(artifact.footer_digest):
            return known
    footer = footer_of(folder, artifact)
    with_rows = [g for g in range(footer.num_row_groups) if footer.row_group(g).num_rows]
    groups = [footer.row_group(g) for g in with_rows]
    keys = [group.column(1).statistics for group in groups]
    row_groups = Groups(
        np.array(with_rows, np.int64),
        np.array([group.column(0).statistics.min for group in groups], np.int64),
        np.array([key.min for key in keys], np.uint64),
        np.array([key.max for key in keys], np.uint64),
        np.array([group.num_rows for group in groups], np.int64),
    )
    with GROUPS_LOCK, suppress(ValueError):  # it may exceed the size of the cache
        GROUPS[artifact.footer_digest] = row_groups
    return row_groups


def heavy_keys(
    folder: Folder, artifacts: Iterable[Artifact], band: int, keys: KeyRange, most: int
) -> list[int]:
    """Return the keys of a range with more than `most` rows in row groups of a single key, ascending."""
    single_keys, rows = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
    for artifact in artifacts:
        groups = groups_of(folder, artifact)
        is_own = groups.may_have(band, keys) & (groups.first == groups.last)
        single_keys.append(groups.first[is_own])
        rows.append(groups.rows[is_own])
    distinct, places = np.unique(np.concatenate(single_keys), return_inverse=True)
    counts = np.bincount(places, np.concatenate(rows), len(distinct))
    return [int(key) for key in distinct[counts > most].tolist()]


def tables_in(folder: Folder, artifacts: Iterable[Artifact], band: int, keys: KeyRange) -> Iterator[pa.Table]:
    """Yield a range of a band, a row group at a time: all columns except `band`."""
    for artifact in artifacts:
        for group in groups_in(folder, artifact, band, keys):
            yield rows_in(folder, artifact, band, keys, [group])


def groups_in(folder: Folder, artifact: Artifact, band: int, keys: KeyRange) -> list[int]:
    groups = groups_of(folder, artifact)
    numbers: list[int] = groups.numbers[groups.may_have(band, keys)].tolist()
    return numbers


def is_wide(folder: Folder, artifact: Artifact) -> bool:
    return "low" in footer_of(folder, artifact).schema.names


def rows_in(
    folder: Folder, artifact: Artifact, band: int, keys: KeyRange, groups: Sequence[int] | None = None
) -> pa.Table:
    """Read a range of a band from a file, or from some row groups of it: all columns except `band`."""
    names = rows_schema(is_wide=is_wide(folder, artifact)).names[1:]
    groups = groups_in(folder, artifact, band, keys) if groups is None else groups
    if not groups:
        return rows_schema(is_wide=is_wide(folder, artifact)).empty_table().select(names)
    with open_table(folder, artifact) as parquet:
        rows = parquet.read_row_groups(list(groups), names)
    # `high` itself may be 2**64, which no uint64 holds.
    is_above = pc.greater_equal(rows.column("key"), pa.scalar(keys.low, pa.uint64()))
    is_below = pc.less_equal(rows.column("key"), pa.scalar(keys.high - 1, pa.uint64()))
    return rows.filter(pc.and_(is_above, is_below))
