"""The step `decontaminate`, executed: it finds items of evaluation sets, of which a later stage decides."""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.batch import Columns, Documents
from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.evaluation_sets import PlannedSet, planned_set
from zyda_flows.tasks.documents.item_search import HELD, MARK, SURROUNDED, TWO, VERSION, search_for
from zyda_flows.tasks.documents.steps.step import EMPTIED, DocumentStep, Rule, StepOfRecipe
from zyda_flows.tasks.recipe.steps.decontaminate import DecontaminateStep

FOUND, ITEMS = "found", "items"
HOLDS_ITEM = "decontaminate"  # the rule of `zyda try`

Given = StepOfRecipe[DecontaminateStep]


class Decontamination(DocumentStep[DecontaminateStep]):
    """Finds items of evaluation sets.

    search: the version of what finds them. cuts: the share of phrases for which a passage is cut out, 0 for none.
    """

    settings = DecontaminateStep

    evaluation: tuple[PlannedSet, ...]
    answer_within: int
    search: str
    cuts: float

    @classmethod
    def needs(cls, step: Given) -> dict[str, Any]:
        """Read the sets. Raises BadInput where one has no items, or none with an answer."""
        said = step.settings.decontaminate
        sets = tuple(planned_set(name, one) for name, one in said.sets.items())
        search_for(sets, said.answer_within)
        return {
            "evaluation": sets,
            "answer_within": said.answer_within,
            "search": VERSION,
            "cuts": said.share if step.settings.cuts else 0,
        }

    @classmethod
    def rules(cls, step: Given) -> Iterator[Rule]:
        if step.settings.cuts:
            yield step.emptied()

    @classmethod
    def later_rules(cls, step: Given) -> Iterator[Rule]:
        sentence = "an item of an evaluation set; phrases that are frequent in the corpus are not known yet"
        share, column = step.settings.decontaminate.share, step.column(ITEMS)
        items = partial(items_in_short, column=column, share=share)
        yield Rule(Bound(rule=HOLDS_ITEM, column=HOLDS_ITEM), sentence, column=items)

    @classmethod
    def published_later(cls, step: Given) -> Collection[str]:
        return [] if step.settings.decontaminate.action == "remove" else [MARK.name]

    def columns(self) -> Iterator[pa.Field]:
        yield pa.field(self.column(FOUND), SURROUNDED)
        yield pa.field(self.column(ITEMS), HELD)
        if self.cuts:
            yield pa.field(self.column(EMPTIED), pa.float64())

    def run(self, documents: Documents) -> None:
        looking, texts = search_for(self.evaluation, self.answer_within), documents.remaining_documents().text
        surrounded, held = looking.found(texts)
        documents.set_columns({self.column(FOUND): surrounded, self.column(ITEMS): held})
        if self.cuts:
            is_held = held.is_valid()
            shorter = looking.cut(texts.filter(is_held), self.cuts)
            self.change_texts(documents, pc.replace_with_mask(texts, is_held, shorter))


def share_of(item: dict[str, Any], frequent: Collection[int]) -> float:
    """Return which part of an item's phrases that are evidence was found; 0 where there are too few to say."""
    found, evidence = (sum(phrase not in frequent for phrase in item[name]) for name in ("found", "phrases"))
    return found / evidence if found >= min(TWO, len(item["phrases"])) else 0.0


def items_in_short(columns: Columns, column: str, share: float) -> pa.StringArray:
    """Return the item that each document holds, null where none, as if every phrase were evidence."""
    shown = list[str | None]()
    for items in columns[column].to_pylist():
        item = max(items or (), key=lambda item: share_of(item, ()), default=None)
        if item is None or share_of(item, ()) < share:
            shown.append(None)
        else:
            shown.append(f"{item['set']}, item {item['row']}: {item['words']}")
    return pa.array(shown, pa.string())
