"""Decontaminate: which documents hold items of evaluation sets, from what ingest found; no text is read.

A document goes where of the phrases of a question that are evidence so many are there as the recipe says.

Rows out: `doc_id`, `reason` (the name of the set), and its evidence: `value` (the share of the phrases that was
found), `also` (other sets), `note` (the words), `item` (the row of the set) and `at` (where the words begin, in
characters). Where documents are marked or passages cut, `contamination` (the sets) for each that holds an item.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.documents.contamination import (
    PhraseCounts,
    all_asked,
    asked_of,
    frequent_phrases,
    is_asked,
    limits,
    measured,
)
from zyda_flows.tasks.documents.item_search import MARK
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
    """Which documents of a shard hold items of evaluation sets. frequent: phrases that are no evidence."""

    stage, version = "decontaminate", VERSION

    column: str
    sets: tuple[str, ...]
    share: float
    marks: bool
    frequent: tuple[int, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*VERDICTS, *EVIDENCE, *([MARK] if self.marks else [])])

    @property
    def added_columns(self) -> tuple[str, ...]:
        return (MARK.name,) if self.marks else ()

    @property
    def reasons(self) -> Collection[str]:
        return () if self.marks else self.sets

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        held = measured(self.folder, self.history.shard, self.column)
        ids = read_table(self.folder, self.history.shard, ["doc_id"]).column("doc_id").combine_chunks()
        left = np.isin(ids.to_numpy(), remaining.column("doc_id").to_numpy())
        has_any = pa.array(left & held.is_valid().to_numpy(zero_copy_only=False))
        frequent, rows = {*self.frequent}, list[dict[str, Any]]()
        for doc_id, items in zip(
            ids.filter(has_any).to_pylist(), held.filter(has_any).to_pylist(), strict=True
        ):
            if row := self.verdict(items, frequent):
                rows.append({"doc_id": doc_id, **row})
        return pa.Table.from_pylist(rows, self.schema)

    def verdict(self, items: Sequence[dict[str, Any]], frequent: Collection[int]) -> dict[str, Any] | None:
        """Judge a document by the items of which it has phrases; None where it holds none."""
        shares = [share_of(item, frequent) for item in items]
        holding = [(share, item) for share, item in zip(shares, items, strict=True) if share >= self.share]
        if not holding:
            return None
        share, item = max(holding, key=lambda one: one[0])
        sets = [*dict.fromkeys([item["set"], *(other["set"] for _, other in holding)])]
        evidence = {
            "value": share, "also": sets[1:], "note": item["words"], "item": item["row"], "at": item["at"]
        }  # fmt: skip
        return (
            {"reason": None, **evidence, MARK.name: sets} if self.marks else {"reason": sets[0], **evidence}
        )


def reasons_of(recipe: Recipe) -> dict[str, str]:
    sets = (name for _, asked in all_asked(recipe) if asked.action == "remove" for name in asked.sets)
    return {name: f"it holds a question of {name} with its answer" for name in sets}


def decontaminate_key(recipe: Recipe, trail: Trail, counted: Receipt) -> str:
    number, asked = asked_of(recipe, trail.source) or (0, None)
    said = asked and [asked.action, asked.share, limits(asked), sorted(asked.sets)]
    return stage_key("decontaminate", VERSION, [number, said], counted.identity, *trail.identities)


@stage(
    "decontaminate",
    decontaminate_key,
    inputs=("trail", "contamination"),
    enabled=is_asked,
    reasons=reasons_of,
    evidence=EVIDENCE,
)
def decontaminate(recipe: Recipe, trail: Trail, counted: Receipt) -> Manifest:
    """Let documents of a source go that hold items of evaluation sets, or mark them."""
    asked = asked_of(recipe, trail.source)
    assert asked is not None
    (number, said), folder = asked, recipe.folder
    facts = load_manifest(folder, counted).facts_as(PhraseCounts)
    frequent = frequent_phrases(read_table(folder, facts.counts), facts.documents, said)
    stays = said.action != "remove"
    jobs = [
        ItemsOfShard(
            folder=folder,
            source=trail.source,
            history=history,
            column=f"{number}.{ITEMS}",
            sets=tuple(said.sets),
            share=said.share,
            marks=stays,
            frequent=() if said.action == "cut" else tuple(sorted(frequent)),
        )
        for history in load_histories(folder, trail)
    ]
    return run_jobs("decontaminate", trail, jobs)
