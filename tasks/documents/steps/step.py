"""One step on documents: its rules and columns by the recipe, and its execution on a batch.

The class methods answer for a step of a recipe, a StepOfRecipe, before anything is read: which rules and columns
it has. `plan` makes an instance. It holds all that the outcome depends on, is part of keys, and runs on workers.
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
from zyda_flows.tasks.storage.artifacts import CleaningCounts
from zyda_flows.tasks.storage.records import Record

EMPTIED = "emptied"

Settings = TypeVar("Settings", bound=Step)
Part = Callable[[Documents], None]  # a part of a step, on the documents that remain


@dataclass(frozen=True)
class StepOfRecipe(Generic[Settings]):
    """A step as the recipe has it. number: its place, from 1. before: the steps before it."""

    number: int
    settings: Settings
    before: tuple[Step, ...] = ()

    def column(self, name: str) -> str:
        """Return a column of the step in the statistics."""
        return f"{self.number}.{name}"

    def noted(self, sentences: Mapping[str, str]) -> "Iterator[Rule]":
        """Yield rules whose columns have their names, and hold a note for each document to remove."""
        for rule, sentence in sentences.items():
            yield Rule(Bound(rule=rule, column=self.column(rule)), sentence)

    def emptied(self, sentence: str = "nothing is left of it after cleaning") -> "Rule":
        """Return the rule that removes documents of which a step left nothing."""
        name = self.settings.name
        return Rule(Bound(rule=f"{name}.{EMPTIED}", column=self.column(EMPTIED), high=0), sentence)

    @property
    def is_markdown(self) -> bool:
        """Whether the step is for the prose of texts that are Markdown."""
        extractors = (one.extractor for one in self.before if one.extractor)
        return self.settings.is_for_prose and any(EXTRACTORS[name].writes_markdown for name in extractors)


class PublishedColumn(NamedTuple):
    """A column beside the published documents. statistic: the column of the statistics that it is."""

    name: str
    statistic: str
    type: pa.DataType


class Rule(NamedTuple):
    """A rule by which documents are removed, with a sentence about a document.

    in_trial: what `zyda try` shows in place of the sentence. column: of a rule that a later stage decides, makes
    its column for `zyda try` of the statistics.
    """

    bound: Bound
    sentence: str
    in_trial: str = ""
    column: Callable[[Columns], pa.Array] | None = None


class NeededColumn(NamedTuple):
    """A column of the statistics that is null for all documents only by a mistake. fault: with {count}."""

    column: str
    fault: str


class DocumentStep(Record, Generic[Settings]):
    """The base of all steps.

    settings: the class of the step in a recipe. changes_text: whether it makes other texts; steps before and after
    such a step measure apart. number: the place of the step, from 1. name: the name under which its documents are
    counted. bounds: its rules, unless documents keep their text. is_markdown: whether it is for the prose of texts
    that are Markdown.
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
        """Return the step with all that it needs. Raises ZydaError, ValueError."""
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
        """Return the other fields of the class; files are read here. Raises ZydaError, ValueError."""
        return {}

    @classmethod
    def rules(cls, step: StepOfRecipe[Settings]) -> Iterable[Rule]:
        """Return the rules, in their order. No file is read."""
        return ()

    @classmethod
    def bounds_of(cls, step: StepOfRecipe[Settings]) -> Iterable[Bound]:
        """Return the bounds of the rules; what files say of them is read here. Raises ZydaError."""
        return (rule.bound for rule in cls.rules(step))

    @classmethod
    def later_rules(cls, step: StepOfRecipe[Settings]) -> Iterable[Rule]:
        """Return the rules that a later stage decides."""
        return ()

    @classmethod
    def published(cls, step: StepOfRecipe[Settings]) -> Iterable[PublishedColumn]:
        """Return the columns that are published beside the documents."""
        return ()

    @classmethod
    def published_later(cls, step: StepOfRecipe[Settings]) -> Collection[str]:
        """Return the columns that a later stage publishes for the step."""
        return ()

    @classmethod
    def naming(cls, step: StepOfRecipe[Settings]) -> dict[str, str]:
        """Return the statistics by whose values documents are counted, by the name of the published table."""
        return {}

    @classmethod
    def needed_column(cls, step: StepOfRecipe[Settings], removed_by: Collection[str]) -> NeededColumn | None:
        """Return the column that must have a value, where no document of a source remains."""
        return None

    @classmethod
    def check_columns(cls, settings: Settings, table: pa.Table) -> None:
        """Raise ValueError for a column of the source, of a table without rows, that the step cannot read."""

    def column(self, name: str) -> str:
        """Return a column of the step in the statistics."""
        return f"{self.number}.{name}"

    def check_beside(self, steps: Sequence["DocumentStep[Any]"]) -> None:
        """Raise ValueError where other steps of the source contradict this one."""

    def term_files(self) -> Mapping[str, str]:
        """Return the files of terms that the manifest of a corpus names: their SHA-256, by name."""
        return {}

    def columns(self) -> Iterable[pa.Field]:
        """Return the fields of the statistics that it measures."""
        return ()

    def begin(self, documents: Documents) -> None:
        """Read the other columns of all documents, before the first step runs. Raises ValueError."""

    def parts(self, together: Sequence["DocumentStep[Any]"]) -> Iterable[Part]:
        """Return what is done, one after another. Documents that fail are dropped after each part.

        together: the steps between two that change texts, among them this one.
        """
        return (self.run,)

    def run(self, documents: Documents) -> None:
        """Execute the step on the documents that remain."""

    def change_texts(
        self,
        documents: Documents,
        texts: pa.LargeStringArray,
        is_changed: NDArray[np.bool_] | None = None,
        parts: Mapping[str, CleaningCounts] = MappingProxyType({}),
    ) -> None:
        """Replace the texts of the remaining documents, (r,), and count what changed.

        is_changed: mask of changed texts, (r,), if known. parts: what each part of the step changed. Sets the
        column EMPTIED to 1 where nothing is left of a text.
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
    """The base of steps that judge documents by a column of their source, and read no text.

    for_all: the columns of `look` that documents have which a step before this one removed.
    """

    for_all: ClassVar[tuple[str, ...]] = ()

    def look(self, table: pa.Table) -> Columns:
        """Return what was found in the columns of documents, (n,), by rule. Raises ValueError."""
        raise NotImplementedError

    def begin(self, documents: Documents) -> None:
        assert documents.source is not None
        found = {self.column(name): column for name, column in self.look(documents.source).items()}
        documents.columns |= {name: found.pop(name) for name in map(self.column, self.for_all)}
        documents.waiting[self.number] = found

    def run(self, documents: Documents) -> None:
        mask, found = pa.array(documents.remaining), documents.waiting[self.number]
        documents.set_columns({name: column.filter(mask) for name, column in found.items()})
