"""Prepare a build: list the sources, number their files, and detect faults before work begins."""

import os
from collections.abc import Sequence
from fractions import Fraction

from zyda_flows.tasks.documents.planning import DocumentPlan
from zyda_flows.tasks.ingest.source_plan import IngestParameters, PlannedLabels, SourcePlan
from zyda_flows.tasks.labels.label_tables import LabelTable
from zyda_flows.tasks.planning.inspected_files import selection_of
from zyda_flows.tasks.planning.inspection import CallOnEach, inspect_new, shard_bytes
from zyda_flows.tasks.planning.survey import SourceSurvey, check_sources
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.input_files import InputFile, save_listing
from zyda_flows.tasks.sources.register import (
    Register,
    extend_register,
    known_files,
    number_files,
    number_sources,
)
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.stored import EXACT_SETTING, store_tokenizer


@task(task_run_name="prepare", **ONCE_A_BUILD)
def prepare(recipe: Recipe, *, replace: bool = False) -> list[SourcePlan]:
    """Check the recipe against its sources and return the parameters of ingest for each source.

    replace: build also if another corpus is published under this name. Raises BadRecipe with every detected fault,
    each with its source and file.
    """
    folder, survey = recipe.folder, preflight(recipe, replace=replace)
    register = number_sources(survey.register, [source.name for source in recipe.sources])
    for source, inspected in zip(recipe.sources, survey.inspected, strict=True):
        register = number_files(register, source.name, [i.file for i in inspected])
    tokenizer = store_tokenizer(folder, recipe.tokenizer, recipe.special_tokens)
    extend_register(folder, survey.register, register)
    return [
        source_plan(
            recipe=recipe,
            source=source,
            register=register,
            files=files,
            listed=len(listed),
            tokenizer=tokenizer,
            models=survey.models.get(source.name, ()),
            documents=documents,
            denied=survey.denied,
            labels=planned_labels(folder, source, labels or ()),
        )
        for source, files, listed, documents, labels in zip(
            recipe.sources, survey.chosen, survey.listed, survey.documents, survey.labels, strict=True
        )
    ]


def preflight(recipe: Recipe, *, replace: bool = False, call_on_each: CallOnEach = fan_out) -> SourceSurvey:
    """Detect every fault that can be detected before work, and write nothing.

    call_on_each: calls a function on every file to inspect, as `fan_out` does. Raises BadRecipe with all faults.
    """
    return inspect_new(recipe, check_sources(recipe, replace=replace), call_on_each)


def source_plan(
    recipe: Recipe,
    source: Source,
    register: Register,
    files: Sequence[InputFile],
    listed: int,
    tokenizer: str,
    models: tuple[Model, ...],
    documents: DocumentPlan,
    denied: dict[str, str],
    labels: tuple[PlannedLabels, ...] = (),
) -> SourcePlan:
    known = known_files(register, source.name)
    numbered = [
        known[file.key].model_copy(update={"name": file.name, "location": file.location}) for file in files
    ]
    parameters = IngestParameters(
        is_exact=os.environ.get(EXACT_SETTING, "") == "exact",
        text=source.text,
        classified=source.classify is not None,
        set_aside=recipe.on_bad_rows_of(source) == "set_aside",
        publish_set_aside=recipe.publish_set_aside,
        shard_bytes=shard_bytes(recipe),
        tokenizer=tokenizer,
        special_tokens=recipe.special_tokens,
        selection=selection_of(source),
        sample_rows=rows_of_sample(recipe, listed, len(files)),
        documents=documents,
        # In which folders they are published is nothing to ingest.
        component=source.component and source.component.model_copy(update={"folders": False}),
    )
    listing = save_listing(recipe.folder, source.name, numbered)
    return SourcePlan(
        source=source.name,
        number=register.sources[source.name],
        listing=listing,
        parameters=parameters,
        models=models,
        denied=denied,
        labels=labels,
    )


def planned_labels(folder: Folder, source: Source, labels: Sequence[LabelTable]) -> tuple[PlannedLabels, ...]:
    """Write the lists of the files of labels."""
    return tuple(
        PlannedLabels(
            listing=save_listing(folder, f"{source.name}-labels", table.files),
            is_hashed=table.is_hashed,
        )
        for table in labels
    )


def rows_of_sample(recipe: Recipe, listed: int, chosen: int) -> float:
    """Return the share of the rows of the chosen files that a recipe uses. listed: the number of listed files."""
    # The fraction as written: rows of the chosen files beyond this share are left out.
    return min(1.0, float(Fraction(str(recipe.sample)) * listed / chosen))
