"""Cluster files: the clustered documents of a range of doc_ids each, sorted, with the sizes of their clusters.

The ends of the ranges depend on the number of documents in the sources, and not on how the clusters were found.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.dedup import forests
from zyda_flows.tasks.dedup.contraction import ROOTS
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import PartJob, RowsByPart, RunOnWorkers, exchange_parts
from zyda_flows.tasks.dedup.forests import CLUSTERS, SIZES, Forest
from zyda_flows.tasks.dedup.part_tables import PART, run_starts, table_of
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.signatures.bands import numbers_in_name
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.jobs import ArtifactJob, RecordJob
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, load_manifest
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import footer_of, parquet_writer, write_artifact

FILE_DOCUMENTS = 8 << 20  # documents of the sources in the range of a file, clustered or not
CLUSTER_COUNTS = pa.schema([PART, ("name", pa.uint64()), ("first", pa.uint64()), ("count", pa.uint32())])
SIZED = pa.schema([PART, ("name", pa.uint64()), ("first", pa.uint64()), *SIZES])
PLACED = pa.schema([PART, *CLUSTERS])


class ClusterFiles(Record):
    """The files of all clusters."""

    artifacts: tuple[Artifact, ...] = ()


def cuts_of(folder: Folder, trails: Sequence[Trail], sources: Sequence[NumberedSource]) -> tuple[int, ...]:
    """Return the first document of each file of clusters except the first file, from the counts of ingest.

    Reads nothing if the documents of all sources are in one file.
    """
    if not need_several_files(trails):
        return ()
    groups = shards_by_file(folder, trails, sources)
    return tuple(first_document(folder, group[0]) for group in groups[1:])


def shards_by_file(
    folder: Folder, trails: Sequence[Trail], sources: Sequence[NumberedSource]
) -> list[list[Artifact]]:
    """Return the shards with documents, of all sources, grouped by the file of clusters that has their range."""
    numbers = {source.source: source.number for source in sources}
    groups, documents = [list[Artifact]()], 0
    for ingested in sorted(
        (trail.receipts[0] for trail in trails), key=lambda receipt: numbers[str(receipt.source)]
    ):
        artifacts = sorted(load_manifest(folder, ingested).artifacts, key=numbers_in_name)
        for artifact in artifacts:
            documents += artifact.rows
            if documents > FILE_DOCUMENTS and artifact.rows:
                groups.append([])
                documents = artifact.rows
            groups[-1] += [artifact] if artifact.rows else []
    return groups


def need_several_files(trails: Sequence[Trail]) -> bool:
    """Return whether the documents of all sources need more than one file."""
    return sum(trail.receipts[0].out.documents for trail in trails) > FILE_DOCUMENTS


def first_document(folder: Folder, artifact: Artifact) -> int:
    """Return the smallest doc_id of a shard with documents, from its footer."""
    footer = footer_of(folder, artifact)
    return int(footer.row_group(0).column(footer.schema.names.index("doc_id")).statistics.min)


def write_clusters(folder: Folder, path: str, name: str, tables: Iterable[pa.Table]) -> Artifact:
    def fill(scratch: Any) -> None:
        with parquet_writer(scratch, CLUSTERS, use_dictionary=False) as writer:
            for table in tables:
                writer.write_table(table)

    return write_artifact(folder, path, name, fill)


def files_of_forest(job: RecordJob[ClusterFiles], whole: Forest, cuts: Sequence[int]) -> ClusterFiles:
    """Write a forest as files of clusters."""
    ends = np.searchsorted(whole.ids, np.array(cuts, np.uint64)).tolist()
    artifacts = list[Artifact]()
    for number, (start, end) in enumerate(pairwise([0, *ends, len(whole.ids)])):
        name = f"{number:05d}"
        groups = (
            whole.clusters(slice(at, min(end, at + forests.GROUP_ROWS)))
            for at in range(start, end, forests.GROUP_ROWS)
        )
        path = artifact_path(job.stage, None, name, job.key)
        artifacts.append(write_clusters(job.folder, path, name, groups))
    return ClusterFiles(artifacts=tuple(artifacts))


@dataclass(frozen=True)
class CountedClusters(RowsByPart):
    """A part's counts of the documents of its clusters, by source. artifacts: the roots of its documents."""

    def rows(self) -> pa.Table:
        names, roots = self.own_columns(ROOTS)
        ids, clusters = self.naming.ids(names), self.naming.names(roots)
        order = np.lexsort([ids, clusters])
        ids, clusters = ids[order], clusters[order]
        starts = run_starts(clusters, sources_of(ids))
        counts = np.diff(np.append(starts, len(ids))).astype(np.uint32)
        ids, clusters = ids[starts], clusters[starts]
        return table_of(CLUSTER_COUNTS, self.naming.parts(clusters), clusters, ids, counts)


@dataclass(frozen=True)
class SizedClusters(RowsByPart):
    """The first document, the size and the sources of a part's clusters, for the parts with their documents.

    shared_files: the counts of CountedClusters.
    """

    def rows(self) -> pa.Table:
        (clusters, firsts, counts), askers = self.part_columns(CLUSTER_COUNTS)
        order = np.lexsort([firsts, clusters])
        clusters, firsts, counts = clusters[order], firsts[order], counts[order]
        starts = run_starts(clusters)
        if not len(starts):
            return SIZED.empty_table()
        is_new = np.zeros(len(clusters), np.uint16)
        is_new[run_starts(clusters, sources_of(firsts))] = 1
        sizes = np.add.reduceat(counts.astype(np.uint64), starts).astype(np.uint32)
        cluster_columns = (clusters[starts], firsts[starts], sizes, np.add.reduceat(is_new, starts))
        # A part has a row for each source of a cluster, and gets a single answer.
        places = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(clusters))))
        del clusters, firsts, counts
        askers = askers[order]
        order = np.argsort(askers, kind="stable")
        order = order[run_starts(askers[order], places[order])]
        return table_of(SIZED, askers[order], *(column[places[order]] for column in cluster_columns))


@dataclass(frozen=True)
class PlacedDocuments(RowsByPart):
    """A part's documents with their clusters, by the file of their range.

    artifacts: the roots of its documents. shared_files: the rows of SizedClusters. cuts: the first document of each
    file except the first.
    """

    cuts: tuple[int, ...] = field(kw_only=True)

    def rows(self) -> pa.Table:
        names, roots = self.own_columns(ROOTS)
        (clusters, *cluster_columns), _ = self.part_columns(SIZED)
        places, ids = np.searchsorted(clusters, self.naming.names(roots)), self.naming.ids(names)
        order = np.argsort(ids)
        ids, places = ids[order], places[order]
        files = np.searchsorted(np.array(self.cuts, np.uint64), ids, side="right").astype(np.uint32)
        return table_of(PLACED, files, ids, *(column[places] for column in cluster_columns))


@dataclass(frozen=True)
class ClustersOfRange(PartJob[Artifact], ArtifactJob):
    """The clustered documents of a file; `part` is its number. shared_files: the documents of all parts."""

    def make(self) -> Artifact:
        columns, _ = self.part_columns(PLACED)
        order = np.argsort(columns[0])
        groups = (
            table_of(CLUSTERS, *(column[order[at : at + forests.GROUP_ROWS]] for column in columns))
            for at in range(0, len(order), forests.GROUP_ROWS)
        )
        return write_clusters(self.folder, self.path, self.name, groups)

    @property
    def name(self) -> str:
        return f"{self.part:05d}"


def files_of_roots(
    folder: Folder, naming: Naming, roots: Sequence[Artifact], cuts: tuple[int, ...], run_jobs: RunOnWorkers
) -> tuple[Artifact, ...]:
    """Write the files of clusters from the roots of the documents of each part."""
    counting = [CountedClusters(folder, None, naming, i, (artifact,)) for i, artifact in enumerate(roots)]
    parts, files = len(naming.numbers), range(len(cuts) + 1)
    counted = exchange_parts(counting, parts, run_jobs)
    sizing = [SizedClusters(folder, None, naming, i, (), counted.files(i)) for i in naming.numbers]
    sized = exchange_parts(sizing, parts, run_jobs)
    placing = [
        PlacedDocuments(folder, None, naming, i, (artifact,), sized.files(i), cuts=cuts)
        for i, artifact in enumerate(roots)
    ]
    placed = exchange_parts(placing, len(files), run_jobs)
    return tuple(run_jobs([ClustersOfRange(folder, None, naming, i, (), placed.files(i)) for i in files]))
