"""The recipe that `zyda init` writes: guesses with their reasons, and options as commented lines.

A comment begins with `# `. An option begins with `#` and no space: without it, it is a line of the recipe.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.planning.draft_groups import LeftOutFile
from zyda_flows.tasks.planning.draft_lines import EXTRACTS, comment, line, scalar, source_lines
from zyda_flows.tasks.planning.draft_sources import DraftSource
from zyda_flows.tasks.recipe.steps.license_filter import LicenseFilter
from zyda_flows.tasks.words import counted

STORAGE = "./corpus"
MOST_REASONS = 5
INTRODUCTION = """\
Written by `zyda init`: a draft to read and to change. `zyda check` tests it, `zyda build` builds it.
A line that begins with # and no space is an option: remove the # to use it.
All fields are in docs/recipe-fields.md, and their meaning in docs/recipe.md."""


@dataclass(frozen=True)
class Draft:
    """The content of a recipe. folder: holds the recipe. storage: None for a folder beside the recipe."""

    sources: Sequence[DraftSource]
    left_out: Sequence[LeftOutFile]
    folder: str
    tokenizer: str
    storage: str | None = None

    @property
    def name(self) -> str:
        return self.sources[0].name if len(self.sources) == 1 else "my-corpus"

    @property
    def shared_extractor(self) -> str | None:
        """The extractor of all sources, if they have the same."""
        extractors = {source.extractor for source in self.sources}
        return extractors.pop() if len(extractors) == 1 else None

    def place(self) -> str:
        """Return the folder of the corpus, outside of every folder that is read with its subfolders.

        Raises BadRecipe if the given storage is inside such a folder.
        """
        for source in self.sources:
            for pattern in source.patterns:
                whole = os.path.abspath(os.path.join(self.folder, self.storage or STORAGE))
                is_read = "**" in pattern.tail and f"{whole}/".startswith(f"{pattern.root}/")
                if is_read and self.storage:
                    fault = f"{pattern.root} with all below it is read, and the corpus would lie in it"
                    raise BadRecipe(f"--storage {self.storage}: {fault}; choose another place")
                if is_read:
                    return os.path.relpath(f"{pattern.root}-corpus", self.folder)
        return self.storage or STORAGE


def recipe_text(draft: Draft) -> str:
    """Write the recipe."""
    lines = [comment(line) for line in INTRODUCTION.splitlines()]
    lines += [
        line("name", draft.name),
        line("storage", draft.place(), f"the corpus is written to <storage>/{draft.name}; any URL of fsspec"),
        line("tokenizer", draft.tokenizer, "counts tokens: a hub name, or the path of a tokenizer.json"),
        *bad_rows(draft.sources),
        *languages(draft.sources),
        "#license: cc-by-4.0  # of the corpus as a whole, for its card (docs/outputs.md)",
        "",
        comment(
            "Of near-duplicates one document is kept, that of the best-ranked source (docs/duplicates.md)."
        ),
        comment("`scope: across` removes them between sources only, and keeps those inside one source."),
        "dedup: {scope: global}",
        "",
        *steps(draft.sources, draft.shared_extractor),
        *ranking(draft.sources),
        "sources:",
    ]
    for source in draft.sources:
        lines += source_lines(source, draft.folder, draft.shared_extractor)
    return "\n".join([*lines, *left_out_lines(draft.left_out)]) + "\n"


def bad_rows(sources: Sequence[DraftSource]) -> Iterator[str]:
    """Set bad rows aside if any were read, and list the reasons."""
    bad = [f"{source.name}: {reason}" for source in sources for reason in source.bad]
    for source in sources:
        if empty_rows := source.guesses.rows_without_text:
            column = source.guesses.text_column.name
            bad.append(f"{source.name}: {counted(empty_rows, 'row')} without a text in {column!r}")
    for reason in bad[:MOST_REASONS]:
        yield comment(f"no document: {reason}")
    why = "lists rows that are no documents, with file, row and reason, in set_aside/; without it, they end a build"
    yield ("" if bad else "#") + line("on_bad_rows", "set_aside", why)


def languages(sources: Sequence[DraftSource]) -> Iterator[str]:
    guessed_languages = [
        text
        for source in sources
        if source.guesses.language_column
        for text, _ in source.guesses.language_column.column.frequent
    ]
    names = [*dict.fromkeys(guessed_languages)] or ["en"]
    yield f"#languages: {scalar(names)}  # of the corpus, for its card"


def ranking(sources: Sequence[DraftSource]) -> Iterator[str]:
    if len(sources) > 1:
        yield comment(
            "Best rank first, as they were given: of near-duplicates in several sources, the document"
        )
        yield comment("of the first one is kept. Change the order to change that.")


def steps(sources: Sequence[DraftSource], extractor: str | None) -> list[str]:
    """Write the steps on documents: the extractor, and rules to choose from."""
    lines = [
        comment(
            "Steps on each document, in this order. `zyda try` shows what each removes (docs/documents.md)."
        ),
        "documents:" if extractor else "#documents:",
    ]
    if extractor:
        lines.append(f"  - {line('extract', extractor, EXTRACTS)}")
    lines += [f"  #- license_filter: {values}" for values in license_filter(sources)]
    lines += [
        "  #- clean: pii  # replaces mail addresses and IP addresses",
        "  #- filter: gopher-quality  # removes what is no prose, by rules for English and its like",
        "  #- filter: gopher-repetition  # removes texts that repeat themselves",
        "  #- decontaminate: {sets: {mmlu: mmlu.parquet}}  # removes questions of evaluation sets, of your files",
    ]
    return [*lines, ""]


def license_filter(sources: Sequence[DraftSource]) -> Iterator[str]:
    """Yield a filter by licence if all sources have the same column with names of the SPDX list."""
    guesses = [source.guesses.license_column for source in sources]
    if any(guess is None or guess.name != (guesses[0] and guesses[0].name) for guess in guesses):
        return
    names = dict.fromkeys(text for guess in guesses if guess for text, _ in guess.column.frequent)
    known = [name for name in names if is_license(name)]
    if known and guesses[0]:
        yield f"{scalar({'column': guesses[0].name, 'keep': known})}  # removes documents with other licences"


def is_license(name: str) -> bool:
    try:
        return bool(LicenseFilter(keep=(name,)))
    except ValueError:
        return False


def left_out_lines(left_out: Sequence[LeftOutFile]) -> Iterator[str]:
    """Yield the files of the folders that are in no source."""
    if left_out:
        yield ""
        yield comment(f"{counted(len(left_out), 'file')} in no source:")
    for file in left_out[:MOST_REASONS]:
        yield comment(f"{file.url}: {file.reason}")
    if len(left_out) > MOST_REASONS:
        yield comment(f"and {counted(len(left_out) - MOST_REASONS, 'other')}")
