"""The jobs that measure the agreement of scores within clusters.

1. Each file of clusters writes the smallest and the largest score of its clusters, by the part of the cluster.
2. Each part adds them up, and returns statistics by score and by the size of clusters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.exchange import GatheredRows, PartJob
from zyda_flows.tasks.dedup.part_tables import PART, place_among, run_starts, table_of
from zyda_flows.tasks.labels.label_jobs import part_writer
from zyda_flows.tasks.labels.scores import NO_SCORE, score_keys, scores_of_keys
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import ShardHistory
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.parts import row_groups
from zyda_flows.tasks.storage.tables import read_table, write_artifact, write_table

VERSION = 1
STAGE = "agreement"
BATCH_ROWS = 1 << 20
# The scores of a cluster: their number, the smallest and the largest, and the first document with each.
RANGES = pa.schema(
    [PART, ("cluster", pa.uint64()), ("column", pa.uint8()), ("size", pa.uint32()), ("scores", pa.uint32()),
     ("low", pa.float64()), ("low_id", pa.uint64()), ("high", pa.float64()), ("high_id", pa.uint64())]
)  # fmt: skip
# Clusters with several scores, by the number of doublings of their size; the last columns are of the widest.
STATISTICS = pa.schema(
    [("column", pa.uint8()), ("doublings", pa.uint8()), ("clusters", pa.int64()), ("spreads", pa.float64()),
     ("both_sides", pa.int64()), ("spread", pa.float64()), ("cluster", pa.uint64()),
     *(RANGES.field(name) for name in ("low", "low_id", "high", "high_id"))]
)  # fmt: skip


@dataclass(frozen=True)
class Threshold:
    """A threshold of a score. is_above: whether the threshold itself is on the side of larger scores."""

    value: float
    is_above: bool

    def divides(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return whether the threshold is between scores, (n,) each."""
        if self.is_above:
            return np.asarray((low < self.value) & (high >= self.value))
        return np.asarray((low <= self.value) & (high > self.value))


def merged(columns: Sequence[Any]) -> list[Any]:
    """Return RANGES without PART, with each cluster and column once, sorted: (n,) each to (m,) each."""
    cluster, column, size, scores, low, low_id, high, high_id = columns
    order = np.lexsort((low_id, low, column, cluster))
    starts = run_starts(cluster[order], column[order])
    lowest = order[starts]
    highest = np.lexsort((high_id, -high, column, cluster))[starts]
    counts = np.add.reduceat(scores[order], starts) if len(starts) else scores
    return [
        cluster[lowest], column[lowest], size[lowest], counts, low[lowest], low_id[lowest], high[highest],
        high_id[highest],
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RangesOfFile(PartJob[Artifact], ArtifactJob):
    """The scores of the clusters in a file of clusters, by part: RANGES.

    clusters: the file. histories: the shards with its documents. schemas: the columns to read of each shard.
    """

    stage, version = STAGE, VERSION

    clusters: Artifact
    histories: tuple[ShardHistory, ...]
    schemas: tuple[pa.Schema, ...]
    columns: tuple[str, ...]
    part: Annotated[int, NotInKey("the output does not contain it")]

    @property
    def name(self) -> str:
        return f"ranges-{self.clusters.name}"

    def make(self) -> Artifact:
        return write_artifact(self.folder, self.path, self.name, self.fill)

    def fill(self, scratch: Path) -> None:
        with part_writer(scratch, RANGES) as writer:
            for columns in self.batches():
                cluster, *others = merged(columns)
                rows = table_of(RANGES, self.naming.parts(cluster), cluster, *others)
                for group in row_groups(rows, self.shift):
                    writer.write_table(group)

    def batches(self) -> Iterator[list[Any]]:
        """Yield RANGES without PART, of some documents each."""
        waiting, rows = list[list[Any]](), 0
        for columns in self.scores():
            waiting.append(columns)
            rows += len(columns[0])
            if rows > BATCH_ROWS:
                yield [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
                waiting, rows = [], 0
        if waiting:
            yield [np.concatenate(parts) for parts in zip(*waiting, strict=True)]

    def scores(self) -> Iterator[list[Any]]:
        """Yield RANGES without PART, a row for each score of a document."""
        table = read_table(self.folder, self.clusters, ["doc_id", "cluster_id", "cluster_size"])
        ids, clusters, sizes = (column.to_numpy() for column in table.columns)
        for history, schema in zip(self.histories, self.schemas, strict=True):
            for documents in remaining_documents(self.folder, history, schema):
                doc_ids = documents.column("doc_id").to_numpy()
                places, is_clustered = place_among(ids, doc_ids)
                for number, column in enumerate(self.columns):
                    keys = score_keys(documents, column)
                    is_scored = is_clustered & (keys != NO_SCORE)
                    scores, at, scored = (
                        scores_of_keys(keys[is_scored]),
                        places[is_scored],
                        doc_ids[is_scored],
                    )
                    ones = np.ones(len(at), np.uint32)
                    numbers = np.full(len(at), number, np.uint8)
                    names = self.naming.names(clusters[at])
                    size = sizes[at].astype(np.uint32)
                    yield [names, numbers, size, ones, scores, scored, scores, scored]


@dataclass(frozen=True)
class GatheredRanges(GatheredRows):
    """Rows of some files."""

    stage, version = STAGE, VERSION


@dataclass(frozen=True, kw_only=True)
class AgreementOfPart(PartJob[Artifact], ArtifactJob):
    """The agreement of scores in the clusters of a part: STATISTICS. thresholds: of each column, or None."""

    stage, version = STAGE, VERSION

    thresholds: tuple[Threshold | None, ...]

    def make(self) -> Artifact:
        columns, _ = self.part_columns(RANGES)
        columns = merged(columns)
        has_several = columns[3] > 1
        columns = [column[has_several] for column in columns]
        tables = [STATISTICS.empty_table()]
        for number, threshold in enumerate(self.thresholds):
            own = [column[columns[1] == number] for column in columns]
            tables.append(self.statistics(number, threshold, own))
        return write_table(self.folder, self.path, self.name, pa.concat_tables(tables))

    def statistics(self, number: int, threshold: Threshold | None, columns: Sequence[Any]) -> pa.Table:
        """Return STATISTICS of a column. columns: RANGES without PART."""
        names, _, sizes, _, low, low_id, high, high_id = columns
        spreads, clusters = high - low, self.naming.ids(names)
        doublings = np.ceil(np.log2(np.maximum(sizes, 2))).astype(np.uint8)
        order = np.lexsort((clusters, -spreads, doublings))
        starts = run_starts(doublings[order])
        widest = order[starts]
        is_divided = threshold.divides(low, high) if threshold else np.zeros(len(low), np.bool_)
        sums = [
            np.add.reduceat(values[order], starts) if len(starts) else np.empty(0)
            for values in (np.ones(len(low), np.int64), spreads, is_divided.astype(np.int64))
        ]
        numbers = np.full(len(starts), number, np.uint8)
        return table_of(
            STATISTICS, numbers, doublings[widest], sums[0].astype(np.int64), sums[1], sums[2].astype(np.int64),
            spreads[widest], clusters[widest], low[widest], low_id[widest], high[widest], high_id[widest],
        )  # fmt: skip
