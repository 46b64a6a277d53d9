"""One step on documents: its rules and columns by the recipe, and its execution on a batch.

The class methods take a step of a recipe, a StepOfRecipe, and return its rules and columns before any file is read.
`plan` makes an instance, which has everything on which the results depend, is part of keys, and runs on workers.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.batch import Columns, Documents
from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.cleanings import cleaning_counts
from zyda_flows.tasks.extraction.extractors import EXTRACTORS
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.storage.counts import CleaningCounts
from zyda_flows.tasks.storage.records import Record

EMPTIED = "emptied"

Settings = TypeVar("Settings", bound=Step)
Part = Callable[[Documents], None]  # a part of a step, run on the remaining documents


@dataclass(frozen=True)
class StepOfRecipe(Generic[Settings]):
    """A step in the recipe. number: its position, from 1. before: the steps before it."""

    number: int
    settings: Settings
    before: tuple[Step, ...] = ()

    def column(self, name: str) -> str:
        """Return the name of a column of the step in the statistics."""
        return f"{self.number}.{name}"

    def note_rules(self, sentences: Mapping[str, str]) -> "Iterator[Rule]":
        """Yield rules whose columns have their names, and a note for each document to remove."""
        for rule, sentence in sentences.items():
            yield Rule(Bound(rule=rule, column=self.column(rule)), sentence)

    def emptied(self, sentence: str = "it is empty after cleaning") -> "Rule":
        """Return the rule that removes documents whose text became empty in the step."""
        name = self.settings.name
        return Rule(Bound(rule=f"{name}.{EMPTIED}", column=self.column(EMPTIED), high=0), sentence)

    @property
    def is_markdown(self) -> bool:
        """Whether the step processes only the prose of Markdown texts."""
        extractors = (step.extractor for step in self.before if step.extractor)
        return self.settings.is_for_prose and any(EXTRACTORS[name].writes_markdown for name in extractors)


class PublishedColumn(NamedTuple):
    """A column to publish with the documents. statistic: its column of the statistics."""

    name: str
    statistic: str
    type: pa.DataType


class Rule(NamedTuple):
    """A rule by which documents are removed, with a sentence about a removed document.

    trial_sentence: shown by `zyda try` instead of the sentence. column: for a rule that a later stage applies, a
    function from the statistics to the rule's column, for `zyda try`.
    """

    bound: Bound
    sentence: str
    trial_sentence: str = ""
    column: Callable[[Columns], pa.Array] | None = None


class NeededColumn(NamedTuple):
    """A column of the statistics that is null for all documents only by mistake. fault: a text with {count}."""

    column: str
    fault: str


class DocumentStep(Record, Generic[Settings]):
    """The base of all steps.

    settings: the class of the step in a recipe. changes_text: whether the step changes texts; steps before and
    after it do not share passes. number: the position of the step, from 1. name: the name under which its documents
    are counted. bounds: its rules, unless documents keep their text. is_markdown: whether it processes only the
    prose of Markdown texts.
    """

    settings: ClassVar[type[Step]]
    changes_text: ClassVar[bool] = False

    kind: str
    number: int
    name: str
    bounds: tuple[Bound, ...] = ()
    is_markdown: bool = False

    @classmethod
    def plan(cls, step: StepOfRecipe[Settings], bounds: tuple[Bound, ...] = ()) -> Self:
        """Return the planned step. Raises ZydaError, ValueError."""
        return cls(
            kind=step.settings.kind,
            number=step.number,
            name=step.settings.name,
            bounds=bounds,
            is_markdown=step.is_markdown,
            **cls.needs(step),
        )

    @classmethod
    def needs(cls, step: StepOfRecipe[Settings]) -> dict[str, Any]:
        """Return the other fields of the class; it may read files. Raises ZydaError, ValueError."""
        return {}

    @classmethod
    def rules(cls, step: StepOfRecipe[Settings]) -> Iterable[Rule]:
        """Return the rules, in their order, without reading files."""
        return ()

    @classmethod
    def bounds_of(cls, step: StepOfRecipe[Settings]) -> Iterable[Bound]:
        """Return the bounds of the rules; it may read files with limits. Raises ZydaError."""
        return (rule.bound for rule in cls.rules(step))

    @classmethod
    def later_rules(cls, step: StepOfRecipe[Settings]) -> Iterable[Rule]:
        """Return the rules that a later stage applies."""
        return ()

    @classmethod
    def published(cls, step: StepOfRecipe[Settings]) -> Iterable[PublishedColumn]:
        """Return the columns to publish with the documents."""
        return ()

    @classmethod
    def published_later(cls, step: StepOfRecipe[Settings]) -> Collection[str]:
        """Return the columns that a later stage publishes for the step."""
        return ()

    @classmethod
    def count_columns(cls, step: StepOfRecipe[Settings]) -> dict[str, str]:
        """Return the statistics by whose values documents are counted, by the name of the table of counts."""
        return {}

    @classmethod
    def needed_column(cls, step: StepOfRecipe[Settings], removed_by: Collection[str]) -> NeededColumn | None:
        """Return the column that must have a value if no document of a source remains, or None."""
        return None

    @classmethod
    def check_columns(cls, settings: Settings, table: pa.Table) -> None:
        """Raise ValueError if the step cannot read a column. table: the columns of the source, without rows."""

    def column(self, name: str) -> str:
        """Return the name of a column of the step in the statistics."""
        return f"{self.number}.{name}"

    def check_compatible(self, steps: Sequence["DocumentStep[Any]"]) -> None:
        """Raise ValueError if other steps of the source contradict this step."""

    def term_files(self) -> Mapping[str, str]:
        """Return the SHA-256 of term lists by name, for the manifest of the corpus."""
        return {}

    def columns(self) -> Iterable[pa.Field]:
        """Return the fields of the statistics that the step measures."""
        return ()

    def begin(self, documents: Documents) -> None:
        """Read the other columns of all documents, before the first step runs. Raises ValueError."""

    def parts(self, together: Sequence["DocumentStep[Any]"]) -> Iterable[Part]:
        """Return the parts of the step, in order. After each part, documents that break a rule are dropped.

        together: the steps between two steps that change texts, this step included.
        """
        return (self.run,)

    def run(self, documents: Documents) -> None:
        """Run the step on the remaining documents."""

    def change_texts(
        self,
        documents: Documents,
        texts: pa.LargeStringArray,
        is_changed: NDArray[np.bool_] | None = None,
        parts: Mapping[str, CleaningCounts] = MappingProxyType({}),
    ) -> None:
        """Replace the texts of the remaining documents, (r,), and count the changes.

        Sets the column EMPTIED to 1 for texts that became empty.

        is_changed: mask of changed texts, (r,) bool, if known. parts: counts of the parts of the step, by name.
        """
        before = documents.remaining_documents().text
        if is_changed is None:
            is_changed = ~pc.equal(texts, before).to_numpy(zero_copy_only=False)
        counts = {self.name: cleaning_counts(before, texts, is_changed)}
        documents.count_cleaned(counts | {f"{self.name}.{name}": count for name, count in parts.items()})
        had_text, has_text = (pc.binary_length(column).to_numpy() > 0 for column in (before, texts))
        self.set_emptied(documents, had_text & ~has_text)
        documents.set_texts(texts, is_changed)

    def set_emptied(self, documents: Documents, is_emptied: NDArray[np.bool_]) -> None:
        documents.set_columns({self.column(EMPTIED): pa.array(is_emptied.astype(np.float64))})


class ColumnStep(DocumentStep[Settings]):
    """The base of steps that remove documents by a column of their source, and read no text.

    for_all: the columns of `judge` that are stored for documents that an earlier step removed, too.
    """

    for_all: ClassVar[tuple[str, ...]] = ()

    def judge(self, table: pa.Table) -> Columns:
        """Return statistics from the columns of documents, (n,), by name. Raises ValueError."""
        raise NotImplementedError

    def begin(self, documents: Documents) -> None:
        assert documents.source_columns is not None
        columns = {self.column(name): column for name, column in self.judge(documents.source_columns).items()}
        documents.columns |= {name: columns.pop(name) for name in map(self.column, self.for_all)}
        documents.column_results[self.number] = columns

    def run(self, documents: Documents) -> None:
        mask, columns = pa.array(documents.remaining), documents.column_results[self.number]
        documents.set_columns({name: column.filter(mask) for name, column in columns.items()})
