"""The steps of a source, carried out on some of its documents while their text is in memory.

Each step sees the texts as the steps before it left them; Zyda-1's statistics look at them as they came, too. What
several steps measure between two cleanings is measured together, for the documents that are left by then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.documents.bounds import all_broken
from tasks.documents.cleanings import cleaned
from tasks.documents.functions import answer_of
from tasks.documents.planning import EMPTIED, Bound, Measure, Plan, PlannedStep
from tasks.storage.artifacts import Cleaned
from tasks.texts.zyda1 import of_characters, of_patterns

Columns = dict[str, pa.Array]


@dataclass
class Documents:
    """Texts on their way through the steps.

    came: as they came. now: as they are. columns: what was measured, null where a document had gone.
    is_changed: which texts are others than they came, (n,) bool. left: which are left, (n,) bool.
    cleaned: what each cleaning changed, by its name.
    """

    came: pa.LargeStringArray
    now: pa.LargeStringArray
    columns: Columns = field(default_factory=dict)
    is_changed: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    left: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    cleaned: dict[str, Cleaned] = field(default_factory=dict)

    def those_left(self) -> "Documents":
        """Return the documents that are left, without a copy where all are."""
        if self.left.all():
            return Documents(self.came, self.now, self.columns, self.is_changed)
        mask = pa.array(self.left)
        came = self.came.filter(mask)
        now = came if self.now is self.came else self.now.filter(mask)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return Documents(came, now, columns, self.is_changed[self.left])

    def statistics(self, plan: Plan) -> pa.StructArray:
        """Return what was measured of each document, a struct of the plan's columns."""
        n, fields = len(self.left), plan.columns()
        columns = [self.columns.get(field.name, pa.nulls(n, field.type)) for field in fields]
        return pa.StructArray.from_arrays(columns, fields=list(fields))

    def stored_texts(self, plan: Plan) -> pa.LargeStringArray:
        """Return the texts as they are kept: of a document that goes nothing, unless all are."""
        if plan.keeps_text or self.left.all():
            return self.now
        return pc.replace_with_mask(self.now, pa.array(~self.left), pa.scalar("", self.now.type))

    def learn(self, columns: Mapping[str, pa.Array]) -> None:
        """Take down what was measured of those that are left."""
        if self.left.all():
            self.columns.update(columns)
            return
        places = np.cumsum(self.left) - 1
        indices = pa.array(np.where(self.left, places, 0), mask=~self.left)
        self.columns.update({name: column.take(indices) for name, column in columns.items()})

    def let_go(self, bounds: Sequence[Bound]) -> None:
        """Let those go that break a rule of which all rules before it have been looked at."""
        known = list[Bound]()
        for bound in bounds:
            if bound.column not in self.columns:
                break
            known.append(bound)
        if known:
            self.left = self.left & ~all_broken(self.columns, known).any(axis=0)


Part = Callable[[Documents], None]  # does a part of the steps to the documents that are left


def carried_out(plan: Plan, texts: pa.LargeStringArray) -> Documents:
    """Do all the steps of a plan."""
    n = len(texts)
    documents = Documents(texts, texts, is_changed=np.zeros(n, np.bool_), left=np.ones(n, np.bool_))
    bounds = [bound for step in plan.steps for bound in step.bounds]
    for is_cleaning, together in groupby(plan.steps, lambda step: step.kind == "clean"):
        steps = list(together)
        parts = [cleaning_of(step) for step in steps] if is_cleaning else parts_of(steps)
        for part in parts:
            if documents.left.any():
                part(documents)
                documents.let_go(bounds)
    return documents


def cleaning_of(step: PlannedStep) -> Part:
    """Return what cleans the texts of documents that are left."""

    def clean(documents: Documents) -> None:
        those = documents.those_left()
        if step.function:
            texts = answer_of(step.function, str(step.code), those.now, those.now.type)
            is_changed = ~pc.equal(texts, those.now).to_numpy(zero_copy_only=False)
        else:
            texts, is_changed = cleaned(those.now, step.cleaning or {})
        before, after = (one.filter(pa.array(is_changed)) for one in (those.now, texts))
        lengths = [pc.utf8_length(one).to_numpy().astype(np.int64) for one in (before, after)]
        counted = Cleaned(
            documents=len(after),
            characters_before=int(lengths[0].sum()),
            characters_after=int(lengths[1].sum()),
        )
        documents.cleaned[step.name] = documents.cleaned.get(step.name, Cleaned()) + counted
        is_emptied = np.zeros(len(texts))
        is_emptied[is_changed] = (lengths[1] == 0) & (lengths[0] > 0)
        documents.learn({f"{step.number}.{EMPTIED}": pa.array(is_emptied)})
        if is_changed.any():
            put_back(documents, texts, is_changed)

    return clean


def put_back(documents: Documents, texts: pa.LargeStringArray, is_changed: NDArray[np.bool_]) -> None:
    """Have those that are left be other texts."""
    documents.is_changed[documents.left] |= is_changed
    if documents.left.all():
        documents.now = texts
    else:
        documents.now = pc.replace_with_mask(documents.now, pa.array(documents.left), texts)


def parts_of(steps: Sequence[PlannedStep]) -> list[Part]:
    """Return what measures the statistics of steps between two cleanings, in their order."""
    of_prose = [measure for step in steps for measure in step.measures if measure.of != "zyda1"]
    parts, has_prose = list[Part](), False
    for step in steps:
        if step.function:
            parts.append(of_function(step))
        for measure in step.measures:
            if measure.of == "zyda1":
                parts += [characters_of(step), patterns_of(step, measure)]
            elif not has_prose:
                parts.append(prose_of(steps, of_prose))
                has_prose = True
    return parts


def prose_of(steps: Sequence[PlannedStep], measures: Sequence[Measure]) -> Part:
    """Return what measures all the sets of steps that look at words and lines, in one pass over the texts."""
    options = sorted({terminal_of(measure) for measure in measures if measure.of == "c4"}) or [True]

    def measure_prose(documents: Documents) -> None:
        from tasks.texts.prose import measured

        texts = documents.those_left().now
        tables = {options[0]: measured(texts, {m.of for m in measures}, c4_terminal=options[0])}
        for option in options[1:]:
            tables[option] = tables[options[0]] | measured(texts, {"c4"}, c4_terminal=option)
        for step in steps:
            for measure in step.measures:
                if measure.of != "zyda1":
                    table = tables.get(terminal_of(measure), tables[options[0]])[measure.of]
                    documents.learn(numbered(step, measure.of, columns_of(table)))

    return measure_prose


def terminal_of(measure: Measure) -> bool:
    return bool(measure.options.get("terminal_punctuation", True))


def columns_of(table: pa.Table) -> dict[str, NDArray[np.float64]]:
    return {name: table.column(name).to_numpy().astype(np.float64) for name in table.column_names}


def numbered(step: PlannedStep, of: str, columns: Mapping[str, NDArray[np.float64]]) -> Columns:
    return {f"{step.number}.{of}.{name}": pa.array(column) for name, column in columns.items()}


def characters_of(step: PlannedStep) -> Part:
    def measure_characters(documents: Documents) -> None:
        those = documents.those_left()
        documents.learn(numbered(step, "zyda1", of_characters(those.came, those.now, those.is_changed)))

    return measure_characters


def patterns_of(step: PlannedStep, measure: Measure) -> Part:
    def measure_patterns(documents: Documents) -> None:
        those = documents.those_left()
        lengths = those.columns[f"{step.number}.zyda1.length"].to_numpy()
        documents.learn(numbered(step, "zyda1", of_patterns(those.came, lengths, measure.terms)))

    return measure_patterns


def of_function(step: PlannedStep) -> Part:
    """Return what asks a function of the user's own about the documents that are left."""
    named = str(step.function)
    kind = pa.string() if step.kind == "filter" else pa.float64()

    def ask(documents: Documents) -> None:
        answer = answer_of(named, str(step.code), documents.those_left().now, kind)
        documents.learn({f"{step.number}.{named}": answer})

    return ask
