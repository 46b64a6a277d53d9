"""The SQL conditions of a recipe: `only_if` and `keep` of judges, and `keep` of a source and of buckets.

`tasks.quality.keep` is imported only to evaluate a condition: DuckDB and sqlglot take a third of a second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.column_names import names_of_text
from zyda_flows.tasks.sources.register import file_and_row_of
from zyda_flows.tasks.storage.folder import Folder

MAX_SHOWN = 300  # characters of an expression in a message


@dataclass(frozen=True)
class Condition:
    """A condition for documents of a source. field: in the recipe, for messages, for example `keep`."""

    expression: str
    field: str
    source: Source

    @property
    def shown(self) -> str:
        """The field and the expression, for messages."""
        expression = self.expression
        return (
            f"{self.field}: {expression if len(expression) <= MAX_SHOWN else f'{expression[:MAX_SHOWN]}...'}"
        )

    @property
    def params(self) -> list[str]:
        """The settings on which the answers depend."""
        return [self.expression, self.source.text]

    @property
    def names_of_text(self) -> tuple[str, ...]:
        return names_of_text(self.source.text, classified=self.source.classify is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the documents that the condition reads, sorted."""
        from zyda_flows.tasks.quality.keep import columns_of

        columns = {*columns_of(self.expression)}
        return tuple(sorted(columns | {"text"} if columns & {*self.names_of_text} else columns))

    def check(self, stored: pa.Schema, models: Sequence[Model], later: Sequence[Model] = ()) -> None:
        """Raise BadInput if the condition cannot be evaluated on these columns.

        stored: the columns of the documents. models: of the judges that run before. later: of later judges.
        """
        from zyda_flows.tasks.quality.keep import fault

        names = [name for name in self.names_of_text if name not in stored.names]
        text_fields = [pa.field(name, pa.large_string()) for name in names]
        added = [column for model in models for column in model.added_columns]
        description = fault(self.expression, pa.schema([*stored, *text_fields, *added]))
        if description is None:
            return
        for model in later:
            if any(f'column "{column.name}"' in description for column in model.added_columns):
                description = (
                    f"judge {model.judge}, which adds a column that it reads, runs after this condition"
                )
        raise bad_input(self.source.name, f"{self.shown}: {description}")

    def mask(self, folder: Folder, documents: pa.Table) -> NDArray[np.bool_]:
        """Return the rows for which the condition is true: bool, (n,).

        documents: with `doc_id` and `columns`. Raises BadInput with the file and row on which it fails.
        """
        from zyda_flows.tasks.quality.keep import keep_mask
        from zyda_flows.tasks.quality.keep_parser import BadKeep

        for name in self.names_of_text[1:]:
            if "text" in documents.column_names:
                documents = documents.append_column(name, documents.column("text"))
        try:
            return keep_mask(self.expression, documents)
        except BadKeep as error:
            message, name = f"{self.shown}: {error}", self.source.name
            if error.row is None:
                raise bad_input(name, message) from error
            url, row = file_and_row_of(folder, name, documents.column("doc_id")[error.row].as_py())
            raise bad_input(name, message, file=url, row=row) from error


def only_if(source: Source, judge: Judge) -> Condition | None:
    """Return the condition for the documents that a judge judges."""
    return Condition(judge.only_if, f"{judge.field}.only_if", source) if judge.only_if else None


def judge_keep(source: Source, judge: Judge) -> Condition | None:
    """Return the condition for the documents to keep after a judge."""
    return Condition(judge.keep, f"{judge.field}.keep", source) if judge.keep else None


def source_keep(source: Source) -> Condition | None:
    """Return the condition for the documents of a source to keep."""
    return Condition(source.keep, "keep", source) if source.keep else None


def bucket_keep(recipe: Recipe, source: str) -> Condition | None:
    """Return the condition for the documents of a source to keep by their bucket."""
    keep = recipe.bucket.keep if recipe.bucket else None
    return Condition(keep, "bucket.keep", recipe.source(source)) if keep else None


def condition_of_stage(recipe: Recipe, source: str, stage: str) -> Condition | None:
    """Return the condition by which a stage removes documents of a source, None if it has none."""
    by_stage = {"filter": source_keep(recipe.source(source)), "keep_bucket": bucket_keep(recipe, source)}
    for judge in recipe.judges_of(source):
        by_stage[Judged(recipe, judge.name).name_of("keep")] = judge_keep(recipe.source(source), judge)
    return by_stage.get(stage)


def conditions_of(source: Source, judges: Sequence[Judge]) -> Iterator[tuple[Condition, int]]:
    """Yield the conditions of a source, each with the number of judges that run before it."""
    for number, judge in enumerate(judges):
        if (condition := only_if(source, judge)) is not None:
            yield condition, number
        if (condition := judge_keep(source, judge)) is not None:
            yield condition, number + 1
    if (condition := source_keep(source)) is not None:
        yield condition, len(judges)


def check_conditions(
    source: Source, judges: Sequence[Judge], stored: pa.Schema, models: Sequence[Model]
) -> None:
    """Raise BadInput if a condition of a source cannot be evaluated. models: of its judges, in order."""
    for condition, judged in conditions_of(source, judges):
        condition.check(stored, models[:judged], models[judged:])
