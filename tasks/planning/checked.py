"""Check a recipe and its sources before a build. Out: what a build would read, and the tools it would use."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zyda_flows.tasks.storage.records import Record

if TYPE_CHECKING:
    from zyda_flows.tasks.planning.inspection import CallOnEach
    from zyda_flows.tasks.planning.survey import SourceSurvey
    from zyda_flows.tasks.recipe.fields import Recipe
    from zyda_flows.tasks.sources.input_files import InputFile


class CheckedSource(Record):
    """The files of a source.

    files: the number of its files. new_files: the number of files that no build has read; they were inspected.
    size: bytes of all files. rows: of all files, or None if the number of rows of a file is unknown.
    """

    name: str
    files: int
    new_files: int
    size: int
    rows: int | None


class DamagedFile(Record):
    """A new file that cannot be read, and why; a build would set it aside."""

    url: str
    fault: str


class CheckResult(Record):
    """The result of a check: what a build would read and use.

    url: the folder of the published corpus. tokenizer: its name in the recipe. token_counter: a sentence on the
    library that counts its tokens. models: the names of the models of each source, in order.
    reference_documents: the number of documents of each reference corpus, by its label. damaged: new files that
    cannot be read. shared_file_warnings: sentences on sources that read the same files. is_complete: whether a
    build would change nothing.
    """

    url: str
    sources: tuple[CheckedSource, ...]
    tokenizer: str
    token_counter: str
    models: dict[str, tuple[str, ...]]
    reference_documents: dict[str, int]
    damaged: tuple[DamagedFile, ...]
    shared_file_warnings: tuple[str, ...]
    is_complete: bool


def check(recipe: "Recipe", *, replace: bool, call_on_each: "CallOnEach") -> CheckResult:
    """Check for all faults that can be detected without a build. Raises BadRecipe with all faults.

    Damaged and shared files are no faults: they are listed in the result.

    replace: whether the build may replace the corpus of another recipe. call_on_each: inspects the new files.
    """
    from zyda_flows.tasks.dedup.reference.corpora import corpora_of
    from zyda_flows.tasks.planning.last_build import ledger_if_complete
    from zyda_flows.tasks.planning.prepare import preflight
    from zyda_flows.tasks.tokens.stored import load_tokenizer, token_counter

    survey = preflight(recipe, replace=replace, call_on_each=call_on_each)
    return CheckResult(
        url=f"{recipe.folder.url}/published",
        sources=tuple(checked_sources(recipe, survey)),
        tokenizer=recipe.tokenizer,
        token_counter=token_counter(load_tokenizer(recipe.tokenizer)),
        models={
            source.name: tuple(judge.model for judge in recipe.judges_of(source.name))
            for source in recipe.sources
        },
        reference_documents={
            other.label: max(keys.documents for keys in other.manifest.bands.values())
            for other in corpora_of(recipe).values()
        },
        damaged=tuple(
            DamagedFile(url=new.file.url, fault=str(new.fault))
            for inspected in survey.inspected
            for new in inspected
            if new.fault
        ),
        shared_file_warnings=tuple(shared_file_warnings(recipe, survey)),
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
    """Return the number of rows of files, or None if it is unknown for a file: its format has no footer."""
    rows = [piece.rows for file in files for piece in file.pieces]
    return None if None in rows else sum(row for row in rows if row is not None)


def shared_file_warnings(recipe: "Recipe", survey: "SourceSurvey") -> Iterator[str]:
    """Yield a warning for each pair of sources that read the same files: their documents are near-duplicates.

    A file counts as a file of the first source in the recipe that reads it.
    """
    first_sources = dict[str, str]()  # by the URLs of files
    for source, files in zip(recipe.sources, survey.chosen, strict=True):
        others = [first_sources[file.url] for file in files if file.url in first_sources]
        for other in dict.fromkeys(others):
            yield f"source {source.name} reads {others.count(other):,} of the files that source {other} reads, too"
        first_sources |= {file.url: source.name for file in files if file.url not in first_sources}
