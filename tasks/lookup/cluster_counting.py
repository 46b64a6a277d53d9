"""Count clusters in jobs: of a file, of a part of the clusters with several sources, and sums of such counts.

A published file of clusters is sorted by doc_id, and a cluster begins with the row whose `cluster_id` equals its
doc_id. This row is enough to count a cluster of one source. The documents of a cluster of several sources may be in
any files: each file sends their number, by cluster and source, to the part of the cluster (`tasks.dedup.exchange`).

All counts have the same columns, STATISTICS, so that sums of them are made in a tree.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.exchange import GatheredRows, PartJob, RowsByPart
from zyda_flows.tasks.dedup.forests import CLUSTERS
from zyda_flows.tasks.dedup.part_tables import PART, run_starts, table_of
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import Ids, sources_of
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import open_table, read_table, write_table

VERSION = 1
STATS = "cluster_stats"
LARGEST = 8  # clusters in the report
MOST_CELLS = 1 << 24  # clusters x sources in one step of arithmetic

# kind: of the row. count: of clusters, or of documents. last: the last doc_id, for MEMBERS.
STATISTICS = pa.schema(
    [
        ("kind", pa.uint8()),
        ("a", pa.uint64()),
        ("b", pa.uint64()),
        ("count", pa.int64()),
        ("last", pa.uint64()),
    ]
)
CLUSTERS_OF_ALL, DOCUMENTS_OF_ALL = 0, 1
SIZES = 2  # clusters by the number of a source (a) and their number of documents of the source (b)
SHARED = 3  # clusters with documents of two sources, by their numbers (a, b)
LARGEST_CLUSTER = 4  # documents of a cluster (a)
MEMBERS = 5  # documents of a cluster (a) and the number of a source (b)

# Documents of a source in a cluster of several sources, in a file.
DOCUMENTS_OF_CLUSTER = pa.schema(
    [PART, ("cluster", pa.uint64()), ("source", pa.uint16()), ("documents", pa.uint32())]
)


@dataclass(frozen=True)
class ClusterFile:
    """A published file of clusters."""

    corpus: Annotated[PublishedCorpus, NotInKey("only `artifact` is read from it")]
    artifact: Artifact

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read the file by row group. Raises Denied if it is damaged."""
        with self.corpus.reading(), open_table(self.corpus.folder, self.artifact) as parquet:
            for group in range(parquet.num_row_groups):
                yield parquet.read_row_group(group, columns)


@dataclass(frozen=True)
class StatisticsJob(ArtifactJob):
    """A job that writes STATISTICS."""

    stage, version = STATS, VERSION

    @abstractmethod
    def tables(self) -> Iterable[pa.Table]:
        """Return the counts to add up."""

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, added_up(self.tables()))


@dataclass(frozen=True)
class FirstRowsOfFile(StatisticsJob):
    """Count the clusters that begin in a file; of clusters of several sources, only the largest are listed."""

    file: ClusterFile

    @property
    def name(self) -> str:
        return f"first-{self.file.artifact.name}"

    def tables(self) -> Iterator[pa.Table]:
        last = -1
        for table in self.file.tables(CLUSTERS.names):
            ids, clusters, sizes, source_counts = (column.to_numpy() for column in table.columns)
            if not len(ids):
                continue
            if int(ids[0]) <= last or np.any(ids[1:] <= ids[:-1]):
                corpus, path = self.file.corpus, self.file.artifact.path
                raise Denied(f"{corpus.root.url}: {path} is not sorted by doc_id; build the corpus again")
            last = int(ids[-1])
            is_first = ids == clusters
            clusters, sizes, source_counts = (column[is_first] for column in (clusters, sizes, source_counts))
            sources, is_alone = sources_of(clusters), source_counts == 1
            yield statistics(CLUSTERS_OF_ALL, 0, 0, [len(clusters)])
            yield statistics(DOCUMENTS_OF_ALL, 0, 0, [len(ids)])
            yield statistics(SIZES, sources[is_alone], sizes[is_alone])
            yield statistics(SHARED, sources[is_alone], sources[is_alone])
            largest = np.argsort(-sizes.astype(np.int64), kind="stable")[:LARGEST]
            yield statistics(LARGEST_CLUSTER, clusters[largest], 0, sizes[largest])


@dataclass(frozen=True)
class SharedClusters(RowsByPart):
    """The documents of a file in clusters of several sources, by cluster and source: DOCUMENTS_OF_CLUSTER."""

    stage, version = STATS, VERSION

    file: ClusterFile = field(kw_only=True)

    def rows(self) -> pa.Table:
        parts = [(np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, np.uint32))]
        for table in self.file.tables(CLUSTERS.names):
            ids, clusters, _, source_counts = (column.to_numpy() for column in table.columns)
            is_shared = source_counts > 1
            names = self.naming.names(clusters[is_shared])
            parts.append(counts_of(names, sources_of(ids[is_shared]).astype(np.uint16)))
        merged = counts_of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        return table_of(DOCUMENTS_OF_CLUSTER, self.naming.parts(merged[0]), *merged)


@dataclass(frozen=True)
class GatheredCounts(GatheredRows):
    """The rows of some files for some neighbouring parts."""

    stage, version = STATS, VERSION


@dataclass(frozen=True)
class SharedOfPart(PartJob[Artifact], ArtifactJob):
    """Count the clusters of several sources in a part: STATISTICS."""

    stage, version = STATS, VERSION

    def make(self) -> Artifact:
        columns, _ = self.part_columns(DOCUMENTS_OF_CLUSTER)
        names, sources, counts = counts_of(*columns)
        starts = run_starts(names)
        places = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(names))))
        numbers, column = np.unique(sources, return_inverse=True)
        shared = np.zeros((len(numbers), len(numbers)), np.int64)
        at_once = MOST_CELLS // max(1, len(numbers))
        for first in range(0, len(starts), at_once):
            low, high = np.searchsorted(places, [first, first + at_once])
            has_source = np.zeros((min(at_once, len(starts) - first), len(numbers)), np.float32)
            has_source[places[low:high] - first, column[low:high]] = 1
            # The product of two columns of 0 and 1 is the number of clusters with both sources. In 32 bits it is
            # exact to 2**24.
            shared += (has_source.T @ has_source).astype(np.int64)
        rows, others = np.nonzero(shared)
        tables = [
            statistics(SIZES, sources, counts),
            statistics(SHARED, numbers[rows], numbers[others], shared[rows, others]),
        ]
        return write_table(self.folder, self.path, self.name, added_up(tables))


@dataclass(frozen=True)
class MembersInFile(StatisticsJob):
    """Count the documents of some clusters in a file by source. clusters: their ids."""

    file: ClusterFile
    clusters: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"members-{self.file.artifact.name}"

    def tables(self) -> Iterator[pa.Table]:
        wanted = np.array(self.clusters, np.uint64)
        for table in self.file.tables(["doc_id", "cluster_id"]):
            ids, clusters = (column.to_numpy() for column in table.columns)
            is_member = np.isin(clusters, wanted)
            ids, clusters = ids[is_member], clusters[is_member]
            yield statistics(MEMBERS, clusters, sources_of(ids), last=ids)


@dataclass(frozen=True)
class SumOfStatistics(StatisticsJob):
    """Add up some tables of STATISTICS. place: of the job in the tree."""

    place: Annotated[str, NotInKey("part of the path")]
    artifacts: tuple[Artifact, ...]

    @property
    def name(self) -> str:
        return f"sum-{self.place}"

    def tables(self) -> Iterator[pa.Table]:
        return (read_table(self.folder, artifact) for artifact in self.artifacts)


def statistics(kind: int, a: Any, b: Any, count: Any = None, last: Any = 0) -> pa.Table:
    """Return rows of STATISTICS of a kind, added up; each column is (n,) or a number.

    count: 1 for each row if None.
    """
    counts = 1 if count is None else count
    rows = np.broadcast_arrays(np.asarray(a, np.uint64), b, counts, last)
    columns = [np.full(rows[0].shape, kind), *rows]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, STATISTICS, strict=True)]
    return added_up([pa.table(arrays, schema=STATISTICS)])


def added_up(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up STATISTICS, sorted, with only the LARGEST largest clusters, of equal ones the first."""
    total = STATISTICS.empty_table()
    for table in tables:
        sums = pa.concat_tables([total, table]).group_by(["kind", "a", "b"])
        added = sums.aggregate([("count", "sum"), ("last", "max")]).rename_columns(STATISTICS.names)
        added = added.cast(STATISTICS)
        is_cluster = added.column("kind").to_numpy() == LARGEST_CLUSTER
        largest = added.filter(pa.array(is_cluster)).sort_by([("count", "descending"), ("a", "ascending")])
        total = pa.concat_tables([added.filter(pa.array(~is_cluster)), largest[:LARGEST]])
    return total.sort_by([(name, "ascending") for name in ("kind", "a", "b")]).combine_chunks()


def counts_of(
    names: Ids, sources: NDArray[np.uint16], counts: NDArray[Any] | None = None
) -> tuple[Ids, NDArray[np.uint16], NDArray[np.uint32]]:
    """Add up counts, 1 each if None, of equal names and sources: (n,) each to (m,) each, sorted."""
    order = np.lexsort((sources, names))
    names, sources = names[order], sources[order]
    starts = run_starts(names, sources)
    if counts is None:
        sums = np.diff(np.append(starts, len(names)))
    else:
        sums = (
            np.add.reduceat(counts[order].astype(np.int64), starts) if len(starts) else np.empty(0, np.int64)
        )
    return names[starts], sources[starts], sums.astype(np.uint32)
