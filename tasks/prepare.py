"""Before any work: list the sources, number their files, and find every fault that can be found.

Nothing is written until the whole recipe has been judged; then the register and one list of files
for each source, which is what ingest starts from.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import TypeVar

import pyarrow as pa
from prefect import task
from prefect.cache_policies import NO_CACHE

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
from tasks.quality import load_labels
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
    checks: list[Callable[[], object]] = [lambda: load_tokenizer(recipe.tokenizer)]
    checks += [lambda s=s: check_labels(s) for s in recipe.sources]  # type: ignore[misc]
    gathered(checks)
    inspected = inspect_new(recipe, before, chosen)
    register = number_sources(before, [source.name for source in recipe.sources])
    for source, found in zip(recipe.sources, inspected, strict=True):
        register = number_files(register, source.name, [i.file for i in found])
    tokenizer = store_tokenizer(folder, recipe.tokenizer)
    extend_register(folder, before, register)
    return [
        prepared(recipe, source, register, files, len(every), tokenizer)
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
    recipe: Recipe, register: Register, chosen: Sequence[Sequence[InputFile]]
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
    gathered(
        [
            lambda s=s, f=f: check_columns(s, f, jobs, found)
            for s, f in zip(recipe.sources, chosen, strict=True)
        ]
    )  # type: ignore[misc]
    new_files: dict[str, list[Inspected]] = {source.name: [] for source in recipe.sources}
    for job, one in zip(jobs, found, strict=True):
        is_new = (job.file.url, job.file.version) not in known[job.source.name]
        if isinstance(one, Inspected) and is_new:
            new_files[job.source.name].append(one)
    return list(new_files.values())


def check_columns(
    source: Source,
    files: Sequence[InputFile],
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
        check_keep(source, columns_together(source, mine))
    except BadInput:
        seen = {job.file.url for job in jobs if job.source == source}
        more = [replace(jobs[0], source=source, file=file) for file in files if file.url not in seen]
        if not more:
            raise
        others = fan_out(Inspection.__call__, more, stage="prepare", source=None)
        check_keep(source, columns_together(source, [*mine, *others]))


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
    )


def check_labels(source: Source) -> None:
    """Check that a source's model can be loaded and has the labels that are to stay."""
    if source.classify is None:
        return
    labels = load_labels(source.name, source.classify.model)
    unknown = [label for label in source.classify.keep if label not in labels]
    if unknown:
        there = ", ".join(labels) or "none: it gives a score, which `keep` can read as int_score"
        raise bad_input(
            source.name, f"classify.keep: {source.classify.model} has no label {unknown[0]}; "
            f"there are {there}",
        )  # fmt: skip
