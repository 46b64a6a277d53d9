"""Check the columns that a build adds to the documents of a source: of joins, judges and buckets."""

from collections.abc import Sequence

import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, ZydaError, bad_input
from zyda_flows.tasks.labels.buckets import BUCKET
from zyda_flows.tasks.labels.label_tables import LabelTable, column_of_key
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.inspected_files import Inspection, names_in
from zyda_flows.tasks.planning.survey import SourceSurvey
from zyda_flows.tasks.quality.conditions import bucket_keep
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.column_names import RESERVED_NAMES
from zyda_flows.tasks.sources.named_values import column_of
from zyda_flows.tasks.sources.reading import InspectedFile, has_schema

NUMBERS = (pa.types.is_null, pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal)


def check_joins(source: Source, columns: pa.Schema, labels: Sequence[LabelTable]) -> pa.Schema:
    """Return the columns of a source and of its joins.

    Raises BadInput if the source lacks the column of a key, or if the name of a column is in use.
    """
    used = {name.lower() for name in (*columns.names, *RESERVED_NAMES)}
    for join, table in zip(source.joins, labels, strict=True):
        if column_of(path := column_of_key(source, join), columns.names) is None:
            known = ", ".join(map(repr, columns.names))
            raise bad_input(source.name, f"join.on: the documents have no column {path!r}; there are {known}")
        for field in table.fields:
            if field.name.lower() in used:
                fault = f"join.take: the documents have a column {field.name!r} already; rename it"
                raise bad_input(source.name, f"{fault}: take: {{new_name: {field.name}}}")
        columns = pa.schema([*columns, *table.fields])
    return columns


def check_added_columns(source: Source, columns: pa.Schema, models: Sequence[Model]) -> None:
    """Raise BadInput if a model adds a column that the source has, or that another model adds."""
    known = {name.lower() for name in columns.names}
    for model in models:
        added = [field.name for field in model.added_columns]
        if clashing := [name for name in added if name.lower() in known]:
            raise bad_input(
                source.name,
                f"{model.field}.model: {model.name} adds the column {clashing[0]}, which the source has already; "
                "add it to `without`, or give the judge another name",
            )
        known |= {name.lower() for name in added}


def check_numbers(recipe: Recipe, source: Source, columns: pa.Schema, models: Sequence[Model]) -> None:
    """Raise BadInput if a score is no number, or if the name of the buckets is in use."""
    known = pa.schema([*columns, *(field for model in models for field in model.added_columns)])
    scores = [("agreement", name) for name in recipe.agreement]
    scores += [("bucket.of", name) for name in recipe.bucket.of] if recipe.bucket else []
    for field, name in scores:
        kind = known.field(name).type if name in known.names else pa.null()
        if not any(is_number(kind) for is_number in NUMBERS):
            raise bad_input(source.name, f"{field}: {name!r} is {kind}, expected a number")
    if recipe.bucket is None:
        return
    if recipe.bucket.name.lower() in {name.lower() for name in (*known.names, *RESERVED_NAMES)}:
        fault = f"the documents have a column {recipe.bucket.name!r} already; give the buckets another `name`"
        raise bad_input(source.name, f"bucket.name: {fault}")
    if (condition := bucket_keep(recipe, source.name)) is not None:
        condition.check(pa.schema([*columns, (recipe.bucket.name, BUCKET)]), models)


def check_scores(
    recipe: Recipe,
    survey: SourceSurvey,
    jobs: Sequence[Inspection],
    outcomes: Sequence[InspectedFile | ZydaError],
) -> None:
    """Raise BadInput if no source has a column with scores.

    JSON Lines may have columns that their first lines lack: for them it is a warning.
    """
    known = names_in(outcomes)
    known += [field.name for tables in survey.labels for table in tables or () for field in table.fields]
    missing = [("agreement", name) for name in recipe.agreement if name not in known]
    models = [model for models in survey.models.values() for model in models]
    known += [field.name for model in models for field in model.added_columns]
    missing += (
        [("bucket.of", name) for name in recipe.bucket.of if name not in known] if recipe.bucket else []
    )
    if not missing or survey.faults or any(isinstance(outcome, ZydaError) for outcome in outcomes):
        return
    (field, name), names = missing[0], ", ".join(map(repr, dict.fromkeys(known)))
    fault = f"{field}: no source has a column {name!r}; there are {names}"
    if all(has_schema(job.source.name, job.file) for job in jobs):
        raise BadInput(fault)
    warn(f"{fault}, among the first rows of their files")
