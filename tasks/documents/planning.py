"""What is to be done to the documents of a source, with all that its outcome depends on."""

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

STATISTICS = "document_steps"  # the column of a shard with what was measured of its documents


class DocumentPlan(Record):
    """The steps of a source.

    keeps_text: whether removed documents keep their text, and all is measured. published: the columns that are put
    beside the documents. language: the column of the statistics with the language of each document, or "".
    """

    steps: tuple[PlannedStep, ...] = ()
    keeps_text: bool = False
    published: tuple[str, ...] = ()
    language: str = ""

    def columns(self) -> pa.Schema:
        """Return what is measured: the fields of STATISTICS."""
        return pa.schema([field for step in self.steps for field in step.columns()])


Asked = tuple[type[DocumentStep[Any]], StepOfRecipe[Any]]


def asked_steps(steps: tuple[Step, ...]) -> Iterator[Asked]:
    """Yield the steps of a recipe, each with the class that executes it."""
    for i, settings in enumerate(steps):
        yield BY_KIND[settings.kind], StepOfRecipe(i + 1, settings, steps[:i])


def plan_documents(recipe: Recipe, source: str) -> DocumentPlan:
    """Read what the steps of a source need. Raises BadRecipe with the line of the recipe."""
    recipe_steps, location = recipe.steps_of(source), location_of_steps(recipe, source)
    steps = list[DocumentStep[Any]]()
    for kind, step in asked_steps(recipe_steps):
        try:
            check_carried(recipe.source(source), step.settings)
            # Of documents that keep their text, the filters decide later, from the statistics alone.
            bounds = () if recipe.keep_text else tuple(kind.bounds_of(step))
            steps.append(kind.plan(step, bounds))
        except Unavailable:  # a store that may answer later
            raise
        except (ZydaError, ValueError) as error:
            place = place_in_recipe(recipe, *location, step.number - 1)
            raise BadRecipe(f"{place}: {error}") from error
    try:
        for planned in steps:
            planned.check_beside(steps)
        check_published(recipe_steps)
    except ValueError as error:
        raise BadRecipe(f"{place_in_recipe(recipe, *location)}: {error}") from error
    later = [name for kind, step in asked_steps(recipe_steps) for name in kind.published_later(step)]
    return DocumentPlan(
        steps=tuple(steps),
        keeps_text=recipe.keep_text and bool(steps),
        published=(*later, *(column.name for column in published_columns(recipe_steps))),
        language=naming_columns(recipe, source).get("languages", ""),
    )


def location_of_steps(recipe: Recipe, source: str) -> tuple[str | int, ...]:
    """Return where the steps of a source stand in the recipe: its own, or those of all sources."""
    place = next(i for i, one in enumerate(recipe.sources) if one.name == source)
    has_own = recipe.source(source).documents is not None
    return ("sources", place, "documents") if has_own else ("documents",)


def check_carried(source: Source, step: Step) -> None:
    """Raise ValueError where a source does not carry a column that a step reads or cleans beside the text."""
    carried = Selection(only=source.columns, without=source.without)
    for column in step.columns:
        if column == source.text:
            raise ValueError(f"{step.kind}: {column} is the text of source {source.name}")
        if column not in carried and column.partition(".")[0] not in carried:
            raise ValueError(
                f"{step.kind}: source {source.name} does not carry its column {column}; see its "
                f"`{'without' if source.without else 'columns'}`"
            )


def check_published(steps: tuple[Step, ...]) -> None:
    """Raise ValueError for a column that is published twice, or has the name of one that every corpus has."""
    names = [column.name for column in published_columns(steps)]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} is measured twice, and has one column; leave one out")
        if name in {*DOCUMENT_COUNTS.names, *RESERVED_NAMES, *ADDED_BY_MODEL, "text"}:
            raise ValueError(f"{name} is a column of every corpus; give the function another name")


def bounds_of(recipe: Recipe, source: str) -> tuple[Bound, ...]:
    """Return the rules of a source in their order."""
    return tuple(
        bound for kind, step in asked_steps(recipe.steps_of(source)) for bound in kind.bounds_of(step)
    )


def published_columns(steps: tuple[Step, ...]) -> list[PublishedColumn]:
    """Return the columns that steps put beside the documents."""
    return [column for kind, step in asked_steps(steps) for column in kind.published(step)]


def naming_columns(recipe: Recipe, source: str) -> dict[str, str]:
    """Return the columns of STATISTICS by whose values documents are counted, by the published table."""
    columns = dict[str, str]()
    for kind, step in asked_steps(recipe.steps_of(source)):
        columns |= kind.naming(step)
    return columns
