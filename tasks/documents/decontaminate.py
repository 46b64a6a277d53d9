"""The stage `decontaminate`: removes documents with items of evaluation sets, from the statistics of ingest.

The stage reads no text. It removes a document that contains at least the recipe's share of the phrases of a
question, frequent phrases not counted.

Rows out: `doc_id`, `reason` (the name of the set), and its evidence: `value` (the share of matching phrases),
`also` (other sets), `note` (the matching words), `item` (the row of the set) and `at` (the position of the words,
in characters). If documents are marked or cut, `contamination` (the sets) for each document with an item.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.documents.contamination import (
    PhraseCounts,
    decontaminate_step,
    decontaminate_steps,
    frequency_limits,
    frequent_phrases,
    is_decontaminated,
)
from zyda_flows.tasks.documents.item_search import MARK_FIELD
from zyda_flows.tasks.documents.phrase_contexts import statistic_of_shard
from zyda_flows.tasks.documents.steps.decontaminate import ITEMS, share_of
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import VERDICTS, Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Manifest, Receipt, load_manifest, stage_key
from zyda_flows.tasks.storage.tables import read_table

VERSION = 1
EVIDENCE = pa.schema(
    [("value", pa.float64()), ("also", pa.list_(pa.string())), ("note", pa.string()), ("item", pa.int64()),
     ("at", pa.int64())]
)  # fmt: skip


@dataclass(frozen=True)
class ItemsOfShard(VerdictJob):
    """Which documents of a shard contain items of evaluation sets. frequent: phrases that do not count."""

    stage, version = "decontaminate", VERSION

    column: str
    sets: tuple[str, ...]
    share: float
    marks: bool
    frequent: tuple[int, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*VERDICTS, *EVIDENCE, *([MARK_FIELD] if self.marks else [])])

    @property
    def added_columns(self) -> tuple[str, ...]:
        return (MARK_FIELD.name,) if self.marks else ()

    @property
    def reasons(self) -> Collection[str]:
        return () if self.marks else self.sets

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        held = statistic_of_shard(self.folder, self.history.shard, self.column)
        ids = read_table(self.folder, self.history.shard, ["doc_id"]).column("doc_id").combine_chunks()
        is_remaining = np.isin(ids.to_numpy(), remaining.column("doc_id").to_numpy())
        has_items = pa.array(is_remaining & held.is_valid().to_numpy(zero_copy_only=False))
        frequent, rows = {*self.frequent}, list[dict[str, Any]]()
        for doc_id, items in zip(
            ids.filter(has_items).to_pylist(), held.filter(has_items).to_pylist(), strict=True
        ):
            if row := self.verdict(items, frequent):
                rows.append({"doc_id": doc_id, **row})
        return pa.Table.from_pylist(rows, self.schema)

    def verdict(self, items: Sequence[dict[str, Any]], frequent: Collection[int]) -> dict[str, Any] | None:
        """Return the verdict and evidence for a document with phrases of items; None if it contains no item."""
        shares = [share_of(item, frequent) for item in items]
        matches = [(share, item) for share, item in zip(shares, items, strict=True) if share >= self.share]
        if not matches:
            return None
        share, item = max(matches, key=itemgetter(0))
        sets = [*dict.fromkeys([item["set"], *(other["set"] for _, other in matches)])]
        evidence = {
            "value": share, "also": sets[1:], "note": item["words"], "item": item["row"], "at": item["at"]
        }  # fmt: skip
        return (
            {"reason": None, **evidence, MARK_FIELD.name: sets}
            if self.marks
            else {"reason": sets[0], **evidence}
        )


def reasons_of(recipe: Recipe) -> dict[str, str]:
    steps = decontaminate_steps(recipe)
    sets = (name for _, settings in steps if settings.action == "remove" for name in settings.sets)
    return {name: f"it contains a question of {name} with its answer" for name in sets}


def decontaminate_key(recipe: Recipe, trail: Trail, counted: Receipt) -> str:
    number, settings = decontaminate_step(recipe, trail.source) or (0, None)
    parameters = settings and [
        settings.action,
        settings.share,
        frequency_limits(settings),
        sorted(settings.sets),
    ]
    return stage_key("decontaminate", VERSION, [number, parameters], counted.identity, *trail.identities)


@stage(
    "decontaminate",
    decontaminate_key,
    inputs=("trail", "contamination"),
    enabled=is_decontaminated,
    reasons=reasons_of,
    evidence=EVIDENCE,
)
def decontaminate(recipe: Recipe, trail: Trail, counted: Receipt) -> Manifest:
    """Remove or mark the documents of a source that contain items of evaluation sets."""
    step = decontaminate_step(recipe, trail.source)
    assert step is not None
    (number, settings), folder = step, recipe.folder
    facts = load_manifest(folder, counted).facts_as(PhraseCounts)
    frequent = frequent_phrases(read_table(folder, facts.counts), facts.documents, settings)
    jobs = [
        ItemsOfShard(
            folder,
            trail.source,
            history,
            column=f"{number}.{ITEMS}",
            sets=tuple(settings.sets),
            share=settings.share,
            marks=settings.action != "remove",
            frequent=() if settings.action == "cut" else tuple(sorted(frequent)),
        )
        for history in load_histories(folder, trail)
    ]
    return run_jobs("decontaminate", trail, jobs)
