"""A trial of the steps on documents of a recipe with some documents of each source; nothing is written.

The result helps to set limits: the documents that each rule removes, the share of them that other rules also
remove, and examples. All statistics are measured for every document, as with `keep_text`.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.bounds import Bound, broken_rules, first_broken
from zyda_flows.tasks.documents.planning import bounds_of, plan_documents, steps_with_classes
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.copies import list_source_files
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.reading import inspect, read
from zyda_flows.tasks.sources.selection import Selection
from zyda_flows.tasks.storage.counts import CleaningCounts, totals

SHARES = 8  # files from which the documents of a source are taken, if it has so many
SHARD_BYTES = 64 << 20


@dataclass(frozen=True)
class SampleDocuments:
    """Some documents of a file, their rows in it, and the columns that steps read."""

    file: InputFile
    rows: NDArray[np.int64]
    texts: pa.LargeStringArray
    source_columns: pa.Table


@dataclass(frozen=True)
class Example:
    """A document that a rule removes. value: of the statistic, or the text of a user's function."""

    source: str
    file: str
    row: int
    value: float | str
    text: str


@dataclass
class RuleCount:
    """The number of documents of each source that a rule removes.

    first: of them, the documents that no rule before it removes. also: the documents that another rule removes,
    too. sentence: the meaning of a rule without limits.
    """

    bound: Bound
    sentence: str = ""
    documents: dict[str, int] = field(default_factory=dict)
    first: int = 0
    also: int = 0
    examples: list[Example] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.documents.values())


@dataclass
class RuleTrial:
    """The result of the steps. remaining: the number of kept documents. rules: of all sources, in order.

    texts: of the kept documents of each source, if the recipe has `passages`.
    """

    documents: dict[str, int] = field(default_factory=dict)
    remaining: int = 0
    bytes: int = 0
    rules: dict[str, RuleCount] = field(default_factory=dict)
    cleaned: dict[str, CleaningCounts] = field(default_factory=dict)
    texts: dict[str, list[pa.LargeStringArray]] = field(default_factory=dict)

    def count(
        self, source: str, some: SampleDocuments, done: Documents, bounds: Sequence[Bound], examples: int
    ) -> None:
        """Add the result of the steps for some documents. examples: the number of examples to store for a rule."""
        is_broken = broken_rules(done.columns, bounds).reshape(len(bounds), len(some.texts))
        first, has_others = first_broken(is_broken), is_broken.sum(axis=0) > 1
        self.bytes += pc.sum(pc.binary_length(some.texts)).as_py() or 0
        self.cleaned = totals([self.cleaned, done.cleaned])
        self.documents[source] = self.documents.get(source, 0) + len(some.texts)
        self.remaining += int((first < 0).sum())
        for i, bound in enumerate(bounds):
            taken, places = self.rules[bound.rule], np.flatnonzero(is_broken[i])
            taken.documents[source] = taken.documents.get(source, 0) + len(places)
            taken.first += int((first == i).sum())
            taken.also += int(has_others[places].sum())
            for place in places[: max(0, examples - len(taken.examples))].tolist():
                text = done.original[place].as_py()  # as it was read, or extracted
                taken.examples.append(rule_example(source, some, place, done.columns[bound.column], text))


def try_steps(recipe: Recipe, documents: int, examples: int = 3) -> RuleTrial:
    """Run the steps of a recipe on some documents of each source. Raises BadRecipe if there is nothing to try."""
    if not (recipe.has_steps or recipe.passages):
        raise BadRecipe(
            "the recipe has no steps on documents and no passages to try; give it some: "
            "documents: [{filter: gopher-quality}]"
        )
    trial, each = RuleTrial(), ceil(documents / len(recipe.sources))
    all_measured = recipe.model_copy(update={"keep_text": True})
    for source in recipe.sources:
        plan = plan_documents(all_measured, source.name)
        steps = [*steps_with_classes(recipe.steps_of(source.name))]
        later = [rule for kind, step in steps for rule in kind.later_rules(step)]
        rules = [rule for kind, step in steps for rule in kind.rules(step)]
        shown = {rule.bound.rule: rule.trial_sentence or rule.sentence for rule in [*rules, *later]}
        bounds = [*bounds_of(recipe, source.name), *(rule.bound for rule in later)]
        for bound in bounds:
            trial.rules.setdefault(bound.rule, RuleCount(bound, shown[bound.rule]))
        for sample in read_sample(recipe, source, each):
            done = run_steps(plan, sample.texts, sample.source_columns)
            done.columns |= {rule.bound.column: rule.column(done.columns) for rule in later if rule.column}
            trial.count(source.name, sample, done, bounds, examples)
            if recipe.passages:
                trial.texts.setdefault(source.name, []).append(done.text.filter(pa.array(done.remaining)))
    return trial


def rule_example(source: str, some: SampleDocuments, place: int, column: pa.Array, text: str) -> Example:
    return Example(source, some.file.url, int(some.rows[place]), column[place].as_py(), text)


def read_sample(
    recipe: Recipe, source: Source, count: int, also: Collection[str] = ()
) -> Iterator[SampleDocuments]:
    """Return some documents of a source, from several of its files and from different places in them.

    also: columns to read, if the source has them, besides the columns of the steps.
    """
    files = list_source_files(source, recipe.inputs)
    files.sort(key=lambda file: hashlib.sha256(file.name.encode()).digest())
    count_in_file, remaining = max(1, ceil(count / min(SHARES, len(files)))), count
    for file in files:
        if remaining <= 0:
            return
        for sample in beginning_of(recipe, source, file, min(remaining, count_in_file), also):
            remaining -= len(sample.texts)
            yield sample


def beginning_of(
    recipe: Recipe, source: Source, file: InputFile, count: int, also: Collection[str] = ()
) -> Iterator[SampleDocuments]:
    """Return the first documents of a piece of a file, chosen by a hash of the file's name."""
    may_be_bad = recipe.on_bad_rows_of(source) == "set_aside"
    pieces = inspect(source.name, file, source.text, SHARD_BYTES, may_be_bad=may_be_bad).file.pieces
    piece = pieces[file.seed % len(pieces)]
    columns = [column for step in recipe.steps_of(source.name) for column in step.columns]
    selection = Selection(only=(*(name.partition(".")[0] for name in columns), *columns, *also))
    for chunk in read(source.name, file, piece, source.text, selection=selection):
        if count <= 0:
            return
        if not len(chunk.rows):  # bad rows alone, or the rest of a damaged file
            continue
        texts = as_one_array(chunk.table.column(source.text))[:count]
        count -= len(texts)
        source_columns = chunk.table.slice(0, len(texts)).drop_columns([source.text])
        yield SampleDocuments(file, chunk.rows[: len(texts)], texts, source_columns)


def effective_rules(trial: RuleTrial) -> Sequence[RuleCount]:
    """Return the rules that remove documents, in their order."""
    return [taken for taken in trial.rules.values() if taken.total]
