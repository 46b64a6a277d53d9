"""List the original files of the sources and of the labels that they join, of which `fetching` makes copies."""

from collections.abc import Sequence
from functools import partial

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.labels.label_tables import corpus_of_labels, source_of_labels
from zyda_flows.tasks.planning.survey import FieldCheck, call_each
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.copies import FetchedFile
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.listing import list_by_pattern
from zyda_flows.tasks.storage.folder import Folder


def listed_files(recipe: Recipe) -> list[FetchedFile]:
    """Return the original files of all sources and labels, by pattern. Raises BadRecipe with all faults."""

    def files_of(source: Source) -> list[FetchedFile]:
        return [
            fetched_file(source, pattern, file)
            for pattern, files in list_by_pattern(source).items()
            for file in files
        ]

    checks = [
        FieldCheck(partial(files_of, source), ("sources", i, "files"))
        for i, source in enumerate(recipe.sources)
    ]
    checks += [
        FieldCheck(partial(files_of, labels), ("sources", i, "join"))
        for i, source in enumerate(recipe.sources)
        for labels in sources_of_labels(source)
    ]
    answers, faults = call_each(recipe, checks)
    if faults:
        raise BadRecipe(*faults)
    return [file for files in answers for file in files]


def sources_of_labels(source: Source) -> list[Source]:
    """Return the labels that a source joins as sources, without those of published corpora."""
    return [source_of_labels(source, join) for join in source.joins if corpus_of_labels(join) is None]


def expect_no_copies(folder: Folder, files: Sequence[FetchedFile]) -> None:
    """Raise BadRecipe if a source reads the folder of copies, because each fetch would copy the copies."""
    for file in files:
        if file.url.startswith(f"{folder.url}/"):
            raise BadRecipe(
                f"source {file.source}: its {file.pattern} reads {folder.url}, the folder of copies; choose "
                "another one by --to"
            )


def fetched_file(source: Source, pattern: str, file: InputFile) -> FetchedFile:
    """Return a listed file that has no copy."""
    return FetchedFile(
        source=source.name,
        pattern=pattern,
        revision=source.revision or "",
        url=file.url,
        name=file.name,
        version=file.version,
        size=file.size,
        commit=file.location.commit if file.location else "",
        sha256=file.location.sha256 if file.location else "",
    )
