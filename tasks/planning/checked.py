"""The result of a check: the input and the tools of a build."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zyda_flows.tasks.storage.records import Record

if TYPE_CHECKING:
    from zyda_flows.tasks.planning.inspection import Spread
    from zyda_flows.tasks.planning.survey import SourceSurvey
    from zyda_flows.tasks.recipe.fields import Recipe
    from zyda_flows.tasks.sources.input_files import InputFile


class CheckedSource(Record):
    """The files of a source: `files` of `size` bytes, `new_files` of them inspected. rows: None if unknown."""

    name: str
    files: int
    new_files: int
    size: int
    rows: int | None


class DamagedFile(Record):
    """A new file that cannot be read, which a build would set aside."""

    url: str
    fault: str


class Checked(Record):
    """The plan of a build: it reads these sources, counts tokens with this tokenizer, and publishes at `url`.

    models: by source. against: the documents of each other corpus, by its name. shared_files: sentences on sources
    that read the same files. is_complete: whether a build would change nothing.
    """

    url: str
    sources: tuple[CheckedSource, ...]
    tokenizer: str
    counted_by: str
    models: dict[str, str]
    against: dict[str, int]
    damaged: tuple[DamagedFile, ...]
    shared_files: tuple[str, ...]
    is_complete: bool


def check(recipe: "Recipe", *, replace: bool, spread: "Spread") -> Checked:
    """Check for every fault that can be detected before work. Raises BadRecipe with all faults."""
    from zyda_flows.tasks.dedup.reference.corpora import corpora_of
    from zyda_flows.tasks.planning.last_build import ledger_if_complete
    from zyda_flows.tasks.planning.prepare import preflight
    from zyda_flows.tasks.tokens.stored import counted_by, load_tokenizer

    survey = preflight(recipe, replace=replace, spread=spread)
    return Checked(
        url=f"{recipe.folder.url}/published",
        sources=tuple(checked_sources(recipe, survey)),
        tokenizer=recipe.tokenizer,
        counted_by=counted_by(load_tokenizer(recipe.tokenizer)),
        models={source.name: source.classify.model for source in recipe.sources if source.classify},
        against={
            other.label: max(keys.documents for keys in other.manifest.bands.values())
            for other in corpora_of(recipe).values()
        },
        damaged=tuple(
            DamagedFile(url=new.file.url, fault=str(new.fault))
            for inspected in survey.inspected
            for new in inspected
            if new.fault
        ),
        shared_files=tuple(shared_files(recipe, survey)),
        is_complete=ledger_if_complete(recipe) is not None,
    )


def checked_sources(recipe: "Recipe", survey: "SourceSurvey") -> Iterator[CheckedSource]:
    for source, files, inspected in zip(recipe.sources, survey.chosen, survey.inspected, strict=True):
        known = {file.key: file for file in survey.register.files.get(source.name, ())}
        known |= {result.file.key: result.file for result in inspected}
        yield CheckedSource(
            name=source.name,
            files=len(files),
            new_files=len(inspected),
            size=sum(file.size for file in files),
            rows=rows_of([known[file.key] for file in files]),
        )


def rows_of(files: "Sequence[InputFile]") -> int | None:
    """Return the number of rows of files, or None if a file has no footer with its number."""
    rows = [piece.rows for file in files for piece in file.pieces]
    return None if None in rows else sum(row for row in rows if row is not None)


def shared_files(recipe: "Recipe", survey: "SourceSurvey") -> Iterator[str]:
    """Yield a sentence for sources that read the same files; all documents of these files are near-duplicates."""
    seen = dict[str, str]()
    for source, files in zip(recipe.sources, survey.chosen, strict=True):
        twice = [seen[file.url] for file in files if file.url in seen]
        for other in dict.fromkeys(twice):
            yield f"source {source.name} reads {twice.count(other):,} of the files that source {other} reads, too"
        seen |= {file.url: source.name for file in files if file.url not in seen}
