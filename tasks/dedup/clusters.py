"""Clusters: the connected components of the edges.

Rows out: `doc_id`, `cluster_id` (uint64), `cluster_size` (documents) and `cluster_sources`, sorted by doc_id, for
every document that shares a bucket with another. A cluster's id is its smallest doc_id. Each file has a range of
documents (`tasks.dedup.cluster_files`).

Groups of files of edges are reduced to forests (`tasks.dedup.forests`), and groups of forests to larger forests, as
a tree whose last step joins all. If the last step exceeds the memory of a task, the forests are contracted in
rounds over parts of the documents (`tasks.dedup.contraction`), with the same rows as a result.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from zyda_flows.tasks.dedup.cluster_files import (
    ClusterFiles,
    cuts_of,
    files_of_forest,
    files_of_roots,
    need_several_files,
)
from zyda_flows.tasks.dedup.contraction import roots_of
from zyda_flows.tasks.dedup.costs import clusters_cost
from zyda_flows.tasks.dedup.exchange import RunOnWorkers, group_neighbours
from zyda_flows.tasks.dedup.forests import (
    FOREST,
    LAST_DOCUMENTS,
    STEP_DOCUMENTS,
    Forest,
    forest_of_edges,
    join_all,
    read_forest,
)
from zyda_flows.tasks.ids import Ids, sources_of
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob, Job, Made, RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact
from zyda_flows.tasks.workers.engine import is_on_gpu

VERSION = 1
EDGE_DOCUMENTS = 2  # documents


@dataclass(frozen=True)
class JoinedFiles(Job[Made]):
    """Files to join to a forest: files of edges in the first level, of forests in the others.

    within_sources: use only the edges with both ends in one source.
    """

    version = VERSION

    artifacts: tuple[Artifact, ...]
    level: int
    number: int
    within_sources: Annotated[bool, NotInKey("where it counts, the stage is another")] = field(
        default=False, kw_only=True
    )

    @property
    def stage(self) -> str:
        """The stage that reads the edges; forests of later levels do not depend on the stage."""
        return "own_clusters" if self.within_sources and self.level == 0 else "clusters"

    @property
    def name(self) -> str:
        return f"{self.level:02d}-{self.number:05d}"

    def forest(self) -> Forest:
        return (self.on_gpu() if is_on_gpu() else None) or self.on_cpu()

    def on_cpu(self) -> Forest:
        return join_all(self.forest_in(artifact) for artifact in self.artifacts)

    def on_gpu(self) -> Forest | None:
        """Join the files on this worker's GPU, or return None if they exceed its memory."""
        from zyda_flows.tasks.gpu.joining import MOST_EDGES, forest_of  # CUDA's libraries come with it
        from zyda_flows.tasks.gpu.self_test import VERIFIED_KERNELS, expect_same

        if (count := sum(artifact.rows for artifact in self.artifacts)) <= MOST_EDGES:
            with suppress(MemoryError):
                forest = Forest(*forest_of(self.edges_in(artifact) for artifact in self.artifacts))
                if "clusters" not in VERIFIED_KERNELS:
                    by_cpu = self.on_cpu()
                    expect_same("clusters", [forest.ids, forest.roots], [by_cpu.ids, by_cpu.roots])
                    VERIFIED_KERNELS.update(["clusters"] if len(forest.ids) else [])
                return forest
        warn(f"{count:,} edges exceed the memory of the GPU: the CPU joins them")
        return None

    def edges_in(self, artifact: Artifact) -> tuple[Ids, Ids]:
        """Return a file's edges; of a forest, an edge from each document to its root: (n,) twice."""
        if self.level == 0:
            a, b = (column.to_numpy() for column in read_table(self.folder, artifact).columns)
            is_used = sources_of(a) == sources_of(b) if self.within_sources else slice(None)
            return a[is_used], b[is_used]
        whole = read_forest(self.folder, artifact)
        return whole.ids[whole.roots], whole.ids

    def forest_in(self, artifact: Artifact) -> Forest:
        if self.level == 0:
            return forest_of_edges(*self.edges_in(artifact))
        return read_forest(self.folder, artifact)


@dataclass(frozen=True)
class ForestOfFiles(JoinedFiles[Artifact], ArtifactJob):
    """Files to reduce to a forest."""

    def make(self) -> Artifact:
        whole = self.forest()

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, FOREST, use_dictionary=False) as writer:
                for table in whole.rows():
                    writer.write_table(table)

        return write_artifact(self.folder, self.path, self.name, fill)


@dataclass(frozen=True)
class ClustersOfFiles(JoinedFiles[ClusterFiles], RecordJob[ClusterFiles]):
    """The last files, to join to clusters. cuts: the first document of each file of clusters except the first."""

    kind = ClusterFiles

    cuts: tuple[int, ...]

    def make(self) -> ClusterFiles:
        return self.recorded(files_of_forest(self, self.forest(), self.cuts))


def groups_of_files(artifacts: Sequence[Artifact], documents_of_row: int) -> list[tuple[Artifact, ...]]:
    """Group neighbouring files, as many as a step can hold; all of them if the last step can hold them.

    documents_of_row: most documents in a row.
    """
    if documents_of_row * sum(artifact.rows for artifact in artifacts) <= LAST_DOCUMENTS:
        return [tuple(artifacts)]
    return group_neighbours(artifacts, STEP_DOCUMENTS // documents_of_row)


def clusters_of(
    folder: Folder,
    artifacts: Sequence[Artifact],
    cuts: tuple[int, ...],
    run_jobs: RunOnWorkers,
    *,
    within: bool = False,
) -> tuple[Artifact, ...]:
    """Find the clusters of files of edges, level by level. run_jobs: runs jobs and returns their results.

    within: find the clusters within each source.
    """
    level = 0
    while len(groups := groups_of_files(artifacts, 1 if level else EDGE_DOCUMENTS)) > 1:
        # A level that barely reduces the number of files would be repeated forever.
        if level and len(groups) > len(artifacts) * 3 // 4:
            naming, roots = roots_of(folder, artifacts, run_jobs, STEP_DOCUMENTS // EDGE_DOCUMENTS)
            return files_of_roots(folder, naming, roots, cuts, run_jobs)
        artifacts = run_jobs(
            [
                ForestOfFiles(folder, None, group, level, i, within_sources=within)
                for i, group in enumerate(groups)
            ]
        )
        level += 1
    whole = ClustersOfFiles(folder, None, groups[0], level, 0, cuts, within_sources=within)
    last: ClusterFiles = run_jobs([whole])[0]
    return last.artifacts


def key(
    dedup_round: Round, trails: list[Trail], edges_receipt: Receipt, sources: list[NumberedSource]
) -> str:
    # If there are several files, their ends depend on the counts of ingest.
    ingested = [trail.receipts[0].identity for trail in trails] if need_several_files(trails) else []
    return stage_key("clusters", VERSION, None, edges_receipt.identity, *ingested)


@stage(
    "clusters",
    key,
    scope="corpus",
    inputs=("trails", "edges|links", "sources"),
    published_as="clusters",
    cost=clusters_cost,
)
def clusters(
    dedup_round: Round, trails: list[Trail], edges_receipt: Receipt, sources: list[NumberedSource]
) -> Manifest:
    """Find the clusters of all edges. trails: of each source; the first receipt has its ingested documents."""
    return manifest_of("clusters", dedup_round, trails, edges_receipt, sources)


def own_key(
    dedup_round: Round, trails: list[Trail], edges_receipt: Receipt, sources: list[NumberedSource]
) -> str:
    return stage_key("own_clusters", VERSION, None, key(dedup_round, trails, edges_receipt, sources))


@stage(
    "own_clusters", own_key, scope="corpus", inputs=("trails", "edges|links", "sources"), cost=clusters_cost
)
def own_clusters(
    dedup_round: Round, trails: list[Trail], edges_receipt: Receipt, sources: list[NumberedSource]
) -> Manifest:
    """Find the clusters of each source alone."""
    return manifest_of("own_clusters", dedup_round, trails, edges_receipt, sources)


def manifest_of(
    stage: str,
    dedup_round: Round,
    trails: list[Trail],
    edges_receipt: Receipt,
    sources: list[NumberedSource],
) -> Manifest:
    folder, name = dedup_round.folder, dedup_round.name_of(stage)
    run_jobs = partial(fan_out, Job.__call__, stage=name, source=None, engine=dedup_round.recipe.engine)
    cuts = cuts_of(folder, trails, sources)
    edges = load_manifest(folder, edges_receipt).artifacts
    return Manifest(
        stage=stage, artifacts=clusters_of(folder, edges, cuts, run_jobs, within=stage == "own_clusters")
    )


def cluster_rows(folder: Folder, clustered: Artifact) -> Iterator[tuple[Ids, Ids]]:
    """Yield documents and their clusters, some MiB at a time: (n,) uint64 each."""
    for table in tables_of(folder, clustered, ["doc_id", "cluster_id"]):
        doc_ids, cluster_ids = table.columns
        yield doc_ids.to_numpy(), cluster_ids.to_numpy()
