"""The jobs that count the lengths, labels and rules of the documents in a published file, and add up the counts.

The size of DOCUMENT_STATISTICS does not depend on the corpus. The documents of a cluster may be in any files: each
file sends the number of its documents by cluster and label to the part of the cluster (`tasks.dedup.exchange`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.exchange import GatheredRows, PartJob, RowsByPart
from zyda_flows.tasks.dedup.part_tables import PART, run_starts, table_of
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile, counts_of
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.trees import SumOfTables
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import write_table

VERSION = 1
STATS = "document_stats"
LABEL = "quality_pred"
LENGTH_BINS = np.logspace(0, 6, 61)  # tokens

# kind: of the row. source: the number of a source. name: of a label or a rule. place: the index of a bin, or a
# number of labels. count: of documents or clusters.
DOCUMENT_STATISTICS = pa.schema(
    [
        ("kind", pa.uint8()),
        ("source", pa.uint16()),
        ("name", pa.string()),
        ("place", pa.uint16()),
        ("count", pa.int64()),
    ]
)
DOCUMENTS = 0  # published documents of a source
LENGTHS = 1  # of them, by the bin of LENGTH_BINS of their tokens
LABELS = 2  # of them, by label
MATCHED_BY_OTHERS = 3  # documents that a rule removed and another rule matches, too
DIFFERENT_LABELS = 4  # clusters with several labelled documents, by the number of different labels

# Documents of a label in a cluster, in a file. label: index among the labels of the corpus.
DOCUMENTS_OF_LABEL = pa.schema(
    [PART, ("cluster", pa.uint64()), ("label", pa.uint16()), ("documents", pa.uint32())]
)


@dataclass(frozen=True)
class DocumentsOfFile(ArtifactJob):
    """Count the lengths and labels of the documents in a published file. number: of its source."""

    stage, version = STATS, VERSION

    file: ClusterFile
    number: int

    @property
    def name(self) -> str:
        return self.file.artifact.name.replace("/", "-")

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, added_up(self.tables()))

    def tables(self) -> Iterator[pa.Table]:
        for table in self.file.tables(["n_tokens", LABEL]):
            lengths = np.histogram(table.column("n_tokens").to_numpy(), LENGTH_BINS)[0]
            yield statistics(DOCUMENTS, self.number, count=len(table))
            yield statistics(LENGTHS, self.number, place=np.arange(len(lengths)), count=lengths)
            if LABEL in table.column_names:
                labels, counts = counted_values(table.column(LABEL))
                yield statistics(LABELS, self.number, labels, count=counts)


@dataclass(frozen=True)
class RulesOfFile(ArtifactJob):
    """Count, by rule, the documents in a file of removed documents that another rule would have removed, too."""

    stage, version = STATS, VERSION

    file: ClusterFile

    @property
    def name(self) -> str:
        return "removed-" + self.file.artifact.name.replace("/", "-")

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, added_up(self.tables()))

    def tables(self) -> Iterator[pa.Table]:
        is_matched = (pc.field("stage") == "rules") & (pc.list_value_length(pc.field("also")) > 0)
        for table in self.file.tables(["stage", "reason", "also"]):
            if "also" in table.column_names:
                rules, counts = counted_values(table.filter(is_matched).column("reason"))
                yield statistics(MATCHED_BY_OTHERS, 0, rules, count=counts)


@dataclass(frozen=True)
class LabelsOfClusters(RowsByPart):
    """The labelled documents of a file in clusters of several, by cluster and label: DOCUMENTS_OF_LABEL.

    columns: of the cluster and of its size. labels: of the corpus.
    """

    stage, version = STATS, VERSION

    file: ClusterFile = field(kw_only=True)
    columns: tuple[str, str] = field(kw_only=True)
    labels: tuple[str, ...] = field(kw_only=True)

    def rows(self) -> pa.Table:
        cluster_id, cluster_size = self.columns
        parts = [(np.empty(0, np.uint64), np.empty(0, np.uint16), np.empty(0, np.uint32))]
        for table in self.file.tables([cluster_id, cluster_size, LABEL]):
            labelled = table.filter(pc.field(cluster_size) > 1).select([cluster_id, LABEL]).drop_null()
            names = self.naming.names(labelled.column(cluster_id).to_numpy())
            parts.append(counts_of(names, self.codes(labelled.column(LABEL))))
        merged = counts_of(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        return table_of(DOCUMENTS_OF_LABEL, self.naming.parts(merged[0]), *merged)

    def codes(self, labels: pa.ChunkedArray) -> NDArray[np.uint16]:
        """Return the index of each label: (n,)."""
        encoded = labels.combine_chunks().dictionary_encode()
        codes = [self.labels.index(str(label)) for label in encoded.dictionary.to_pylist()]
        return np.array(codes, np.uint16)[pc.cast(encoded.indices, pa.int64()).to_numpy()]


@dataclass(frozen=True)
class GatheredLabels(GatheredRows):
    """The rows of some files for some neighbouring parts."""

    stage, version = STATS, VERSION


@dataclass(frozen=True)
class LabelsInPart(PartJob[Artifact], ArtifactJob):
    """Count the clusters with several labelled documents in a part by their number of different labels."""

    stage, version = STATS, VERSION

    def make(self) -> Artifact:
        columns, _ = self.part_columns(DOCUMENTS_OF_LABEL)
        names, _, counts = counts_of(*columns)
        starts = run_starts(names)
        labels = np.diff(np.append(starts, len(names)))
        is_several = np.add.reduceat(counts, starts) > 1 if len(starts) else np.zeros(0, np.bool_)
        table = statistics(DIFFERENT_LABELS, place=labels[is_several], count=1)
        return write_table(self.folder, self.path, self.name, table)


def counted_values(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    """Return the different values of a column as text, with their numbers."""
    entries = pc.value_counts(column).to_pylist()
    return [str(entry["values"]) for entry in entries], [entry["counts"] for entry in entries]


def statistics(
    kind: int, source: int = 0, name: Sequence[str] = (), *, place: Any = 0, count: Any
) -> pa.Table:
    """Return rows of DOCUMENT_STATISTICS of a kind, added up; place, count: (n,) or a number."""
    places, counts = np.broadcast_arrays(place, np.atleast_1d(count))
    rows = len(counts)
    columns = [np.full(rows, kind), np.full(rows, source), name or [""] * rows, places, counts]
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, DOCUMENT_STATISTICS, strict=True)
    ]
    return added_up([pa.table(arrays, schema=DOCUMENT_STATISTICS)])


def added_up(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up DOCUMENT_STATISTICS, sorted, without counts of zero."""
    total, keys = DOCUMENT_STATISTICS.empty_table(), DOCUMENT_STATISTICS.names[:-1]
    for table in tables:
        sums = pa.concat_tables([total, table]).group_by(keys).aggregate([("count", "sum")])
        total = sums.rename_columns(DOCUMENT_STATISTICS.names).cast(DOCUMENT_STATISTICS)
    total = total.filter(pc.field("count") > 0)
    return total.sort_by([(key, "ascending") for key in keys]).combine_chunks()


class SumOfDocuments(SumOfTables):
    """Add up some tables of DOCUMENT_STATISTICS."""

    stage, version = STATS, VERSION
    added_up = staticmethod(added_up)
