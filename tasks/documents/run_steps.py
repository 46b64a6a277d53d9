"""Run the steps of a source on a batch of its documents while their text is in memory.

Each step reads the texts as the steps before it left them; Zyda-1's statistics read the original texts, too. What
several steps measure between two cleanings is measured together, for the documents that remain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.bounds import broken_rules
from zyda_flows.tasks.documents.cleanings import clean_texts, cleaning_counts
from zyda_flows.tasks.documents.extraction import FAILED, extracted
from zyda_flows.tasks.documents.functions import answer_of
from zyda_flows.tasks.documents.item_search import search_for
from zyda_flows.tasks.documents.languages import PlannedLanguages, judged_languages
from zyda_flows.tasks.documents.licenses import LICENSE, judged_licenses
from zyda_flows.tasks.documents.personal_columns import with_clean_columns
from zyda_flows.tasks.documents.planning import (
    EMPTIED,
    FOUND,
    ITEMS,
    Bound,
    DocumentPlan,
    Measure,
    PlannedStep,
)
from zyda_flows.tasks.documents.url_rules import judged_urls
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.storage.artifacts import CleaningCounts, totals
from zyda_flows.textkernels.texts.zyda1 import of_characters, of_patterns

if TYPE_CHECKING:
    from zyda_flows.textkernels.rules.quality import WordLists

Columns = dict[str, pa.Array]


@dataclass
class Documents:
    """A batch of documents between two steps.

    original: the texts as they were read. text: as the steps so far left them. columns: what was measured, null
    where a document had been removed. is_changed: which texts differ from the original, (n,) bool. remaining: which
    documents remain, (n,) bool. cleaned: what each cleaning changed, by its name. own: the other columns of all
    documents, (n,), cleaned where a step names them.
    """

    original: pa.LargeStringArray
    text: pa.LargeStringArray
    columns: Columns = field(default_factory=dict)
    is_changed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    remaining: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    cleaned: dict[str, CleaningCounts] = field(default_factory=dict)
    own: pa.Table | None = None

    def remaining_documents(self) -> "Documents":
        """Return the documents that remain, without a copy where all do."""
        if self.remaining.all():
            return Documents(self.original, self.text, self.columns, self.is_changed)
        mask = pa.array(self.remaining)
        original = self.original.filter(mask)
        text = original if self.text is self.original else self.text.filter(mask)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return Documents(original, text, columns, self.is_changed[self.remaining])

    def statistics(self, plan: DocumentPlan) -> pa.StructArray:
        """Return what was measured of each document, a struct of the plan's columns."""
        n, fields = len(self.remaining), plan.columns()
        columns = [self.columns.get(field.name, pa.nulls(n, field.type)) for field in fields]
        return pa.StructArray.from_arrays(columns, fields=list(fields))

    def stored_texts(self, plan: DocumentPlan) -> pa.LargeStringArray:
        """Return the texts to store: nothing of a removed document, unless the plan keeps its text."""
        if plan.keeps_text or self.remaining.all():
            return self.text
        return pc.replace_with_mask(self.text, pa.array(~self.remaining), pa.scalar("", self.text.type))

    def set_columns(self, columns: Mapping[str, pa.Array]) -> None:
        """Set columns that were measured of the remaining documents."""
        if self.remaining.all():
            self.columns.update(columns)
            return
        places = np.cumsum(self.remaining) - 1
        indices = pa.array(np.where(self.remaining, places, 0), mask=~self.remaining)
        self.columns.update({name: column.take(indices) for name, column in columns.items()})

    def drop_failing(self, bounds: Sequence[Bound]) -> None:
        """Drop documents that break a rule, where all rules before it have been measured."""
        known = list[Bound]()
        for bound in bounds:
            if bound.column not in self.columns:
                break
            known.append(bound)
        if known:
            self.remaining = self.remaining & ~broken_rules(self.columns, known).any(axis=0)


OF_CODE = {"code"}  # sets for what is no prose
StepFunction = Callable[[Documents], None]  # runs a part of the steps on the documents that remain


def run_steps(plan: DocumentPlan, texts: pa.LargeStringArray, own: pa.Table | None = None) -> Documents:
    """Run all the steps of a plan. own: the other columns of the documents, (n,).

    Raises BadInput for what a user's own function did, and for a column that names no licences.
    """
    n = len(texts)
    documents = Documents(texts, texts, is_changed=np.zeros(n, np.bool_), remaining=np.ones(n, np.bool_))
    bounds = [bound for step in plan.steps for bound in step.bounds]
    own = pa.table([texts], ["text"]) if own is None else own
    documents.columns, noted = noted_of_all(plan, own)
    documents.own, documents.cleaned = with_clean_own(plan, own)
    for is_cleaning, together in groupby(plan.steps, lambda step: step.kind in {"clean", "extract"}):
        steps = list(together)
        parts = [cleaning_of(step) for step in steps] if is_cleaning else step_functions_of(steps, noted)
        for part in parts:
            if is_cleaning or documents.remaining.any():
                part(documents)
                documents.drop_failing(bounds)
    return documents


def cleaning_of(step: PlannedStep) -> StepFunction:
    """Return the function that cleans the remaining texts."""

    def clean(documents: Documents) -> None:
        if documents.remaining.any():
            change_texts(documents, step)
        if step.kind == "extract":
            begin_anew(documents)

    return clean


def change_texts(documents: Documents, step: PlannedStep) -> None:
    """Make others of the remaining texts."""
    texts = documents.remaining_documents().text
    if step.extractor:
        extract(documents, step)
    elif step.function:
        put_in_place(documents, step, answer_of(step.function, str(step.code), texts, texts.type))
    else:
        put_in_place(documents, step, *clean_texts(texts, step.cleaning or {}, step.is_markdown))


def extract(documents: Documents, step: PlannedStep) -> None:
    """Make the remaining texts of what was read."""
    made = extracted(documents.remaining_documents().text, step.extractor.partition(" ")[0])
    put_in_place(documents, step, made.texts, np.ones(len(made.texts), np.bool_), counts=made.counts)
    documents.set_columns({f"{step.number}.{FAILED}": made.reasons})


def begin_anew(documents: Documents) -> None:
    """Have what was extracted stand in the place of what was read; of a page that had gone before, nothing."""
    if not documents.remaining.all():
        has_gone = pa.array(~documents.remaining)
        documents.text = pc.replace_with_mask(documents.text, has_gone, pa.scalar("", documents.text.type))
    documents.original, documents.is_changed = documents.text, np.zeros(len(documents.text), np.bool_)


def put_in_place(
    documents: Documents,
    step: PlannedStep,
    texts: pa.LargeStringArray,
    is_changed: NDArray[np.bool_] | None = None,
    parts: Mapping[str, CleaningCounts] = MappingProxyType({}),
    counts: CleaningCounts | None = None,
) -> None:
    """Put what a step made of them in the place of the remaining texts, (r,), and count what it changed.

    is_changed: which are others, (r,), if that is known. parts: what each part of the step changed. counts:
    what the whole of it did, if that is known.
    """
    before = documents.remaining_documents().text
    if is_changed is None:
        is_changed = ~pc.equal(texts, before).to_numpy(zero_copy_only=False)
    of_parts = {f"{step.name}.{name}": counts for name, counts in parts.items()}
    counted = {step.name: counts or cleaning_counts(before, texts, is_changed), **of_parts}
    documents.cleaned = totals([documents.cleaned, counted])
    lengths = (pc.binary_length(column).to_numpy() for column in (before, texts))
    had_text, has_none = next(lengths) > 0, next(lengths) == 0
    # A page without a byte has no text either; what was empty when it came to a cleaning is the rules' to judge.
    is_emptied = has_none if step.kind == "extract" else had_text & has_none
    documents.set_columns({f"{step.number}.{EMPTIED}": pa.array(is_emptied.astype(np.float64))})
    if not is_changed.any():
        return
    documents.is_changed[documents.remaining] |= is_changed
    if documents.remaining.all():
        documents.text = texts
    else:
        documents.text = pc.replace_with_mask(documents.text, pa.array(documents.remaining), texts)


def step_functions_of(steps: Sequence[PlannedStep], noted: Mapping[int, Columns]) -> list[StepFunction]:
    """Return what measures the statistics of steps between two cleanings, in their order.

    noted: which rules the columns of all documents break, by the number of the step.
    """
    of_prose = [measure for step in steps for measure in step.measures if is_prose(measure)]
    parts, has_prose, has_personal = list[StepFunction](), False, False
    for step in steps:
        if step.function:
            parts.append(of_function(step))
        if step.number in noted:
            parts.append(looked_at(noted[step.number]))
        if step.languages:
            parts.append(language_of(step, step.languages))
        if step.evaluation:
            parts.append(items_held(step))
        for measure in step.measures:
            if measure.of == "zyda1":
                parts += [characters_of(step), patterns_of(step, measure)]
            elif measure.of == "pii":
                if not has_personal:
                    parts.append(personal_of(steps))
                has_personal = True
            elif not has_prose:
                parts.append(prose_of(steps, of_prose))
                has_prose = True
    return parts


def prose_of(steps: Sequence[PlannedStep], measures: Sequence[Measure]) -> StepFunction:
    """Return what measures all the sets of steps that look at words and lines, in one pass over the texts."""
    options = sorted({terminal_of(measure) for measure in measures if measure.of == "c4"}) or [True]
    is_markdown = any(step.is_markdown for step in steps)

    def measure_prose(documents: Documents) -> None:
        from zyda_flows.textkernels.texts.markdown import prose
        from zyda_flows.textkernels.texts.prose import measured

        batch, sets = documents.remaining_documents(), {measure.of for measure in measures}
        texts, listed = prose(batch.text) if is_markdown else batch.text, stop_words_for(batch, measures)
        tables = {options[0]: measured(texts, sets - OF_CODE, options[0], *listed)}
        tables[options[0]] |= measured(batch.text, sets & OF_CODE)
        for option in options[1:]:
            tables[option] = tables[options[0]] | measured(texts, {"c4"}, c4_terminal=option)
        for step in steps:
            for measure in step.measures:
                if is_prose(measure):
                    table = tables.get(terminal_of(measure), tables[options[0]])[measure.of]
                    documents.set_columns(number_columns(step, measure.of, columns_of(table)))

    return measure_prose


def stop_words_for(
    batch: Documents, measures: Sequence[Measure]
) -> "tuple[WordLists, NDArray[np.int64]] | tuple[()]":
    """Return the lists of stop words, and which is for the language of each document: (n,) int64, -1 for none."""
    for measure in measures:
        if measure.languages:
            known = pa.array([*measure.stop_words], pa.string())
            found = pc.index_in(batch.columns[measure.languages], known).fill_null(-1).to_numpy()
            return word_lists(tuple(measure.stop_words.values())), found.astype(np.int64)
    return ()


@lru_cache(maxsize=4)
def word_lists(lists: tuple[tuple[str, ...], ...]) -> "WordLists":
    from zyda_flows.textkernels.rules.quality import WordLists

    return WordLists(lists)


def is_prose(measure: Measure) -> bool:
    return measure.of not in ("zyda1", "pii")


def personal_of(steps: Sequence[PlannedStep]) -> StepFunction:
    """Return what counts the personal data of texts, once for all the steps that ask for it."""
    asking = [step for step in steps if any(measure.of == "pii" for measure in step.measures)]

    def measure_personal(documents: Documents) -> None:
        from zyda_flows.textkernels.texts.personal import counted

        counts = counted(documents.remaining_documents().text)
        columns = {name: numbers.astype(np.float64) for name, numbers in counts.items()}
        for step in asking:
            documents.set_columns(number_columns(step, "pii", columns))

    return measure_personal


def terminal_of(measure: Measure) -> bool:
    return bool(measure.options.get("terminal_punctuation", True))


def columns_of(table: pa.Table) -> dict[str, NDArray[np.float64]]:
    return {name: table.column(name).to_numpy().astype(np.float64) for name in table.column_names}


def number_columns(step: PlannedStep, of: str, columns: Mapping[str, NDArray[np.float64]]) -> Columns:
    return {f"{step.number}.{of}.{name}": pa.array(column) for name, column in columns.items()}


def characters_of(step: PlannedStep) -> StepFunction:
    def measure_characters(documents: Documents) -> None:
        batch = documents.remaining_documents()
        documents.set_columns(
            number_columns(step, "zyda1", of_characters(batch.original, batch.text, batch.is_changed))
        )

    return measure_characters


def patterns_of(step: PlannedStep, measure: Measure) -> StepFunction:
    def measure_patterns(documents: Documents) -> None:
        batch = documents.remaining_documents()
        lengths = batch.columns[f"{step.number}.zyda1.length"].to_numpy()
        documents.set_columns(
            number_columns(step, "zyda1", of_patterns(batch.original, lengths, measure.terms))
        )

    return measure_patterns


def noted_of_all(plan: DocumentPlan, own: pa.Table) -> tuple[Columns, dict[int, Columns]]:
    """Return the licences of all documents, also of those that a step lets go before, and which rules are broken.

    Of licences and addresses, which stand in columns: by the number of the step. Raises BadInput for a column that
    names none.
    """
    licenses, noted = Columns(), dict[int, Columns]()
    for step in plan.steps:
        try:
            if step.licenses:
                found = judged_licenses(step.licenses, own)
                licenses[f"{step.number}.{LICENSE}"] = found.pop(LICENSE)
            elif step.urls:
                found = judged_urls(step.urls, own)
            else:
                continue
        except ValueError as error:
            raise BadInput(f"{step.kind}: {error}") from error
        noted[step.number] = {f"{step.number}.{rule}": broken for rule, broken in found.items()}
    return licenses, noted


def with_clean_own(plan: DocumentPlan, own: pa.Table) -> tuple[pa.Table, dict[str, CleaningCounts]]:
    """Replace personal data in the columns that steps name, also of documents that a step removes.

    Raises BadInput for a column that holds no texts.
    """
    cleaned = dict[str, CleaningCounts]()
    for step in plan.steps:
        try:
            own, counts = with_clean_columns(own, (step.cleaning or {}).get("pii") or {})
        except ValueError as error:
            raise BadInput(f"{step.kind}: {error}") from error
        cleaned = totals([cleaned, {f"{step.name}.{name}": count for name, count in counts.items()}])
    return own, cleaned


def looked_at(noted: Columns) -> StepFunction:
    """Return what says which rules of a step the columns of the remaining documents break."""

    def look(documents: Documents) -> None:
        mask = pa.array(documents.remaining)
        documents.set_columns({name: broken.filter(mask) for name, broken in noted.items()})

    return look


def language_of(step: PlannedStep, languages: PlannedLanguages) -> StepFunction:
    """Return what finds the languages of the remaining texts."""

    def find(documents: Documents) -> None:
        texts = documents.remaining_documents().text
        found = judged_languages(languages, words_of(texts) if step.is_markdown else texts)
        documents.set_columns({f"{step.number}.{name}": column for name, column in found.items()})

    return find


def words_of(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return the prose of texts in Markdown, and where they have none, all."""
    from zyda_flows.textkernels.texts.markdown import prose

    of_prose = prose(texts)
    return pc.if_else(pc.equal(pc.binary_length(of_prose), 0), texts, of_prose)


def items_held(step: PlannedStep) -> StepFunction:
    """Return what looks for items of evaluation sets in the remaining texts."""

    def look(documents: Documents) -> None:
        looking, texts = search_for(step.evaluation, step.answer_within), documents.remaining_documents().text
        found = looking.found(texts)
        documents.set_columns(
            dict(zip((f"{step.number}.{FOUND}", f"{step.number}.{ITEMS}"), found, strict=True))
        )
        if step.cuts:
            is_held = found[1].is_valid()
            shorter = looking.cut(texts.filter(is_held), step.cuts)
            put_in_place(documents, step, pc.replace_with_mask(texts, is_held, shorter))

    return look


def of_function(step: PlannedStep) -> StepFunction:
    """Return what calls a function of the user's own on the remaining documents."""
    named = str(step.function)
    kind = pa.string() if step.kind == "filter" else pa.float64()

    def ask(documents: Documents) -> None:
        answer = answer_of(named, str(step.code), documents.remaining_documents().text, kind)
        documents.set_columns({f"{step.number}.{named}": answer})

    return ask
