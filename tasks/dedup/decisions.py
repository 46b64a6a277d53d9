"""Decisions: choose which documents of each cluster are kept and which are removed, for the whole corpus.

Rows out: CLUSTERS and `kept_doc_id` (uint64), sorted by doc_id, for every clustered document. `kept_doc_id` is null
for kept documents.

across: in a cluster with documents of several sources, all documents of the best-ranked source are kept, and the
others are removed; other clusters do not change. global: one document of each cluster is kept, of the best-ranked
source, and among several the first by file name and row. Documents of protected sources are always kept, and are
the best of their cluster. For `verify`, and a `prefer` that reads the documents, see `tasks.dedup.by_documents`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.accounts.audited import DecisionFacts
from zyda_flows.tasks.dedup.by_documents import decided_by_documents
from zyda_flows.tasks.dedup.by_pairs import PairComparison
from zyda_flows.tasks.dedup.clusters import cluster_rows
from zyda_flows.tasks.dedup.comparison import Comparison
from zyda_flows.tasks.dedup.costs import decisions_cost
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import Files, RowsByPart, exchange_parts, list_files
from zyda_flows.tasks.dedup.forests import CLUSTERS
from zyda_flows.tasks.dedup.part_tables import PART, columns_of, run_starts, table_of
from zyda_flows.tasks.dedup.preference import Preference, order_of, preference_of
from zyda_flows.tasks.dedup.verify import comparison_of
from zyda_flows.tasks.ids import SOURCE_SHIFT, Ids
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.dedup import Scope
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.sources.input_files import NumberedSource
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob, Job
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import parquet_writer, tables_of, write_artifact

VERSION = 1
DECISIONS = pa.schema([*CLUSTERS, ("kept_doc_id", pa.uint64())])
BEST = pa.schema([PART, ("cluster_id", pa.uint64()), ("priority", pa.uint64()), ("doc_id", pa.uint64())])


class Winners(NamedTuple):
    """The best document of each cluster: `clusters` (c,) uint64, ascending, and two arrays parallel to it."""

    clusters: Ids
    priority: Ids
    doc_ids: Ids

    def decide(self, rows: pa.Table, order: Preference, scope: Scope) -> pa.Table:
        """Decide about documents: CLUSTERS to DECISIONS."""
        doc_ids, cluster_ids = (rows.column(name).to_numpy() for name in ("doc_id", "cluster_id"))
        distinct_ids, inverse = np.unique(cluster_ids, return_inverse=True)
        places, priority = np.searchsorted(self.clusters, distinct_ids)[inverse], order.priority(doc_ids)
        # With "across" only the source's rank in the priority counts, so all documents of that source are kept.
        shift = np.uint64(SOURCE_SHIFT if scope == "across" else 0)
        is_kept = priority >> shift == self.priority[places] >> shift
        is_kept |= order.is_protected(doc_ids)
        kept_ids = pa.array(self.doc_ids[places], mask=is_kept)
        return rows.append_column(DECISIONS.field("kept_doc_id"), kept_ids)


def best_of(clusters: Ids, priority: Ids, doc_ids: Ids) -> Winners:
    """Return the best document of each cluster: (n,) each. No two documents have the same priority."""
    order = np.lexsort([priority, clusters])
    firsts = order[run_starts(clusters[order])]
    return Winners(clusters[firsts], priority[firsts], doc_ids[firsts])


def best_of_file(folder: Folder, clustered: Artifact, order: Preference) -> Winners:
    """Return the best document of each cluster in a file, reading some row groups at a time."""
    parts = [best_of(clusters, order.priority(ids), ids) for ids, clusters in cluster_rows(folder, clustered)]
    columns = zip(*parts, strict=True) if parts else [[np.empty(0, np.uint64)]] * len(Winners._fields)
    return best_of(*map(np.concatenate, columns))


@dataclass(frozen=True)
class BestOfFile(RowsByPart):
    """The best documents of the clusters in a file, by the clusters' names. artifacts: the file."""

    stage, version = "decisions", VERSION

    order: Annotated[Preference, NotInKey("`order_key` is a hash of it")] = field(kw_only=True)
    order_key: str = field(kw_only=True)

    def rows(self) -> pa.Table:
        (clustered,) = self.artifacts
        best = best_of_file(self.folder, clustered, self.order)
        names = self.naming.names(best.clusters)
        by_name = np.argsort(names)
        return table_of(BEST, self.naming.parts(names[by_name]), *(column[by_name] for column in best))


@dataclass(frozen=True)
class BestOfAll(RowsByPart):
    """The best documents of a part's clusters, for each file with these clusters, `shared_files`."""

    stage, version = "decisions", VERSION

    def rows(self) -> pa.Table:
        (clusters, priority, doc_ids), askers = self.part_columns(BEST)
        best = best_of(clusters, priority, doc_ids)
        places = np.searchsorted(best.clusters, clusters)
        return table_of(BEST, askers, *(column[places] for column in best))


@dataclass(frozen=True)
class DecidedFile(ArtifactJob):
    """The decisions about a file of clusters.

    shared_files: the best of each cluster, by file; None if there is a single file. deciding_stage, key_of_stage:
    the stage that decides, and its key.
    """

    version = VERSION

    clustered: Annotated[Artifact, NotInKey("`key_of_stage` is a hash of it")]
    number: Annotated[int, NotInKey("its name has it")]
    shared_files: Annotated[Files | None, NotInKey("`key_of_stage` is a hash of it")]
    order: Annotated[Preference, NotInKey("`key_of_stage` is a hash of it")]
    scope: Annotated[Scope, NotInKey("`key_of_stage` is a hash of it")]
    deciding_stage: Annotated[str, NotInKey("its path has it")]
    key_of_stage: str

    @property
    def stage(self) -> str:
        return self.deciding_stage

    @property
    def name(self) -> str:
        return f"{self.number:05d}"

    @property
    def key(self) -> str:
        return self.key_of_stage

    def make(self) -> Artifact:
        winners = self.winners()

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, DECISIONS, use_dictionary=False) as writer:
                for rows in tables_of(self.folder, self.clustered):
                    writer.write_table(winners.decide(rows, self.order, self.scope))

        return write_artifact(self.folder, self.path, self.name, fill)

    def winners(self) -> Winners:
        if self.shared_files is None:
            return best_of_file(self.folder, self.clustered, self.order)
        return best_of(*columns_of(self.shared_files.part(self.number)[0], BEST))


def decided_by_ids(
    dedup_round: Round,
    tables: Sequence[Artifact],
    order: Preference,
    order_key: str,
    scope: Scope,
    files_key: str,
    stage: str = "decisions",
) -> list[Artifact]:
    """Decide about files of clusters by their documents' ids. files_key: of the files that are written.

    stage: the stage that decides.
    """
    folder = dedup_round.folder
    run_jobs = partial(fan_out, Job.__call__, stage=dedup_round.name_of(stage), source=None)
    best_by_file = None
    if len(tables) > 1:
        naming = Naming.for_rows(sum(clusters_file.rows for clusters_file in tables))
        best = [
            BestOfFile(folder, None, naming, number, (clusters_file,), order=order, order_key=order_key)
            for number, clusters_file in enumerate(tables)
        ]
        best_by_part = exchange_parts(best, len(naming.numbers), run_jobs)
        best_jobs = [BestOfAll(folder, None, naming, i, (), best_by_part.files(i)) for i in naming.numbers]
        best_by_file = exchange_parts(best_jobs, len(tables), run_jobs)
    return run_jobs(
        [
            DecidedFile(
                folder=folder,
                source=None,
                clustered=clusters_file,
                number=number,
                shared_files=best_by_file.files(number) if best_by_file else None,
                order=order,
                scope=scope,
                deciding_stage=stage,
                key_of_stage=files_key,
            )
            for number, clusters_file in enumerate(tables)
        ]
    )


def comparison_for(dedup_round: Round, confirmed: Receipt | Sequence[Receipt]) -> Comparison:
    """Return the rule of a round. confirmed: the pairs of a semantic round; otherwise an empty list."""
    if isinstance(dedup_round.dedup, SemanticRound):
        assert isinstance(confirmed, Receipt)
        pairs = load_manifest(dedup_round.folder, confirmed).artifacts
        with_pairs = [file for file in pairs if file.rows]
        return PairComparison(dedup_round.dedup, list_files(dedup_round.folder, with_pairs))
    return comparison_of(dedup_round.dedup)


def key(
    dedup_round: Round,
    trails: list[Trail],
    clusters_receipt: Receipt,
    sources: list[NumberedSource],
    confirmed: Receipt | Sequence[Receipt],
) -> str:
    comparison, order = comparison_for(dedup_round, confirmed), order_of(dedup_round, sources)
    if comparison.needs_only_ids:
        return stage_key("decisions", VERSION, [dedup_round.dedup.scope, order], clusters_receipt.identity)
    identities = [identity for trail in trails for identity in trail.identities]
    return stage_key(
        "decisions", VERSION, [comparison.key_settings, order], clusters_receipt.identity, *identities
    )


@stage(
    "decisions", key, scope="corpus", inputs=("trails", "clusters", "sources", "confirm"), cost=decisions_cost
)
def decisions(
    dedup_round: Round,
    trails: list[Trail],
    clusters_receipt: Receipt,
    sources: list[NumberedSource],
    confirmed: Receipt | Sequence[Receipt],
) -> Manifest:
    """Decide about all clusters. trails: of each source, with the verdicts before near-duplicates are decided."""
    folder = dedup_round.folder
    tables, order = load_manifest(folder, clusters_receipt).artifacts, preference_of(dedup_round, sources)
    order_key = digest_of(order_of(dedup_round, sources))
    comparison = comparison_for(dedup_round, confirmed)
    if comparison.needs_only_ids:
        files_key = key(dedup_round, trails, clusters_receipt, sources, confirmed)
        decided = decided_by_ids(dedup_round, tables, order, order_key, dedup_round.dedup.scope, files_key)
        return Manifest(stage="decisions", artifacts=tuple(decided))
    taking_part = [trail for trail in trails if not dedup_round.recipe.source(trail.source).exempt]
    shards = [history.shard for trail in taking_part for history in load_histories(folder, trail)]
    decided, intermediate, by_index = decided_by_documents(
        dedup_round, shards, tables, order, order_key, comparison
    )
    if by_index.is_needed:
        warn(f"{dedup_round.name_of('decisions')}: {by_index.sentence()}")
    return Manifest(
        stage="decisions",
        artifacts=tuple(decided),
        intermediate=tuple(intermediate),
        facts=DecisionFacts(by_index=by_index if by_index.is_needed else None).written(),
    )
