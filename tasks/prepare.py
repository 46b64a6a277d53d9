"""Before any work: list the sources, number their files, and find every fault that can be found.

Nothing is written until the whole recipe has been judged; then the register and one list of files
for each source, which is what ingest starts from.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import ceil
from typing import TypeVar

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE
from tokenizers import Tokenizer

from tasks.artifacts import corpus_folder
from tasks.cluster import fan_out
from tasks.columns import unify
from tasks.errors import BadInput, BadRecipe, ZydaError, bad_input
from tasks.filter import check_keep
from tasks.ingest import Prepared
from tasks.inspection import Inspected, inspect
from tasks.listing import (
    InputFile,
    Register,
    extend_register,
    known_files,
    list_files,
    load_register,
    number_files,
    number_sources,
    save_listing,
)
from tasks.quality import Model, judged_model
from tasks.recipe import Recipe, Source
from tasks.shards import COUNTED, IngestParameters, stored_schema
from tasks.stage import RETRYING
from tasks.token_counts import load_tokenizer, store_tokenizer

Found = TypeVar("Found")


@dataclass(frozen=True)
class Inspection:
    """A file to inspect, on whichever worker."""

    source: Source
    file: InputFile
    shard_bytes: int
    set_aside: bool

    def __call__(self) -> Inspected | ZydaError:
        try:
            return inspect(
                self.source.name, self.file, self.source.text, self.shard_bytes, set_aside=self.set_aside
            )
        except BadInput as error:
            return error


@task(task_run_name="prepare", cache_policy=NO_CACHE, **RETRYING)
def prepare(recipe: Recipe) -> list[Prepared]:
    """Judge the recipe against its sources and return what ingest needs of each.

    Raises BadRecipe with every fault that was found, each with its source and file.
    """
    folder = corpus_folder(recipe)
    before = load_register(folder)
    listed = gathered([lambda s=s: list_files(s) for s in recipe.sources])  # type: ignore[misc]
    chosen = [sampled_files(files, recipe.sample) for files in listed]
    judged: list[Callable[[], Model | Tokenizer | None]] = [lambda: load_tokenizer(recipe.tokenizer)]
    judged += [partial(model_of, source) for source in recipe.sources]
    _, *models = gathered(judged)
    by_source = {
        s.name: model for s, model in zip(recipe.sources, models, strict=True) if isinstance(model, Model)
    }
    inspected = inspect_new(recipe, before, chosen, by_source)
    register = number_sources(before, [source.name for source in recipe.sources])
    for source, found in zip(recipe.sources, inspected, strict=True):
        register = number_files(register, source.name, [i.file for i in found])
    tokenizer = store_tokenizer(folder, recipe.tokenizer)
    extend_register(folder, before, register)
    return [
        prepared(recipe, source, register, files, len(every), tokenizer, by_source.get(source.name))
        for source, files, every in zip(recipe.sources, chosen, listed, strict=True)
    ]


def gathered(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    """Make all the calls, then raise the faults of all that failed at once."""
    found, faults = list[Found](), list[str]()
    for call in calls:
        try:
            found.append(call())
        except (BadInput, BadRecipe) as error:
            faults.append(str(error))
    if faults:
        raise BadRecipe(*faults)
    return found


def inspect_new(
    recipe: Recipe,
    register: Register,
    chosen: Sequence[Sequence[InputFile]],
    models: Mapping[str, Model],
) -> list[list[Inspected]]:
    """Inspect the files that the register does not know, and one of each source in any case."""
    jobs, size = list[Inspection](), shard_bytes(recipe)
    known = {source.name: known_files(register, source.name) for source in recipe.sources}
    for source, files in zip(recipe.sources, chosen, strict=True):
        new = [file for file in files if (file.url, file.version) not in known[source.name]]
        set_aside = recipe.on_bad_rows_of(source) == "set_aside"
        jobs += [Inspection(source, file, size, set_aside) for file in new or files[:1]]
    found = fan_out(Inspection.__call__, jobs, stage="prepare", source=None)
    faults = [str(one) for one in found if isinstance(one, ZydaError)]
    if faults:
        raise BadRecipe(*faults)
    pairs = zip(recipe.sources, chosen, strict=True)
    gathered([partial(check_columns, s, files, models.get(s.name), jobs, found) for s, files in pairs])
    new_files: dict[str, list[Inspected]] = {source.name: [] for source in recipe.sources}
    for job, one in zip(jobs, found, strict=True):
        is_new = (job.file.url, job.file.version) not in known[job.source.name]
        if isinstance(one, Inspected) and is_new:
            new_files[job.source.name].append(one)
    return list(new_files.values())


def check_columns(
    source: Source,
    files: Sequence[InputFile],
    model: Model | None,
    jobs: Sequence[Inspection],
    found: Sequence[Inspected | ZydaError],
) -> None:
    """Check a source's `keep` on the columns of the files that were inspected, taken together.

    Where it fails on those that are new, the others are inspected too: they may have the columns.
    """
    if source.keep is None:
        return
    mine = [one for job, one in zip(jobs, found, strict=True) if job.source == source]
    try:
        check_keep(source, columns_together(source, mine), model)
    except BadInput:
        seen = {job.file.url for job in jobs if job.source == source}
        more = [replace(jobs[0], source=source, file=file) for file in files if file.url not in seen]
        if not more:
            raise
        others = fan_out(Inspection.__call__, more, stage="prepare", source=None)
        check_keep(source, columns_together(source, [*mine, *others]), model)


def columns_together(source: Source, found: Sequence[Inspected | ZydaError]) -> pa.Schema:
    """Return the columns that the documents of some files will have, as far as those show any."""
    schemas = [one.table_schema for one in found if isinstance(one, Inspected) and one.table_schema]
    classified = source.classify is not None
    return unify(
        [stored_schema(schema, source.text, classified=classified) for schema in schemas] or [COUNTED]
    )


def sampled_files(files: Sequence[InputFile], fraction: float) -> list[InputFile]:
    """Choose the files of a sample: as few as can give it, by a hash of their paths below the pattern."""
    count = ceil(Fraction(str(fraction)) * len(files))
    ranked = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())
    return sorted(ranked[:count], key=lambda file: file.url)


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
) -> Prepared:
    known = known_files(register, source.name)
    numbered = [known[file.url, file.version].model_copy(update={"name": file.name}) for file in files]
    parameters = IngestParameters(
        text=source.text,
        classified=source.classify is not None,
        set_aside=recipe.on_bad_rows_of(source) == "set_aside",
        shard_bytes=shard_bytes(recipe),
        tokenizer=tokenizer,
        sample_rows=min(1.0, float(Fraction(str(recipe.sample)) * listed / len(files))),
    )
    listing = save_listing(corpus_folder(recipe), source.name, numbered)
    return Prepared(
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
