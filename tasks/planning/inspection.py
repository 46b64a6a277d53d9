"""The inspection of files without a number, before work begins, for all faults that can be detected."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.dedup.preference import check_preferred
from zyda_flows.tasks.documents.planning import published_columns
from zyda_flows.tasks.documents.steps.registry import BY_KIND
from zyda_flows.tasks.errors import BadInput, BadRecipe, ZydaError, bad_input
from zyda_flows.tasks.labels.label_tables import LabelTable
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.planning.added_columns import (
    check_added_columns,
    check_joins,
    check_numbers,
    check_scores,
)
from zyda_flows.tasks.planning.inspected_files import (
    Inspection,
    empty_tables,
    inspect_others,
    names_in,
    selection_of,
)
from zyda_flows.tasks.planning.survey import FieldCheck, SourceSurvey, call_each
from zyda_flows.tasks.quality.conditions import check_conditions
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.steps.step import Step
from zyda_flows.tasks.sources.column_names import stored_schema
from zyda_flows.tasks.sources.columns import unify
from zyda_flows.tasks.sources.document_components import COMPONENT, check_paths, components_of
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.named_values import column_of, column_values
from zyda_flows.tasks.sources.reading import InspectedFile, has_schema
from zyda_flows.tasks.sources.register import known_files
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS

MOST_FAULTS = 3  # of the files of a source, each with its line
CallOnEach = Callable[..., list[Any]]  # calls a function on every item, as `fan_out` does


def inspect_new(recipe: Recipe, survey: SourceSurvey, call_on_each: CallOnEach) -> SourceSurvey:
    """Inspect the files that the register does not know, and at least one file of each source.

    Sources without files have a fault already, and are skipped. Raises BadRecipe with all faults.
    """
    jobs, size = list[Inspection](), shard_bytes(recipe)
    known = {source.name: known_files(survey.register, source.name) for source in recipe.sources}
    for source, files in zip(recipe.sources, survey.chosen, strict=True):
        unnumbered = [file for file in files if file.key not in known[source.name]]
        may_be_bad = recipe.on_bad_rows_of(source) == "set_aside" or recipe.sample < 1
        jobs += [Inspection(source, file, size, may_be_bad) for file in unnumbered or files[:1]]
    outcomes = call_on_each(Inspection.__call__, jobs, stage="prepare", source=None)
    checks = list[FieldCheck]()
    for i, (source, files) in enumerate(zip(recipe.sources, survey.chosen, strict=True)):
        place, models = ("sources", i), survey.models.get(source.name)
        steps = recipe.steps_of(source.name)
        if files:
            checks += [
                FieldCheck(partial(check_files, source, len(files), jobs, outcomes), place),
                FieldCheck(partial(check_component, source, files, jobs, outcomes), (*place, "component")),
                FieldCheck(partial(check_columns_of_steps, source, steps, jobs, outcomes), place),
                FieldCheck(partial(check_selection, source, steps, files, jobs, outcomes), place),
            ]
        labels = survey.labels[i]
        # If a model or a join has a fault, the columns that it adds are unknown.
        if files and models is not None and labels is not None:
            columns = partial(check_columns, recipe, jobs, outcomes, source, files, models, labels)
            checks.append(FieldCheck(columns, (*place, "keep")))
    checks.append(FieldCheck(partial(check_rounds, recipe, survey.chosen, jobs, outcomes), ("dedup",)))
    checks.append(FieldCheck(partial(check_scores, recipe, survey, jobs, outcomes), ("bucket",)))
    survey.expect_none(*call_each(recipe, checks)[1])
    new_files: dict[str, list[InspectedFile]] = {source.name: [] for source in recipe.sources}
    for job, outcome in zip(jobs, outcomes, strict=True):
        is_new = job.file.key not in known[job.source.name]
        if isinstance(outcome, InspectedFile) and is_new:
            new_files[job.source.name].append(outcome)
    return survey.with_inspected([*new_files.values()])


def check_files(
    source: Source, files: int, jobs: Sequence[Inspection], outcomes: Sequence[InspectedFile | ZydaError]
) -> None:
    """Raise BadRecipe with the faults of a source's files, or BadInput if none of them can be read."""
    own = [outcome for job, outcome in zip(jobs, outcomes, strict=True) if job.source == source]
    if faults := [str(outcome) for outcome in own if isinstance(outcome, ZydaError)]:
        more = [f"source {source.name}: {len(faults) - MOST_FAULTS:,} more of its files have faults"]
        raise BadRecipe(*faults[:MOST_FAULTS], *(more if len(faults) > MOST_FAULTS else ()))
    faulty = [outcome for outcome in own if isinstance(outcome, InspectedFile) and outcome.fault]
    if len(faulty) == files:
        first = faulty[0]
        raise bad_input(source.name, f"none of its files can be read: {first.fault}", file=first.file.url)


def check_selection(
    source: Source,
    steps: Sequence[Step],
    files: Sequence[InputFile],
    jobs: Sequence[Inspection],
    outcomes: Sequence[InspectedFile | ZydaError],
) -> None:
    """Raise BadInput if a source names columns, to carry or not to carry, that none of its files has.

    JSON Lines may have columns that their first lines lack: for them it is a warning.
    """
    own = [outcome for job, outcome in zip(jobs, outcomes, strict=True) if job.source == source]
    if not missing_of(source, steps, own):
        return
    own += inspect_others(source, files, jobs)
    if missing := missing_of(source, steps, own):
        (field, name), known = missing[0], names_in(own)
        fault = f"{field}: no column {name!r}; there are {', '.join(map(repr, known))}"
        if all(has_schema(source.name, file) for file in files):
            raise bad_input(source.name, fault)
        warn(f"source {source.name}: {fault}, among the first rows of its files")


def check_rounds(
    recipe: Recipe,
    chosen: Sequence[Sequence[InputFile]],
    jobs: Sequence[Inspection],
    outcomes: Sequence[InspectedFile | ZydaError],
) -> None:
    """Raise BadInput if a round compares a column that no source has, or a field of a column without fields.

    JSON Lines may have columns that their first lines lack: for them it is a warning.
    """
    files = {source.name: chosen_files for source, chosen_files in zip(recipe.sources, chosen, strict=True)}
    compared = [source for source in recipe.sources if not source.exempt and files[source.name]]
    own = [
        outcome
        for job, outcome in zip(jobs, outcomes, strict=True)
        if job.source.name in {s.name for s in compared}
    ]
    known = names_in(own)
    for column in {dedup.key_column for dedup in recipe.rounds} - {"text"}:
        for source in compared:
            for job, table in empty_tables(source, jobs, outcomes):
                try:
                    column_values(table, column)
                except ValueError as error:
                    raise bad_input(source.name, f"dedup: {error}", file=job.file.url) from error
        if not known or column_of(column, known) is not None:
            continue
        fault = (
            f"dedup: no source has the column {column!r} of a round; there are {', '.join(map(repr, known))}"
        )
        if all(has_schema(source.name, file) for source in compared for file in files[source.name]):
            raise BadInput(fault)
        warn(f"{fault}, among the first rows of their files")


def check_component(
    source: Source,
    files: Sequence[InputFile],
    jobs: Sequence[Inspection],
    outcomes: Sequence[InspectedFile | ZydaError],
) -> None:
    """Raise BadInput if a pattern matches no URL, or if a column has a type that cannot name components."""
    if source.component is None:
        return
    check_paths(source.name, source.component, files)
    for job, table in empty_tables(source, jobs, outcomes):
        try:
            components_of(source.component, table, job.file)
        except ValueError as error:
            raise bad_input(source.name, f"component: {error}", file=job.file.url) from error


def check_columns_of_steps(
    source: Source,
    steps: Sequence[Step],
    jobs: Sequence[Inspection],
    outcomes: Sequence[InspectedFile | ZydaError],
) -> None:
    """Raise BadInput for a column of a type that a step cannot read."""
    for step in (step for step in steps if step.columns):
        for job, table in empty_tables(source, jobs, outcomes):
            try:
                BY_KIND[step.kind].check_columns(step, table)
            except ValueError as error:
                raise bad_input(source.name, f"{step.kind}: {error}", file=job.file.url) from error


def missing_of(
    source: Source, steps: Sequence[Step], outcomes: Sequence[InspectedFile | ZydaError]
) -> list[tuple[str, str]]:
    """Return the columns that a source names and none of its files has, each with its field in the recipe.

    Return nothing if none of the files could be read.
    """
    known, selected = names_in(outcomes), "columns" if source.columns else "without"
    named = [(selected, name) for name in selection_of(source).names]
    missing = [(field, name) for field, name in named if name not in known]
    columns = [("component.column", source.component.column)] if source.component else []
    columns += [(f"{step.kind}.column", column) for step in steps for column in step.columns]
    missing += [(field, path) for field, path in columns if path and column_of(path, known) is None]
    return missing if known else []


def check_columns(
    recipe: Recipe,
    jobs: Sequence[Inspection],
    outcomes: Sequence[InspectedFile | ZydaError],
    source: Source,
    files: Sequence[InputFile],
    models: tuple[Model, ...],
    labels: Sequence[LabelTable],
) -> None:
    """Check the columns in the recipe against all inspected files together.

    If the check fails for new files, the other files are inspected, too, because they may have the columns.
    """

    def check(outcomes: Sequence[InspectedFile | ZydaError]) -> None:
        columns = columns_together(recipe, source, outcomes)
        check_preferred(recipe, source, columns)
        columns = check_joins(source, columns, labels)
        check_added_columns(source, columns, models)
        check_conditions(source, recipe.judges_of(source.name), columns, models)
        check_numbers(recipe, source, columns, models)

    own = [outcome for job, outcome in zip(jobs, outcomes, strict=True) if job.source == source]
    if any(isinstance(outcome, ZydaError) for outcome in own):
        return  # the columns are unknown
    try:
        check(own)
    except BadInput:
        if not (others := inspect_others(source, files, jobs)):
            raise
        check([*own, *others])


def columns_together(
    recipe: Recipe, source: Source, outcomes: Sequence[InspectedFile | ZydaError]
) -> pa.Schema:
    """Return the known columns of the documents of some files."""
    schemas = [
        outcome.table_schema
        for outcome in outcomes
        if isinstance(outcome, InspectedFile) and outcome.table_schema
    ]
    classified = source.classify is not None
    measured = [column.name for column in published_columns(recipe.steps_of(source.name))]
    added = [COMPONENT] if source.component else []
    stored = [
        stored_schema(schema, source.text, classified=classified, measured=measured, added=added)
        for schema in schemas
    ]
    return unify(stored or [DOCUMENT_COUNTS])


def shard_bytes(recipe: Recipe) -> int:
    return int(recipe.shard_mib * 2**20)
