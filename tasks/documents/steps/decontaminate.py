"""Run the step `decontaminate`: searches texts for items of evaluation sets. A later stage removes documents."""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.batch import Columns, Documents
from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.evaluation_sets import PlannedSet, plan_set
from zyda_flows.tasks.documents.item_search import (
    HELD,
    LEAST_PHRASES,
    MARK_FIELD,
    SURROUNDED,
    VERSION,
    search_for,
)
from zyda_flows.tasks.documents.steps.step import EMPTIED, DocumentStep, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.steps.decontaminate import DecontaminateStep

FOUND, ITEMS = "found", "items"
HOLDS_ITEM = "decontaminate"  # the rule of `zyda try`

RecipeStep = StepOfRecipe[DecontaminateStep]


class Decontamination(DocumentStep[DecontaminateStep]):
    """Searches for items of evaluation sets.

    search: the version of the search. cuts: the share of phrases for which a passage is cut out, 0 for no cuts.
    """

    settings = DecontaminateStep

    evaluation: tuple[PlannedSet, ...]
    answer_within: int
    search: str
    cuts: float

    @classmethod
    def needs(cls, step: RecipeStep) -> dict[str, Any]:
        """Read the sets. Raises BadInput for a set without items, and for a set without answers."""
        settings = step.settings.decontaminate
        sets = tuple(plan_set(name, files) for name, files in settings.sets.items())
        search_for(sets, settings.answer_within)
        return {
            "evaluation": sets,
            "answer_within": settings.answer_within,
            "search": VERSION,
            "cuts": settings.share if step.settings.cuts else 0,
        }

    @classmethod
    def rules(cls, step: RecipeStep) -> Iterator[Rule]:
        if step.settings.cuts:
            yield step.emptied()

    @classmethod
    def later_rules(cls, step: RecipeStep) -> Iterator[Rule]:
        sentence = "it contains an item of an evaluation set (if its phrases are not frequent in the corpus)"
        share, column = step.settings.decontaminate.share, step.column(ITEMS)
        items = partial(item_summaries, column=column, share=share)
        yield Rule(Bound(rule=HOLDS_ITEM, column=HOLDS_ITEM), sentence, column=items)

    @classmethod
    def published_later(cls, step: RecipeStep) -> Collection[str]:
        return [] if step.settings.decontaminate.action == "remove" else [MARK_FIELD.name]

    def columns(self) -> Iterator[pa.Field]:
        yield pa.field(self.column(FOUND), SURROUNDED)
        yield pa.field(self.column(ITEMS), HELD)
        if self.cuts:
            yield pa.field(self.column(EMPTIED), pa.float64())

    def run(self, documents: Documents) -> None:
        search, texts = search_for(self.evaluation, self.answer_within), documents.remaining_documents().text
        phrases, held = search.run(texts)
        documents.set_columns({self.column(FOUND): phrases, self.column(ITEMS): held})
        if self.cuts:
            is_held = held.is_valid()
            shorter = search.cut(texts.filter(is_held), self.cuts)
            self.change_texts(documents, pc.replace_with_mask(texts, is_held, shorter))


def share_of(item: dict[str, Any], frequent: Collection[int]) -> float:
    """Return the share of an item's rare phrases that a document contains; 0 if it contains too few phrases."""
    found, rare = (sum(phrase not in frequent for phrase in item[name]) for name in ("found", "phrases"))
    return found / rare if found >= min(LEAST_PHRASES, len(item["phrases"])) else 0.0


def item_summaries(columns: Columns, column: str, share: float) -> pa.StringArray:
    """Return a summary of the item in each document, null for none, as if no phrase were frequent."""
    summaries = list[str | None]()
    for items in columns[column].to_pylist():
        item = max(items or (), key=lambda item: share_of(item, ()), default=None)
        if item is None or share_of(item, ()) < share:
            summaries.append(None)
        else:
            summaries.append(f"{item['set']}, item {item['row']}: {item['words']}")
    return pa.array(summaries, pa.string())
