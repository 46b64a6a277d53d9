"""A trial of deduplication with other bands and rows: the removals at several thresholds.

The stages of a round are run for each threshold, from the texts of ingest. Their artifacts are in the work folder,
and a build with the same bands and rows reuses them. Signatures of different lengths have to be computed
separately, but the text of a shard is read only once for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from zyda_flows.tasks.dedup.likeness import AUDIT
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.recipe.rounds import round_to_try
from zyda_flows.tasks.signatures.banding import bandings
from zyda_flows.tasks.signatures.minhash import KeysOfRounds, KeysOfShard
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.groups import trails_of
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.verdicts import load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Receipt, load_manifest
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record
from zyda_flows.tasks.storage.tables import read_table, tables_of

BANDINGS = "bandings.json"  # in the corpus' folder: the results of the last trial
STAGES = (
    "minhash",
    "edges",
    "clusters",
    "decisions",
    "removals",
    "audit",
)  # stages of the round that are run


class SourceRemovals(Record):
    """The counts of the documents of a source that enter the round, and of its removed documents."""

    source: str
    entering: Counts
    removed: Counts


class BandingResult(Record):
    """The result of a round with some bands and rows.

    pairs: compared by its audit. below: the pairs whose similarity is less than the threshold. others: a hash of
    the other settings of the round.
    """

    threshold: float
    bands: int
    rows: int
    sources: tuple[SourceRemovals, ...]
    pairs: int
    below: int
    others: str

    @property
    def entering(self) -> Counts:
        return total(source.entering for source in self.sources)

    @property
    def removed(self) -> Counts:
        return total(source.removed for source in self.sources)


class TriedBandings(Record):
    """The results of several bands and rows for a corpus, in the order of their thresholds."""

    tried: tuple[BandingResult, ...]


def tried_before(folder: Folder) -> TriedBandings | None:
    """Return the results of the last trial, or None. Raises Damaged."""
    return read_record(folder, BANDINGS, TriedBandings)


def with_threshold(recipe: Recipe, threshold: float) -> Recipe:
    """Return a recipe whose first round of near-duplicates has bands and rows for a threshold, as the last round.

    Raises BadRecipe if there is no round of near-duplicates.
    """
    number = round_to_try(recipe)
    dedup = recipe.rounds[number - 1]
    assert isinstance(dedup, MinHashRound)
    best = bandings(threshold, dedup.values)[0]
    fields = dedup.model_dump(exclude={"values", "bands", "rows"}) | {"bands": best.bands, "rows": best.rows}
    tried_round = MinHashRound.model_validate(
        {name: value for name, value in fields.items() if value is not None}
    )
    return recipe.model_copy(update={"rounds": (*recipe.rounds[: number - 1], tried_round)})


@dataclass(frozen=True)
class KeysOfBandings:
    """The band keys of a shard for several rounds, computed on a worker in one pass over its texts."""

    folder: Folder
    source: str
    shard: Artifact
    rounds: tuple[Dedup, ...]

    def __call__(self) -> None:
        missing = tuple(
            dedup
            for dedup in self.rounds
            if KeysOfShard(self.folder, self.source, self.shard, dedup).made_before() is None
        )
        if missing:
            keys = KeysOfRounds(missing)
            for table in tables_of(self.folder, self.shard, ["doc_id", "text"]):
                keys.add(table)
            keys.write(self.folder, self.source, self.shard)


@task(task_run_name="keys of all bandings", **ONCE_A_BUILD)
def make_keys(recipes: Sequence[Recipe], trails: list[Any]) -> None:
    """Compute the band keys of all sources for several recipes, in one pass over the texts.

    trails: of all sources, the receipts of the stages before the rounds.
    """
    recipe, rounds = recipes[0], tuple(variant.rounds[-1] for variant in recipes)
    jobs = [
        KeysOfBandings(recipe.folder, trail.source, history.shard, rounds)
        for trail in trails_of(trails)
        if not recipe.source(trail.source).exempt
        for history in load_histories(recipe.folder, trail)
    ]
    fan_out(KeysOfBandings.__call__, jobs, stage="keys of all bandings", source=None)


def read_banding_result(
    recipe: Recipe, threshold: float, removals: Sequence[Receipt], audit: Receipt
) -> BandingResult:
    """Return the result of a recipe's last round. removals: the receipts of its sources."""
    dedup = recipe.rounds[-1]
    assert isinstance(dedup, MinHashRound)
    (pairs,) = (
        read_table(recipe.folder, artifact) for artifact in load_manifest(recipe.folder, audit).artifacts
    )
    assert pairs.schema.names == AUDIT.names
    return BandingResult(
        threshold=threshold,
        bands=dedup.bands,
        rows=dedup.rows,
        sources=tuple(
            SourceRemovals(source=str(receipt.source), entering=receipt.entering, removed=receipt.removed)
            for receipt in removals
        ),
        pairs=len(pairs),
        others=other_fields(dedup),
        below=pc.sum(pc.less(pairs.column("jaccard"), threshold)).as_py() or 0,
    )


def other_fields(dedup: Dedup) -> str:
    """Return a hash of the settings of a round without its bands and rows."""
    return digest_of(dedup.model_dump(mode="json", exclude={"values", "bands", "rows"}))


def keep_results(folder: Folder, results: Sequence[BandingResult]) -> TriedBandings:
    """Write the results for the report."""
    ordered = TriedBandings(tried=tuple(sorted(results, key=lambda banding: banding.threshold)))
    write_record(folder, BANDINGS, ordered)
    return ordered
