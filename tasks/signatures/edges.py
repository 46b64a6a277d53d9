"""Edges: join the documents that share a bucket (that collide in a band), from the band keys of all sources.

Rows out, for every range of every band: `a`, `b` (uint64), both in a bucket. For each source in the bucket, `a` is
its smallest doc_id; for that document, `a` is the smallest of the bucket. So a bucket of n documents has n - 1
edges instead of n(n - 1) / 2, and the edges within a source equal those of this source alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.gpu.memory import make_room, no_room_as_memory_error
from zyda_flows.tasks.gpu.self_test import VERIFIED_KERNELS, expect_same
from zyda_flows.tasks.ids import MAX_SOURCES, SOURCE_SHIFT, sources_of
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.bands import (
    RANGE_ROWS,
    KeyRange,
    heavy_keys,
    key_ranges,
    read_range,
    tables_in,
    upper,
)
from zyda_flows.tasks.signatures.costs import edges_cost
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    Manifest,
    Receipt,
    artifact_path,
    load_manifest,
    stage_key,
)
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import write_table
from zyda_flows.tasks.workers.dask_cluster import SHARE
from zyda_flows.tasks.workers.engine import DEVICE, is_on_gpu

VERSION = 1
MOST_ROWS = RANGE_ROWS // 2  # of a bucket that is read together with others
EDGES = pa.schema([("a", pa.uint64()), ("b", pa.uint64())])


def star_edges(keys: NDArray[np.uint64], doc_ids: NDArray[np.uint64]) -> pa.Table:
    """Join the documents of each bucket: keys (n,) or (n, 2), and doc_ids (n,) uint64 to EDGES."""
    if is_on_gpu():
        from zyda_flows.tasks.gpu import rapids  # CUDA's libraries come with it

        with suppress(MemoryError), DEVICE, no_room_as_memory_error():
            on_device = stars(rapids.to_device(keys), rapids.to_device(doc_ids), rapids.xp)
            columns = [*map(rapids.to_host, on_device)]
            if "edges" not in VERIFIED_KERNELS:
                expect_same("edges", columns, stars(keys, doc_ids))
                VERIFIED_KERNELS.update(["edges"] if len(columns[0]) else [])
            return pa.table(columns, schema=EDGES)
        make_room(rapids)
        warn(f"{len(keys):,} band keys exceed the memory of the GPU: the CPU joins them")
    return pa.table([*stars(keys, doc_ids)], schema=EDGES)


def stars(keys: Any, doc_ids: Any, xp: Any = np) -> tuple[Any, Any]:
    """Return both ends of the edges, (m,) twice. xp: the module of the arrays, NumPy's or CuPy's."""
    keys, doc_ids = in_shared_buckets(keys, doc_ids, xp)
    # By key, then by id: the first row of a bucket has its smallest id.
    halves = (keys,) if keys.ndim == 1 else (keys[:, 1], keys[:, 0])
    order = xp.lexsort(xp.stack((doc_ids, *halves)))
    keys, doc_ids = keys[order], doc_ids[order]
    is_first, is_first_of_source = xp.ones(len(keys), np.bool_), xp.ones(len(keys), np.bool_)
    is_other = keys[1:] != keys[:-1]
    is_first[1:] = is_other if keys.ndim == 1 else is_other.any(axis=1)
    sources = doc_ids >> np.uint64(SOURCE_SHIFT)
    is_first_of_source[1:] = is_first[1:] | (sources[1:] != sources[:-1])
    first_of_bucket, first_of_source = (
        smallest(doc_ids, starts, xp) for starts in (is_first, is_first_of_source)
    )
    ends = xp.where(is_first_of_source, first_of_bucket, first_of_source)
    return ends[~is_first], doc_ids[~is_first]


def smallest(doc_ids: Any, starts: Any, xp: Any) -> Any:
    """Return the first document of the run of each row. starts: (n,) bool, true for the first row of each run."""
    # The running count of first rows is the number of a row's run.
    return doc_ids[xp.flatnonzero(starts)[xp.cumsum(starts) - 1]] if len(doc_ids) else doc_ids


def in_shared_buckets(keys: Any, doc_ids: Any, xp: Any = np) -> tuple[Any, Any]:
    """Return the rows of buckets with several documents, about a tenth of a corpus: (n,) twice to (m,).

    For 128-bit keys, only the upper halves are compared. A merge sort is ten times as fast here, because the rows
    come from sorted files.
    """
    order = xp.argsort(upper(keys), kind="stable")
    sorted_keys = upper(keys)[order]
    is_shared = xp.zeros(len(keys), np.bool_)
    is_same = sorted_keys[1:] == sorted_keys[:-1]
    is_shared[1:] |= is_same
    is_shared[:-1] |= is_same
    shared_rows = order[is_shared]
    return keys[shared_rows], doc_ids[shared_rows]


class EdgeFiles(Record):
    """The edges of a range: a file, or several if they are too many for a task."""

    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True)
class EdgesOfRange(RecordJob[EdgeFiles]):
    """The edges of a range of a band. `counts.documents` of its files is the number of rows that were read.

    key_of_stage: the key of the stage, a hash of all files of band keys.
    """

    stage, version, kind = "edges", VERSION, EdgeFiles

    manifests: Annotated[tuple[Receipt, ...], NotInKey("`key_of_stage` is a hash of them")]
    band: Annotated[int, NotInKey("its name has it")]
    keys: Annotated[KeyRange, NotInKey("`number` and `key_of_stage` decide it")]
    number: Annotated[int, NotInKey("its name has it")]
    key_of_stage: str

    @property
    def name(self) -> str:
        return f"{self.band:03d}-{self.number:05d}"

    @property
    def key(self) -> str:
        return self.key_of_stage

    def make(self) -> EdgeFiles:
        artifacts = [s for receipt in self.manifests for s in load_manifest(self.folder, receipt).artifacts]
        written = list[Artifact]()
        for table, rows in edges_in(self.folder, artifacts, self.band, self.keys):
            name = f"{self.name}-{len(written)}" if written else self.name
            path = artifact_path(self.stage, None, name, self.key)
            written.append(write_table(self.folder, path, name, table, counts=Counts(documents=rows)))
        return self.recorded(EdgeFiles(artifacts=tuple(written)))


def edges_in(
    folder: Folder, artifacts: Sequence[Artifact], band: int, keys: KeyRange
) -> Iterator[tuple[pa.Table, int]]:
    """Yield the edges of a range of keys, with the number of rows that were read for them.

    A bucket with more than MOST_ROWS rows is read separately, some rows at a time.
    """
    low = keys.low
    for key in [*heavy_keys(folder, artifacts, band, keys, MOST_ROWS), keys.high]:
        if key > low:
            keys_read, doc_ids = read_range(folder, artifacts, band, KeyRange(low, key))
            yield star_edges(keys_read, doc_ids), len(keys_read)
        if key < keys.high:
            yield from edges_of_key(folder, artifacts, band, KeyRange(key, key + 1))
        low = key + 1


def edges_of_key(
    folder: Folder, artifacts: Sequence[Artifact], band: int, keys: KeyRange
) -> Iterator[tuple[pa.Table, int]]:
    """Yield the edges of a key: of its bucket, or of several buckets if keys have 128 bits."""
    firsts_of_buckets, firsts_by_source = dict[int, int](), dict[tuple[int, int], int]()
    for lows, doc_ids in rows_of_key(folder, artifacts, band, keys):
        for low, first in firsts_of_sources(lows, doc_ids):
            firsts_of_buckets[low] = min(first, firsts_of_buckets.get(low, first))
            firsts_by_source[low, first >> SOURCE_SHIFT] = min(
                first, firsts_by_source.get((low, first >> SOURCE_SHIFT), first)
            )
    for lows, doc_ids in rows_of_key(folder, artifacts, band, keys):
        distinct, places = distinct_sources(lows, doc_ids)
        first_of_bucket = np.array([firsts_of_buckets[low] for low, _ in distinct], np.uint64)[places]
        first_of_source = np.array([firsts_by_source[pair] for pair in distinct], np.uint64)[places]
        a = np.where(doc_ids == first_of_source, first_of_bucket, first_of_source)
        is_edge = a != doc_ids
        yield pa.table([a[is_edge], doc_ids[is_edge]], schema=EDGES), len(doc_ids)


def distinct_sources(
    lows: NDArray[np.uint64], doc_ids: NDArray[np.uint64]
) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
    """Return the pairs of a bucket and a source, (m,), and the pair of each row, (n,). lows, doc_ids: (n,)."""
    distinct, places = np.unique(lows, return_inverse=True)
    sources = sources_of(doc_ids).astype(np.int64)
    codes, places = np.unique(places * MAX_SOURCES + sources, return_inverse=True)
    return [(int(distinct[code // MAX_SOURCES]), int(code % MAX_SOURCES)) for code in codes.tolist()], places


def firsts_of_sources(lows: NDArray[np.uint64], doc_ids: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
    """Yield each bucket with the smallest document of each of its sources. lows, doc_ids: (n,)."""
    distinct, places = distinct_sources(lows, doc_ids)
    firsts = np.full(len(distinct), np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(firsts, places, doc_ids)
    yield from zip((low for low, _ in distinct), firsts.tolist(), strict=True)


def rows_of_key(
    folder: Folder, artifacts: Sequence[Artifact], band: int, keys: KeyRange
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """Yield the rows of a key in batches of at most MOST_ROWS: lower halves of keys, or 0, and the documents."""
    waiting, rows = list[pa.Table](), 0
    for table in chain(tables_in(folder, artifacts, band, keys), [None]):
        if waiting and (table is None or rows + len(table) > MOST_ROWS):
            whole = pa.concat_tables(waiting)
            doc_ids = whole.column("doc_id").to_numpy()
            lows = whole.column("low").to_numpy() if "low" in whole.column_names else np.zeros_like(doc_ids)
            yield lows, doc_ids
            waiting, rows = [], 0
        if table is not None:
            waiting.append(table)
            rows += len(table)


def key(dedup_round: Round, minhash_receipts: list[Receipt]) -> str:
    return stage_key(
        "edges", VERSION, dedup_round.dedup.key_bands, *(receipt.identity for receipt in minhash_receipts)
    )


def has_keys(dedup_round: Round, _: str) -> bool:
    return dedup_round.dedup.has_keys


@stage("edges", key, scope="corpus", inputs=("minhash",), enabled=has_keys, cost=edges_cost)
def edges(dedup_round: Round, minhash_receipts: list[Receipt]) -> Manifest:
    """Find all edges. Raises NotConserved if a row of band keys was not read exactly once."""
    folder, bands = dedup_round.folder, dedup_round.dedup.key_bands
    rows = sum(s.rows for receipt in minhash_receipts for s in load_manifest(folder, receipt).artifacts)
    edges_key = key(dedup_round, minhash_receipts)
    jobs = [
        EdgesOfRange(
            folder=folder,
            source=None,
            manifests=tuple(minhash_receipts),
            band=band,
            keys=keys,
            number=number,
            key_of_stage=edges_key,
        )
        for band in range(bands)
        for number, keys in enumerate(key_ranges(rows // bands))
    ]
    files = fan_out(
        EdgesOfRange.__call__,
        jobs,
        stage=dedup_round.name_of("edges"),
        source=None,
        engine=dedup_round.recipe.engine,
        gpus=SHARE,
    )
    artifacts = [artifact for range_files in files for artifact in range_files.artifacts]
    if (read := sum(artifact.counts.documents for artifact in artifacts)) != rows:
        raise NotConserved(f"edges: {rows:,} rows of band keys were written, but {read:,} read")
    return Manifest(stage="edges", artifacts=tuple(artifacts))
