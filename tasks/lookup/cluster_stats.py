"""The statistics of clusters: their sizes by source, the clusters that sources share, and the largest clusters.

They are made once for each set of published clusters, by jobs on the workers (`tasks.lookup.cluster_counting`), and
kept in the work folder: STATISTICS, some thousands of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import RunOnWorkers, exchange_parts
from zyda_flows.tasks.lookup.cluster_counting import (
    CLUSTERS_OF_ALL,
    DOCUMENTS_OF_ALL,
    LARGEST_CLUSTER,
    MEMBERS,
    SHARED,
    SIZES,
    STATS,
    VERSION,
    ClusterFile,
    FirstRowsOfFile,
    GatheredCounts,
    MembersInFile,
    SharedClusters,
    SharedOfPart,
    SumOfStatistics,
)
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.trees import merge_in_tree
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.tables import read_table, write_table


@dataclass
class ClusterSummary:
    """One of the largest clusters: its documents, in all and by source, and the ids of its first and last one."""

    cluster_id: int
    documents: int
    sources: dict[str, int] = field(default_factory=dict)
    last_id: int = 0


@dataclass
class ClusterStats:
    """The clusters of a round of deduplication.

    sizes: for each source, (sizes, number of clusters with so many documents of the source), (n,) int64 each.
    shared: (sources, sources), number of clusters with documents of both. largest: the LARGEST largest clusters,
    sorted by falling size.
    """

    clusters: int
    documents: int
    sizes: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]
    shared: NDArray[np.int64]
    largest: list[ClusterSummary]


def on_workers(jobs: Sequence[Any]) -> list[Any]:
    """Run jobs on the workers of this task's cluster, or in this process."""
    return fan_out(ArtifactJob.__call__, jobs, stage=STATS, source=None)


def cluster_stats(
    corpus: PublishedCorpus, place: str, sources: Sequence[str], run_jobs: RunOnWorkers = on_workers
) -> ClusterStats | None:
    """Return the statistics of a round's clusters; count the clusters unless they have been counted.

    Args:
        corpus: The published corpus.
        place: Published folder of the clusters.
        sources: Names of the sources, in the order of `shared`.
        run_jobs: Runs jobs, and returns their results.

    Returns:
        None if the round has no clusters.

    Raises:
        Denied: A published file is damaged or not sorted.
    """
    files = corpus.artifacts(f"{place}/")
    if not files:
        return None
    key = stage_key(STATS, VERSION, place, *(file.digest for file in files))
    path = artifact_path(STATS, None, place, key)

    def table() -> pa.Table:
        made = finished_artifact(corpus.root, path)
        if made is None:
            made = write_table(corpus.root, path, place, counted(corpus, files, run_jobs))
        return read_table(corpus.root, made)

    return stats_in(rebuilding_damaged(corpus.root, table), corpus.source_names, sources)


def counted(corpus: PublishedCorpus, files: Sequence[Artifact], run_jobs: RunOnWorkers) -> pa.Table:
    """Count the clusters of some files: STATISTICS."""
    folder, cluster_files = corpus.root, [ClusterFile(corpus, file) for file in files]

    def merged(artifacts: Sequence[Artifact]) -> pa.Table:
        return read_table(
            folder, merge_in_tree(artifacts, partial(SumOfStatistics, folder, None), run_jobs)[0]
        )

    naming = Naming.for_rows(sum(file.rows for file in files))
    sending = [SharedClusters(folder, None, naming, i, file=file) for i, file in enumerate(cluster_files)]
    sent = exchange_parts(sending, len(naming.numbers), run_jobs, GatheredCounts)
    first = run_jobs([FirstRowsOfFile(folder, None, file) for file in cluster_files])
    parts = run_jobs([SharedOfPart(folder, None, naming, i, (), sent.files(i)) for i in naming.numbers])
    counts = merged([*first, *parts])
    largest = tuple(rows_of(counts, LARGEST_CLUSTER).column("a").to_pylist())
    members = merged(run_jobs([MembersInFile(folder, None, file, largest) for file in cluster_files]))
    return pa.concat_tables([counts, members])


def rows_of(table: pa.Table, kind: int) -> pa.Table:
    """Return the rows of a kind. table: STATISTICS."""
    return table.filter(pa.array(table.column("kind").to_numpy() == kind))


def stats_in(table: pa.Table, names: dict[int, str], sources: Sequence[str]) -> ClusterStats:
    """Return the statistics in a table. names: of the sources, by their numbers. sources: the order of `shared`."""
    places = {source: place for place, source in enumerate(sources)}
    clusters, documents = (
        sum(rows_of(table, kind).column("count").to_pylist()) for kind in (CLUSTERS_OF_ALL, DOCUMENTS_OF_ALL)
    )
    by_source = rows_of(table, SIZES)
    numbers = by_source.column("a").to_numpy()
    sizes = dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]()
    for source in sources:
        number = next(number for number, name in names.items() if name == source)
        own = by_source.filter(pa.array(numbers == number))
        if len(own):
            sizes[source] = own.column("b").to_numpy().astype(np.int64), own.column("count").to_numpy()
    shared = np.zeros((len(sources), len(sources)), np.int64)
    for row in rows_of(table, SHARED).to_pylist():
        shared[places[names[row["a"]]], places[names[row["b"]]]] = row["count"]
    largest = {
        row["a"]: ClusterSummary(row["a"], row["count"])
        for row in rows_of(table, LARGEST_CLUSTER).to_pylist()
    }
    for row in rows_of(table, MEMBERS).to_pylist():
        summary = largest[row["a"]]
        summary.sources[names[row["b"]]] = row["count"]
        summary.last_id = max(summary.last_id, row["last"])
    in_order = sorted(largest.values(), key=lambda cluster: (-cluster.documents, cluster.cluster_id))
    return ClusterStats(clusters, documents, sizes, shared, in_order)
