"""Before any work: list the sources, number their files, and find every fault that can be found.

Nothing is written until the whole recipe has been judged; then the register and one list of files
for each source, which is what ingest starts from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from tasks.accounts.published import published_manifest
from tasks.dedup.preference import check_preferred
from tasks.dedup.reference.corpora import corpora_of
from tasks.documents.planning import Plan, planned, published_columns
from tasks.errors import BadInput, BadRecipe, Denied, ZydaError, bad_input
from tasks.ingest.plan import IngestParameters, SourcePlan
from tasks.planning.last_build import recorded_files, whole_register
from tasks.quality.filter import check_keep
from tasks.quality.forms import Model, judged_model
from tasks.recipe.fields import Recipe
from tasks.recipe.source import Source
from tasks.sources.column_names import stored_schema
from tasks.sources.columns import unify
from tasks.sources.listing import InputFile, list_files, sampled_files, save_listing
from tasks.sources.reading import Inspected, inspect
from tasks.sources.register import Register, extend_register, known_files, number_files, number_sources
from tasks.stage.fan_out import fan_out
from tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from tasks.storage.documents import COUNTED
from tasks.tokens.counter import load_tokenizer, store_tokenizer

Found = TypeVar("Found")
Spread = Callable[..., list[Any]]


@dataclass(frozen=True)
class Inspection:
    """A file to inspect, on whichever worker."""

    source: Source
    file: InputFile
    shard_bytes: int
    may_be_bad: bool

    def __call__(self) -> Inspected | ZydaError:
        try:
            return inspect(
                self.source.name, self.file, self.source.text, self.shard_bytes, may_be_bad=self.may_be_bad
            )
        except BadInput as error:
            return error


@dataclass(frozen=True)
class SourceSurvey:
    """A recipe's sources as they were found, in the order of their rank, and the numbers given so far.

    `listed` are all files of each source, `chosen` those of the sample; `models` are by source. `inspected`
    are the chosen files that have no number yet, where somebody has looked into them. `documents` are the steps on
    documents of each source.
    """

    register: Register
    listed: list[list[InputFile]]
    chosen: list[list[InputFile]]
    models: dict[str, Model]
    documents: list[Plan]
    inspected: list[list[Inspected]] = field(default_factory=list)

    def with_inspected(self, inspected: list[list[Inspected]]) -> "SourceSurvey":
        return replace(self, inspected=inspected)


@task(task_run_name="prepare", **ONCE_A_BUILD)
def prepare(recipe: Recipe, *, replace: bool = False) -> list[SourcePlan]:
    """Judge the recipe against its sources and return what ingest needs of each.

    replace: build also where another corpus is published under this name. Raises BadRecipe with every
    fault that was found, each with its source and file.
    """
    folder, judged = recipe.folder, preflight(recipe, replace=replace)
    register = number_sources(judged.register, [source.name for source in recipe.sources])
    for source, inspected in zip(recipe.sources, judged.inspected, strict=True):
        register = number_files(register, source.name, [i.file for i in inspected])
    tokenizer = store_tokenizer(folder, recipe.tokenizer)
    extend_register(folder, judged.register, register)
    return [
        prepared(
            recipe, source, register, files, len(listed), tokenizer, judged.models.get(source.name), documents
        )
        for source, files, listed, documents in zip(
            recipe.sources, judged.chosen, judged.listed, judged.documents, strict=True
        )
    ]


def preflight(recipe: Recipe, *, replace: bool = False, spread: Spread = fan_out) -> SourceSurvey:
    """Find every fault that can be found before work, and write nothing.

    spread: calls a function on every file to look into, as `fan_out` does. Raises BadRecipe with all faults.
    """
    judged = check_sources(recipe, replace=replace)
    inspected = inspect_new(recipe, judged.register, judged.chosen, judged.models, spread)
    return judged.with_inspected(inspected)


def check_sources(recipe: Recipe, *, replace: bool = False) -> SourceSurvey:
    """Find the faults that can be found without reading any document. Raises BadRecipe with all of them."""
    folder = recipe.folder
    register = whole_register(folder)
    listing: list[Callable[[], Any]] = [partial(list_files, source) for source in recipe.sources]
    judging: list[Callable[[], Any]] = [partial(model_of, source) for source in recipe.sources]
    planning: list[Callable[[], Any]] = [partial(planned, recipe, source.name) for source in recipe.sources]
    checks: list[Callable[[], Any]] = [
        partial(load_tokenizer, recipe.tokenizer), folder.check_writable, partial(corpora_of, recipe),
    ]  # fmt: skip
    answers = call_all([*listing, *judging, *planning, *checks])
    n = len(recipe.sources)
    listed, models, documents = answers[:n], answers[n : 2 * n], answers[2 * n : 3 * n]
    chosen = [sampled_files(files, recipe.sample) for files in listed]
    check_reads_no_output(recipe, chosen)
    if not replace:
        check_is_this_corpus(recipe, chosen)
    named = {source.name: model for source, model in zip(recipe.sources, models, strict=True) if model}
    return SourceSurvey(register, listed, chosen, named, documents)


def check_is_this_corpus(recipe: Recipe, chosen: Sequence[Sequence[InputFile]]) -> None:
    """Check that what is published under this name was made of these sources, perhaps of fewer of them.

    A source is another one where none of its files is the same. Raises BadRecipe.
    """
    folder = recipe.folder
    now = {s.name: {file.url for file in files} for s, files in zip(recipe.sources, chosen, strict=True)}
    manifest, before = published_manifest(folder), recorded_files(folder)
    published = {origin.source for origin in manifest.made_of} if manifest else set()
    others = [name for name in sorted(published | before.keys()) if name not in now]
    renewed = [name for name, files in before.items() if name in now and not now[name] & files.keys()]
    faults = [f"its {', '.join(others)} would go"] if others else []
    faults += [
        f"of source {name}, none of the files that it was made of is there any more" for name in renewed
    ]
    if faults:
        what = "a corpus with other sources" if others else "a corpus of other files"
        raise BadRecipe(
            f"{folder.url}: {what} is published there: {'; '.join(faults)}. "
            "Build with --replace if that is meant, or give this recipe a name of its own"
        )


def check_reads_no_output(recipe: Recipe, chosen: Sequence[Sequence[InputFile]]) -> None:
    """Check that no source is what this recipe publishes: each build would change it. Raises BadRecipe."""
    output = f"{recipe.folder.url}/published/"
    for source, files in zip(recipe.sources, chosen, strict=True):
        if any(file.url.startswith(output) for file in files):
            raise BadRecipe(
                f"source {source.name}: it reads what this recipe publishes ({output}), which each build changes; "
                "copy it, or build under another name"
            )


def call_all(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    """Make all the calls, then raise the faults of all that failed at once."""
    answers, faults = list[Found](), list[str]()
    for call in calls:
        try:
            answers.append(call())
        except BadRecipe as error:
            faults += error.faults
        except (BadInput, Denied) as error:
            faults.append(str(error))
    if faults:
        raise BadRecipe(*faults)
    return answers


def inspect_new(
    recipe: Recipe,
    register: Register,
    chosen: Sequence[Sequence[InputFile]],
    models: Mapping[str, Model],
    spread: Spread,
) -> list[list[Inspected]]:
    """Inspect the files that the register does not know, and one of each source in any case."""
    jobs, size = list[Inspection](), shard_bytes(recipe)
    known = {source.name: known_files(register, source.name) for source in recipe.sources}
    for source, files in zip(recipe.sources, chosen, strict=True):
        unnumbered = [file for file in files if (file.url, file.version) not in known[source.name]]
        may_be_bad = recipe.on_bad_rows_of(source) == "set_aside" or recipe.sample < 1
        jobs += [Inspection(source, file, size, may_be_bad) for file in unnumbered or files[:1]]
    outcomes = spread(Inspection.__call__, jobs, stage="prepare", source=None)
    faults = [str(outcome) for outcome in outcomes if isinstance(outcome, ZydaError)]
    if faults:
        raise BadRecipe(*faults)
    pairs_of = [*zip(recipe.sources, chosen, strict=True)]
    checking = partial(check_columns, recipe, jobs, outcomes)
    call_all([partial(checking, source, files, models.get(source.name)) for source, files in pairs_of])
    call_all(
        [partial(check_any_is_readable, source, len(files), jobs, outcomes) for source, files in pairs_of]
    )
    new_files: dict[str, list[Inspected]] = {source.name: [] for source in recipe.sources}
    for job, outcome in zip(jobs, outcomes, strict=True):
        is_new = (job.file.url, job.file.version) not in known[job.source.name]
        if isinstance(outcome, Inspected) and is_new:
            new_files[job.source.name].append(outcome)
    return list(new_files.values())


def check_any_is_readable(
    source: Source, files: int, jobs: Sequence[Inspection], outcomes: Sequence[Inspected | ZydaError]
) -> None:
    """Raise BadInput where all files of a source were inspected, and none of them can be read."""
    own = [outcome for job, outcome in zip(jobs, outcomes, strict=True) if job.source == source]
    faulty = [outcome for outcome in own if isinstance(outcome, Inspected) and outcome.fault]
    if len(faulty) == files:
        first = faulty[0]
        raise bad_input(source.name, f"none of its files can be read: {first.fault}", file=first.file.url)


def check_columns(
    recipe: Recipe,
    jobs: Sequence[Inspection],
    outcomes: Sequence[Inspected | ZydaError],
    source: Source,
    files: Sequence[InputFile],
    model: Model | None,
) -> None:
    """Check what the recipe says of columns on those of the files that were inspected, taken together.

    Where it fails on those that are new, the others are inspected too: they may have the columns.
    """

    def check(outcomes: Sequence[Inspected | ZydaError]) -> None:
        columns = columns_together(recipe, source, outcomes)
        check_preferred(recipe, source, columns)
        check_keep(source, columns, model)

    own = [outcome for job, outcome in zip(jobs, outcomes, strict=True) if job.source == source]
    try:
        check(own)
    except BadInput:
        seen = {job.file.url for job in jobs if job.source == source}
        unseen = [replace(jobs[0], source=source, file=file) for file in files if file.url not in seen]
        if not unseen:
            raise
        others = fan_out(Inspection.__call__, unseen, stage="prepare", source=None)
        check([*own, *others])


def columns_together(recipe: Recipe, source: Source, outcomes: Sequence[Inspected | ZydaError]) -> pa.Schema:
    """Return the columns that the documents of some files will have, as far as those show any."""
    schemas = [
        outcome.table_schema
        for outcome in outcomes
        if isinstance(outcome, Inspected) and outcome.table_schema
    ]
    classified = source.classify is not None
    measured = [name for name, _ in published_columns(recipe.steps_of(source.name))]
    stored = [
        stored_schema(schema, source.text, classified=classified, measured=measured) for schema in schemas
    ]
    return unify(stored or [COUNTED])


def shard_bytes(recipe: Recipe) -> int:
    return int(recipe.shard_mib * 2**20)


def prepared(
    recipe: Recipe,
    source: Source,
    register: Register,
    files: Sequence[InputFile],
    listed: int,
    tokenizer: str,
    model: Model | None,
    documents: Plan,
) -> SourcePlan:
    known = known_files(register, source.name)
    numbered = [known[file.url, file.version].model_copy(update={"name": file.name}) for file in files]
    parameters = IngestParameters(
        text=source.text,
        classified=source.classify is not None,
        set_aside=recipe.on_bad_rows_of(source) == "set_aside",
        shard_bytes=shard_bytes(recipe),
        tokenizer=tokenizer,
        # The fraction as it is written: what the chosen files hold beyond it is left out by rows.
        sample_rows=min(1.0, float(Fraction(str(recipe.sample)) * listed / len(files))),
        documents=documents,
    )
    listing = save_listing(recipe.folder, source.name, numbered)
    return SourcePlan(
        source=source.name,
        number=register.sources[source.name],
        listing=listing,
        parameters=parameters,
        model=model,
    )


def model_of(source: Source) -> Model | None:
    """Judge a source's model, and whether it has the labels that are to stay. Raises BadInput."""
    if source.classify is None:
        return None
    model = judged_model(source.name, source.classify)
    unknown = [label for label in source.classify.keep if label not in model.labels]
    if unknown:
        there = ", ".join(model.labels) or "none: it gives a score, which `keep` can read as int_score"
        raise bad_input(
            source.name, f"classify.keep: {source.classify.model} has no label {unknown[0]}; "
            f"there are {there}",
        )  # fmt: skip
    return model
