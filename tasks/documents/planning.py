"""The plan of the steps of a source, with everything on which their results depend."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.documents.bounds import Bound
from zyda_flows.tasks.documents.steps.registry import BY_KIND, PlannedStep
from zyda_flows.tasks.documents.steps.step import DocumentStep, PublishedColumn, StepOfRecipe
from zyda_flows.tasks.errors import BadRecipe, Unavailable, ZydaError
from zyda_flows.tasks.recipe.faults import place_in_recipe
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.sources.column_names import ADDED_BY_MODEL, RESERVED_NAMES
from zyda_flows.tasks.sources.selection import Selection
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.records import Record

STATISTICS = "document_steps"  # the column of a shard with the statistics of its documents


class DocumentPlan(Record):
    """The steps of a source.

    keeps_text: whether removed documents keep their text and all statistics. published: the columns that are
    published with the documents. language: the column of the statistics with the language of each document, or "".
    """

    steps: tuple[PlannedStep, ...] = ()
    keeps_text: bool = False
    published: tuple[str, ...] = ()
    language: str = ""

    def columns(self) -> pa.Schema:
        """Return the fields of STATISTICS."""
        return pa.schema([field for step in self.steps for field in step.columns()])


StepWithClass = tuple[type[DocumentStep[Any]], StepOfRecipe[Any]]


def steps_with_classes(steps: tuple[Step, ...]) -> Iterator[StepWithClass]:
    """Yield the steps of a recipe, each with the class that runs it."""
    for i, settings in enumerate(steps):
        yield BY_KIND[settings.kind], StepOfRecipe(i + 1, settings, steps[:i])


def plan_documents(recipe: Recipe, source: str) -> DocumentPlan:
    """Return the plan of a source's steps; their files are read. Raises BadRecipe with the recipe's line."""
    recipe_steps, location = recipe.steps_of(source), location_of_steps(recipe, source)
    steps = list[DocumentStep[Any]]()
    for kind, step in steps_with_classes(recipe_steps):
        try:
            check_carried(recipe.source(source), step.settings)
            # If documents keep their text, the stage `rules` applies the filters, from the statistics.
            bounds = () if recipe.keep_text else tuple(kind.bounds_of(step))
            steps.append(kind.plan(step, bounds))
        except Unavailable:  # the store may answer later
            raise
        except (ZydaError, ValueError) as error:
            place = place_in_recipe(recipe, *location, step.number - 1)
            raise BadRecipe(f"{place}: {error}") from error
    try:
        for planned in steps:
            planned.check_compatible(steps)
        check_published(recipe_steps)
    except ValueError as error:
        raise BadRecipe(f"{place_in_recipe(recipe, *location)}: {error}") from error
    later = [name for kind, step in steps_with_classes(recipe_steps) for name in kind.published_later(step)]
    return DocumentPlan(
        steps=tuple(steps),
        keeps_text=recipe.keep_text and bool(steps),
        published=(*later, *(column.name for column in published_columns(recipe_steps))),
        language=count_columns(recipe, source).get("languages", ""),
    )


def location_of_steps(recipe: Recipe, source: str) -> tuple[str | int, ...]:
    """Return the location of a source's steps in the recipe: its own steps, or the steps of all sources."""
    number = next(i for i, candidate in enumerate(recipe.sources) if candidate.name == source)
    has_own = recipe.source(source).documents is not None
    return ("sources", number, "documents") if has_own else ("documents",)


def check_carried(source: Source, step: Step) -> None:
    """Raise ValueError if a source does not carry a column that a step reads or cleans."""
    carried = Selection(only=source.columns, without=source.without)
    for column in step.columns:
        if column == source.text:
            raise ValueError(f"{step.kind}: {column} is the text of source {source.name}; use another column")
        if column not in carried and column.partition(".")[0] not in carried:
            raise ValueError(
                f"{step.kind}: source {source.name} does not carry the column {column}; change its "
                f"`{'without' if source.without else 'columns'}`"
            )


def check_published(steps: tuple[Step, ...]) -> None:
    """Raise ValueError for a column that is published twice, or that has the name of a column of every corpus."""
    names = [column.name for column in published_columns(steps)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is measured twice, but a corpus has one column of a name; remove one")
        if name in {*DOCUMENT_COUNTS.names, *RESERVED_NAMES, *ADDED_BY_MODEL, "text"}:
            raise ValueError(f"{name} is a column of every corpus; rename the function")


def bounds_of(recipe: Recipe, source: str) -> tuple[Bound, ...]:
    """Return the bounds of all rules of a source, in their order."""
    return tuple(
        bound for kind, step in steps_with_classes(recipe.steps_of(source)) for bound in kind.bounds_of(step)
    )


def published_columns(steps: tuple[Step, ...]) -> list[PublishedColumn]:
    """Return the columns that steps publish with the documents."""
    return [column for kind, step in steps_with_classes(steps) for column in kind.published(step)]


def count_columns(recipe: Recipe, source: str) -> dict[str, str]:
    """Return the columns of STATISTICS by whose values documents are counted, by the published table of counts."""
    columns = dict[str, str]()
    for kind, step in steps_with_classes(recipe.steps_of(source)):
        columns |= kind.count_columns(step)
    return columns
