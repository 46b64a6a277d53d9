"""The band keys of a shard, computed on this worker's GPU.

The file is read whole and compared with its digest. cuDF decodes it on the device, where its text is sketched. If
the memory is too small, the row groups are processed in two halves, and later shards use this smaller number. The
CPU sketches a single row group that exceeds the memory.

The CPU also sketches the first row group for which a worker's GPU computes keys of some parameters
(`tasks.gpu.self_test`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zyda_flows.tasks.errors import WrongBits
from zyda_flows.tasks.gpu.memory import make_room, no_room_as_memory_error
from zyda_flows.tasks.gpu.self_test import VERIFIED_KERNELS, expect_same
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import checked_content
from zyda_flows.tasks.workers.engine import DEVICE
from zyda_flows.textkernels.cuda import sketching, wording
from zyda_flows.textkernels.cuda.sketching import CHARACTER_KERNELS, WORD_KERNELS
from zyda_flows.textkernels.sketch import EMPTY

NumberedKeys = tuple[NDArray[np.uint64], NDArray[np.uint64]]  # doc_ids (n,), keys (n, bands)
OnCpu = Callable[[pa.Table], NumberedKeys]
# For parameters of keys, the number of row groups that fit into memory, if more did not.
FITTING = dict[tuple[str, int, int, int], int]()


def keys_of_shard(
    folder: Folder, shard: Artifact, dedup: MinHashRound, folded: Any, on_cpu: OnCpu
) -> NumberedKeys:
    """Return the band keys of the documents of a shard that have a shingle, in the shard's order.

    folded: the table of words, from `tasks.signatures.shingles`. on_cpu: computes the keys of a table of documents.
    """
    content = checked_content(folder, shard)
    groups = range(pq.ParquetFile(pa.BufferReader(content)).num_row_groups)
    if is_believed(content, groups, dedup, folded, on_cpu):
        made = [*keys_of_groups(content, groups, dedup, folded, on_cpu)]
    else:
        made = [on_cpu(row_group(content, group)) for group in groups]
    doc_ids, keys = zip(*made, strict=True) if made else ((), ())
    none = np.empty(0, np.uint64), np.empty((0, dedup.bands), np.uint64)
    return np.concatenate([none[0], *doc_ids]), np.concatenate([none[1], *keys])


def keys_of_groups(
    content: bytes, groups: Sequence[int], dedup: MinHashRound, folded: Any, on_cpu: OnCpu
) -> Iterator[NumberedKeys]:
    """Yield the keys of some row groups, in as few batches as fit into memory."""
    from zyda_flows.tasks.gpu import rapids

    while groups:
        some = groups[: FITTING.get(size_of(dedup))]
        made = None
        with suppress(MemoryError):
            made, _ = keys_by_device(rapids, content, some, dedup, folded, on_cpu)
        if made is None:
            make_room(rapids)
            if len(some) > 1:
                FITTING[size_of(dedup)] = half = (len(some) + 1) // 2
                warn(
                    f"{len(some)} row groups of a shard exceed the memory of the GPU: trying {half} at a time"
                )
                continue
            warn(f"row group {some[0]} of a shard exceeds the memory of the GPU: the CPU sketches it")
            made = on_cpu(row_group(content, some[0]))
        yield made
        groups = groups[len(some) :]


def is_believed(
    content: bytes, groups: Sequence[int], dedup: MinHashRound, folded: Any, on_cpu: OnCpu
) -> bool:
    """Return whether the GPU has computed the same keys as the CPU, for one of these row groups or before.

    Raises WrongBits if they differ.
    """
    from zyda_flows.tasks.gpu import rapids

    if size_of(dedup) in VERIFIED_KERNELS:
        return True
    for group in groups:
        try:
            by_gpu, count = keys_by_device(rapids, content, [group], dedup, folded, on_cpu)
        except MemoryError:
            make_room(rapids)
            warn("a row group for the test of the GPU exceeds its memory: the CPU sketches the shard")
            return False
        expect_same("band keys", by_gpu, on_cpu(row_group(content, group)))
        if count:
            VERIFIED_KERNELS.add(size_of(dedup))
            return True
    return False


def size_of(dedup: MinHashRound) -> tuple[str, int, int, int]:
    """Return the parameters of the keys."""
    return dedup.shingle, dedup.width, dedup.values, dedup.bands


def row_group(content: bytes, group: int) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(content)).read_row_group(group, ["doc_id", "text"])


def keys_by_device(
    rapids: Any, content: bytes, groups: Sequence[int], dedup: MinHashRound, folded: Any, on_cpu: OnCpu
) -> tuple[NumberedKeys, int]:
    """Return the keys of some row groups, and the number of documents whose keys the device computed.

    Raises MemoryError if the memory is too small.
    """
    with DEVICE, no_room_as_memory_error():
        doc_ids, has_keys, keys, redone, texts = on_device(rapids, content, groups, dedup, folded)
    count = int(has_keys.sum() - has_keys[redone].sum())
    if len(redone):
        ids, own_keys = on_cpu(pa.table({"doc_id": doc_ids[redone], "text": texts}))
        has_keys[redone] = np.isin(doc_ids[redone], ids)
        keys[redone[has_keys[redone]]] = own_keys
    return (doc_ids[has_keys], keys[has_keys]), count


def on_device(rapids: Any, content: bytes, groups: Sequence[int], dedup: MinHashRound, folded: Any) -> Any:
    """Return the results of a device for some row groups: ids, (n,), which have keys, (n,) bool, and the keys.

    Also return the indices and texts of the documents that the CPU must sketch again, because NFC may change them.
    """
    xp = rapids.xp
    doc_ids, data, ends = rapids.text_of(content, groups)
    metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
    count = sum(metadata.row_group(group).num_rows for group in groups)
    if not len(doc_ids) == len(ends) - 1 == count or int(ends[-1] - ends[0]) > len(data):
        raise WrongBits(
            f"cuDF read {len(doc_ids):,} rows, expected {count:,}, and {len(data):,} bytes of text"
        )
    size = {"width": dedup.width, "values": dedup.values}
    redone = xp.empty(0, np.int64)
    if dedup.shingle == "words":
        words, word_ends, is_unsafe = wording.word_hashes(xp, data, ends, rapids.to_device(folded))
        redone = xp.flatnonzero(is_unsafe)
        signatures = sketching.signatures(xp, WORD_KERNELS, words, word_ends, **size)
    else:
        signatures = sketching.signatures(xp, CHARACTER_KERNELS, data, ends, **size)
    made = doc_ids, signatures[:, 0] != EMPTY, sketching.band_keys(xp, signatures, bands=dedup.bands), redone
    return *map(rapids.to_host, made), texts_at(rapids, data, ends, redone)


def texts_at(rapids: Any, data: Any, ends: Any, chosen: Any) -> pa.LargeStringArray:
    """Copy chosen texts from the device, as one array."""
    xp = rapids.xp
    beyond = xp.cumsum(ends[chosen + 1] - ends[chosen])
    places = xp.arange(int(beyond[-1]) if len(beyond) else 0)
    slots = xp.searchsorted(beyond, places, side="right")
    own = data[places + (ends[chosen + 1] - beyond)[slots]]
    offsets = np.concatenate([np.zeros(1, np.int64), rapids.to_host(beyond)])
    return pa.LargeStringArray.from_buffers(
        len(chosen), pa.py_buffer(offsets), pa.py_buffer(rapids.to_host(own))
    )
