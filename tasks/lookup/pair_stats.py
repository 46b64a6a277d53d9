"""The statistics of a semantic round: pairs by cosine, and the documents that each threshold would remove.

They are counted once for each set of published files, by a job for each file of pairs, whose results are added up
in a tree, and kept in the work folder: PAIR_STATISTICS, some hundred rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.exchange import RunOnWorkers
from zyda_flows.tasks.dedup.part_tables import run_starts
from zyda_flows.tasks.ids import Ids, sources_of
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.semantic.compared_texts import Relation
from zyda_flows.tasks.semantic.models import semantic_of
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.trees import SumOfTables, merge_in_tree
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 2
STATS = "pair_stats"
LISTED = 10  # contradictions
# Lower ends of the bins of cosines. Bin 0 has the cosines below the first, bin i those from THRESHOLDS[i - 1].
THRESHOLDS = (np.arange(80, 100) / 100).astype(np.float32)
READ = ["doc_id", "other_id", "cosine", "relation", "agrees"]

# kind: of the row. bin: of the cosine. count: of pairs or documents; tokens: of documents. The other columns are
# those of the round's pairs, for a listed contradiction.
PAIR_STATISTICS = pa.schema(
    [
        ("kind", pa.uint8()),
        ("bin", pa.uint8()),
        ("count", pa.int64()),
        ("tokens", pa.int64()),
        ("doc_id", pa.uint64()),
        ("other_id", pa.uint64()),
        ("cosine", pa.float32()),
    ]
)
RELATIONS = tuple(Relation)  # the kinds of counts of pairs
DOCUMENTS, AGREEING_DOCUMENTS, LISTED_PAIR = range(len(RELATIONS), len(RELATIONS) + 3)


@dataclass(frozen=True)
class Preferred:
    """Which documents of pairs are preferred. ranks: by the number of the source. protected: numbers of sources.

    is_global: whether documents of one source may be removed for each other.
    """

    ranks: tuple[int, ...]
    protected: tuple[int, ...]
    is_global: bool

    def may_remove(self, ids: Ids, others: Ids) -> NDArray[np.bool_]:
        """Return whether each document may be removed for the other: (n,) twice to (n,)."""
        ranks, sources = np.array(self.ranks, np.int64), sources_of(ids)
        own, other = ranks[sources], ranks[sources_of(others)]
        is_better = (other < own) | (self.is_global & (other == own) & (others < ids))
        return is_better & ~np.isin(sources, self.protected)


@dataclass(frozen=True)
class PairsOfFile(ArtifactJob):
    """Count the pairs of a published file: PAIR_STATISTICS.

    cosine: the lowest of a listed contradiction. token_counts: a digest that changes with the tokens of documents.
    """

    stage, version = STATS, VERSION

    file: ClusterFile
    preferred: Preferred
    cosine: float
    token_counts: str

    @property
    def name(self) -> str:
        return self.file.artifact.name

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, added_up(self.tables()))

    def tables(self) -> Iterator[pa.Table]:
        best = [np.empty((0, 3), np.uint64)]
        for table in self.file.tables(READ):
            ids, others, cosines = (table.column(name).to_numpy() for name in READ[:3])
            bins = np.searchsorted(THRESHOLDS, cosines, side="right")
            yield from self.pairs(table, bins)
            is_preferred = self.preferred.may_remove(ids, others)
            with_facts = is_preferred & table.column("agrees").to_numpy()
            best.append(highest(ids, bins * is_preferred, bins * with_facts))
        ids, bins, bins_with_facts = highest(*np.concatenate(best).T).T
        some = bins > 0
        ids, bins, bins_with_facts = ids[some], bins[some], bins_with_facts[some]
        is_found, tokens = tokens_of(self.file.corpus, ids)
        yield statistics(DOCUMENTS, bins[is_found], tokens[is_found])
        yield statistics(AGREEING_DOCUMENTS, bins_with_facts[is_found], tokens[is_found])

    def pairs(self, table: pa.Table, bins: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Count the rows whose document is the first of its pair. bins: (n,)."""
        ids, others, cosines = (table.column(name).to_numpy() for name in READ[:3])
        is_first = ids < others
        relations = table.column("relation")
        for kind, relation in enumerate(RELATIONS):
            yield statistics(kind, bins[is_first & pc.equal(relations, relation).to_numpy()], 0)
        is_listed = is_first & pc.equal(relations, Relation.CONTRADICTION).to_numpy()
        is_listed &= cosines >= np.float32(self.cosine)
        shown = (column[is_listed] for column in (ids, others, cosines))
        yield statistics(LISTED_PAIR, bins[is_listed], 0, *shown)


def highest(ids: Ids, bins: NDArray[Any], bins_with_facts: NDArray[Any]) -> NDArray[np.uint64]:
    """Return each document once, with its highest bins. ids: (n,), ascending; the result: (m, 3)."""
    starts = run_starts(ids)
    if not len(starts):
        return np.empty((0, 3), np.uint64)
    bests = (np.maximum.reduceat(each, starts) for each in (bins, bins_with_facts))
    return np.stack([ids[starts], *(best.astype(np.uint64) for best in bests)], axis=1)


def tokens_of(corpus: PublishedCorpus, ids: Ids) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which documents are published or removed, and their tokens: (n,) twice. ids: (n,), ascending."""
    is_found, tokens = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.int64)
    wanted = ids.tolist()
    for file, _ in (*corpus.files_with(wanted), *corpus.files_with(wanted, "removed/")):
        for table in corpus.row_groups_of(file, ["doc_id", "n_tokens"]):
            table = table.filter(pc.field("doc_id").isin(pa.array(ids)))
            places = np.searchsorted(ids, table.column("doc_id").to_numpy())
            is_found[places] = True
            tokens[places] = table.column("n_tokens").to_numpy()
    return is_found, tokens


def statistics(kind: int, bins: NDArray[Any], tokens: Any, *shown: NDArray[Any]) -> pa.Table:
    """Return rows of PAIR_STATISTICS of a kind. bins, shown: (n,) each. tokens: (n,) or a number."""
    missing = [0] * (len(PAIR_STATISTICS) - 4 - len(shown))
    rows = np.broadcast_arrays(kind, bins, 1, tokens, *shown, *missing)
    arrays = [
        pa.array(values.astype(field.type.to_pandas_dtype()))
        for values, field in zip(rows, PAIR_STATISTICS, strict=True)
    ]
    return pa.table(arrays, schema=PAIR_STATISTICS)


def added_up(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up PAIR_STATISTICS, with the LISTED contradictions of the highest cosines."""
    total = PAIR_STATISTICS.empty_table()
    by = ["kind", "bin", "doc_id", "other_id", "cosine"]  # the last three are 0 in rows of counts
    for table in tables:
        rows = pa.concat_tables([total, table])
        sums = rows.group_by(by).aggregate([("count", "sum"), ("tokens", "sum")])
        sums = sums.rename_columns([*by, "count", "tokens"]).select(PAIR_STATISTICS.names)
        in_order = sums.sort_by(
            [
                ("cosine", "descending"),
                *((name, "ascending") for name in ("doc_id", "other_id", "kind", "bin")),
            ]
        )
        is_listed = pc.field("kind") == LISTED_PAIR
        listed = in_order.filter(is_listed).slice(0, LISTED)
        total = pa.concat_tables([in_order.filter(~is_listed), listed]).cast(PAIR_STATISTICS)
    return total.combine_chunks()


class SumOfPairs(SumOfTables):
    """Add up some tables of PAIR_STATISTICS."""

    stage, version = STATS, VERSION
    added_up = staticmethod(added_up)


def on_workers(jobs: Sequence[Any]) -> list[Any]:
    """Run jobs on the workers of this task's cluster, or in this process."""
    return fan_out(ArtifactJob.__call__, jobs, stage=STATS, source=None)


def pair_stats(
    corpus: PublishedCorpus, dedup_round: Round, run_jobs: RunOnWorkers = on_workers
) -> pa.Table | None:
    """Return PAIR_STATISTICS of a semantic round; count them unless they have been counted.

    Args:
        corpus: The published corpus.
        dedup_round: With the settings of the published corpus.
        run_jobs: Runs jobs, and returns their results.

    Returns:
        None if the round has no pairs.

    Raises:
        Denied: A published file is damaged.
    """
    files = corpus.artifacts(f"{dedup_round.name_of('pairs')}/")
    if not files:
        return None
    folder, manifest = corpus.root, corpus.manifest
    token_counts = digest_of([manifest.tokenizer["digest"], manifest.ledger.model_dump(mode="json")])
    preferred, cosine = preferred_in(corpus, dedup_round), semantic_of(dedup_round).semantic.cosine
    jobs = [
        PairsOfFile(folder, None, ClusterFile(corpus, file), preferred, cosine, token_counts)
        for file in files
    ]
    path = artifact_path(STATS, None, "pairs", stage_key(STATS, VERSION, *(job.key for job in jobs)))

    def table() -> pa.Table:
        made = finished_artifact(folder, path)
        if made is None:
            added = merge_in_tree(run_jobs(jobs), partial(SumOfPairs, folder, None), run_jobs)[0]
            made = write_table(folder, path, "pairs", read_table(folder, added))
        return read_table(folder, made)

    return rebuilding_damaged(folder, table)


def preferred_in(corpus: PublishedCorpus, dedup_round: Round) -> Preferred:
    """Return the order of the sources: protected sources first, then as in the manifest."""
    protected = {source["name"] for source in corpus.manifest.recipe["sources"] if source.get("protect")}
    origins = sorted(corpus.manifest.made_of, key=lambda origin: origin.source not in protected)
    ranks = [0] * (1 + max(origin.number for origin in origins))
    for rank, origin in enumerate(origins):
        ranks[origin.number] = rank
    numbers = tuple(origin.number for origin in origins if origin.source in protected)
    return Preferred(tuple(ranks), numbers, semantic_of(dedup_round).scope == "global")
