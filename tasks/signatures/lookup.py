"""Look keys up in published band keys: a key costs a row group or two of a file.

A file is sorted by key and divided into small row groups, whose first and last keys are in its footer. If many keys
are looked up, the whole of each file is read, once.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.signatures.bands import KeyArray, rows_schema, upper
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import footer_of, open_table


def first_and_last_keys(folder: Folder, shard: Artifact) -> tuple[KeyArray, KeyArray]:
    """Return the smallest and the largest key of each row group of a file: (g,) uint64 twice."""
    footer = footer_of(folder, shard)
    place = footer.schema.names.index("key")
    groups = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
    return np.array([g.min for g in groups], np.uint64), np.array([g.max for g in groups], np.uint64)


def row_groups_with(keys: KeyArray, first: KeyArray, last: KeyArray) -> list[int]:
    """Return the row groups that may have any of some keys, (n,). first, last: (g,), of each, ascending."""
    starts = np.searchsorted(last, keys, side="left")
    ends = np.searchsorted(first, keys, side="right")
    opens = np.zeros(len(first) + 1, np.int64)
    has_any = starts < ends
    np.add.at(opens, starts[has_any], 1)
    np.add.at(opens, ends[has_any], -1)
    return np.flatnonzero(np.cumsum(opens)[:-1] > 0).tolist()


def looked_up(folder: Folder, shard: Artifact, keys: KeyArray, most: int) -> tuple[KeyArray, Ids]:
    """Read the rows of a file with some keys, (n,) or wide (n, 2): their keys and doc_ids, sorted by both.

    most: rows of each bucket, the first by their ids.
    """
    is_wide = keys.ndim == 2
    groups = row_groups_with(np.unique(upper(keys)), *first_and_last_keys(folder, shard))
    names = rows_schema(is_wide=is_wide).names[1:]
    if not groups:
        return keys[:0], np.empty(0, np.uint64)
    with open_table(folder, shard) as parquet:
        rows = parquet.read_row_groups(groups, names)
    rows = rows.filter(pa.array(np.isin(rows.column("key").to_numpy(), upper(keys))))
    keys_read, doc_ids = rows.column("key").to_numpy(), rows.column("doc_id").to_numpy()
    if is_wide:
        low = rows.column("low").to_numpy()
        order = np.lexsort((doc_ids, low, keys_read))
        pairs, doc_ids = np.stack([keys_read, low], axis=1)[order], doc_ids[order]
        is_first = np.append(True, (pairs[1:] != pairs[:-1]).any(axis=1))[: len(pairs)]
        kept = first_of_bucket(is_first, most)
        return pairs[kept], doc_ids[kept]
    kept = first_of_bucket(np.append(True, keys_read[1:] != keys_read[:-1])[: len(keys_read)], most)
    return keys_read[kept], doc_ids[kept]


def first_of_bucket(is_first: NDArray[np.bool_], most: int) -> NDArray[np.int64]:
    """Return the indices of the first `most` rows of each bucket. is_first: (n,), true for a bucket's first row."""
    starts = np.flatnonzero(is_first)
    if not len(starts):
        return starts
    times = np.arange(len(is_first)) - starts[np.cumsum(is_first) - 1]
    return np.flatnonzero(times < most)


def collisions(keys: KeyArray, doc_ids: Ids, found_keys: KeyArray, found_ids: Ids) -> tuple[Ids, Ids]:
    """Return the pairs of documents that share a key: (p,) of doc_ids, and of found_ids.

    found_keys: sorted; both (n,) and (m,), or wide, (n, 2) and (m, 2).
    """
    if keys.ndim == 2:
        # Compare the lower halves of keys with the same upper half.
        first, second = colliding_positions(keys[:, 0], found_keys[:, 0])
        is_same = keys[first, 1] == found_keys[second, 1]
        first, second = first[is_same], second[is_same]
    else:
        first, second = colliding_positions(keys, found_keys)
    return doc_ids[first], found_ids[second]


def colliding_positions(keys: KeyArray, found_keys: KeyArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of all pairs of equal keys, (n,) and (m,); `found_keys` are sorted."""
    starts = np.searchsorted(found_keys, keys, side="left")
    counts = np.searchsorted(found_keys, keys, side="right") - starts
    first = np.repeat(np.arange(len(keys)), counts)
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return first, np.repeat(starts, counts) + offsets


def files_by_band(files: Sequence[Artifact]) -> dict[int, list[Artifact]]:
    """Group the files of an index by band; within a band they ascend by key."""
    files_of_bands = dict[int, list[Artifact]]()
    for file in sorted(files, key=lambda file: file.name):
        files_of_bands.setdefault(int(file.name.partition("-")[0]), []).append(file)
    return files_of_bands
