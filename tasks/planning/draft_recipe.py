"""The recipe that `zyda init` writes: what was guessed, why, and options to choose from, as commented lines.

A comment begins with `# `. An option begins with `#` and no space: without it, it is a line of the recipe.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import yaml

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.planning.draft_columns import DAY, Column, Guess
from zyda_flows.tasks.planning.draft_sources import DraftSource, LeftOut
from zyda_flows.tasks.recipe.license_filter import LicenseFilter
from zyda_flows.tasks.sources.column_names import renames
from zyda_flows.tasks.sources.compression import COMPRESSIONS
from zyda_flows.tasks.words import counted

STORAGE = "./corpus"
DEFAULT_TEXT, DEFAULT_URL = "text", "url"
MOST_REASONS = 5
MOST_COLUMNS = 30
LONGEST_COMMENT = 300
EXTRACTS = "makes the text of the markup (docs/raw-web.md)"
INTRODUCTION = """\
Written by `zyda init`: a draft to read and to change. `zyda check` tests it, `zyda build` builds it.
A line that begins with # and no space is an option: remove the # to use it.
All fields are in docs/recipe-fields.md, and their meaning in docs/recipe.md."""


@dataclass(frozen=True)
class Draft:
    """What a recipe is written of. folder: in which it will lie. storage: None for a folder beside it."""

    sources: Sequence[DraftSource]
    left_out: Sequence[LeftOut]
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
        """Return where the corpus is written, outside of every folder that is read with all below it.

        Raises BadRecipe where the given storage is inside of one.
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
        lines += source_lines(source, draft)
    return "\n".join([*lines, *left_out_lines(draft.left_out)]) + "\n"


def scalar(value: Any) -> str:
    """Write a value as YAML reads it back, in one line."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1 << 30)
    return text.removesuffix("\n").removesuffix("\n...")


def line(name: str, value: Any, why: str = "") -> str:
    return f"{name}: {scalar(value)}" + (f"  {comment(why)}" if why else "")


def comment(text: str) -> str:
    """Write a comment of one line, whatever the text has of files' names and values."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return f"# {plain}" if len(plain) <= LONGEST_COMMENT else f"# {plain[:LONGEST_COMMENT]} ..."


def bad_rows(sources: Sequence[DraftSource]) -> Iterator[str]:
    """Set bad rows aside where some were seen, and say which."""
    bad = [f"{source.name}: {reason}" for source in sources for reason in source.bad]
    bad += [
        f"{source.name}: {counted(source.guesses.nulls, 'row')} without a text in {source.guesses.text.name!r}"
        for source in sources
        if source.guesses.nulls
    ]
    for reason in bad[:MOST_REASONS]:
        yield comment(f"no document: {reason}")
    why = "publishes rows that are no documents in set_aside/; without it, the first one ends a build"
    yield ("" if bad else "#") + line("on_bad_rows", "set_aside", why)


def languages(sources: Sequence[DraftSource]) -> Iterator[str]:
    found = [
        text for one in sources if one.guesses.language for text, _ in one.guesses.language.column.frequent
    ]
    yield f"#languages: {scalar([*dict.fromkeys(found)] or ['en'])}  # of the corpus, for its card"


def ranking(sources: Sequence[DraftSource]) -> Iterator[str]:
    if len(sources) > 1:
        yield comment(
            "Best rank first, as they were given: of near-duplicates in several sources, the document"
        )
        yield comment("of the first one is kept. Change the order to change that.")


def steps(sources: Sequence[DraftSource], extractor: str | None) -> list[str]:
    """Write the steps on documents: what makes texts of pages, and rules to choose from."""
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
    """Write a filter by licence where all sources have the same column of names that SPDX's list has."""
    guesses = [source.guesses.license for source in sources]
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


def source_lines(source: DraftSource, draft: Draft) -> Iterator[str]:
    yield f"  - name: {scalar(source.name)}"
    lines = [comment(facts(source)), line("files", patterns_of(source, draft.folder))]
    if source.format:
        lines.append(line("format", source.format, "by the first bytes of its files"))
    lines += column_lines(source)
    if source.extractor != draft.shared_extractor:
        lines += [
            "documents:  # its own, in place of the steps above",
            f"  - {line('extract', source.extractor, EXTRACTS)}",
        ]
    conditions = [*keep_conditions(source)]
    if conditions:
        why = "rows that stay, by SQL, after deduplication (docs/recipe.md)"
        lines.append(f"#{line('keep', ' AND '.join(conditions))}  # {why}")
    lines.append("#exempt: true  # not deduplicated: nothing of it is removed, and nothing for it")
    yield from (f"    {text}" for text in lines)


def patterns_of(source: DraftSource, folder: str) -> str | list[str]:
    is_local = "://" not in source.patterns[0].root
    written = [
        pattern.from_folder(folder) if is_local and not source.is_absolute else pattern.url
        for pattern in source.patterns
    ]
    return written[0] if len(written) == 1 else written


def facts(source: DraftSource) -> str:
    """Say what the files are and how many were read."""
    size = sum(file.size for file in source.files)
    ends = [end for end in COMPRESSIONS if any(file.url.lower().endswith(end) for file in source.files)]
    kinds = " and ".join(COMPRESSIONS[end] for end in ends)
    return (
        f"{counted(len(source.files), 'file')}, {size:,} bytes, format {source.kind.NAME}"
        f"{f', compressed by {kinds}' if kinds else ''}; read: {counted(source.guesses.rows, 'row')} "
        f"of {counted(source.looked, 'file')}"
    )


def column_lines(source: DraftSource) -> Iterator[str]:
    """Write which columns are named, and state those that are carried."""
    guesses = source.guesses
    yield comment(f"text: {guesses.text.reason}")
    if guesses.text.name != DEFAULT_TEXT:
        yield line("text", guesses.text.name)
    if guesses.url:
        yield comment(f"url: {guesses.url.reason}; by it pages are removed on request (docs/removal.md)")
        if guesses.url.name != DEFAULT_URL:
            yield line("url", guesses.url.name)
    named = {"id": guesses.id, "language": guesses.language, "date": guesses.date, "licence": guesses.license}
    for what, guess in named.items():
        if guess:
            yield comment(f"{what}: column {guess.name!r}, {guess.reason}")
    carried = [name for name in guesses.names if name != guesses.text.name]
    if 0 < len(carried) <= MOST_COLUMNS:
        yield f"#columns: {scalar(carried)}  # to carry beside the text; without this line, all"


def keep_conditions(source: DraftSource) -> Iterator[str]:
    """Yield conditions on the columns that were guessed, with values that were seen."""
    guesses = source.guesses
    if guesses.language and (name := name_in_sql(source, guesses.language)):
        value = guesses.language.column.frequent[0][0].replace("'", "''")
        yield f"{name} = '{value}'"
    if guesses.date and (name := name_in_sql(source, guesses.date)):
        yield f"{name} >= {first_day(guesses.date.column)}"


def name_in_sql(source: DraftSource, guess: Guess) -> str:
    """Return the name of a column as `keep` has it; nothing of a field in a column of objects."""
    if guess.column.is_field:
        return ""
    renamed = renames([guess.name], source.guesses.text.name, classified=False)
    name = renamed.get(guess.name, guess.name).replace('"', '""')
    return f'"{name}"'


def first_day(column: Column) -> str:
    """Return a day in the type of a column."""
    if pa.types.is_date(column.type):
        return "date '2020-01-01'"
    if pa.types.is_timestamp(column.type):
        return "timestamptz '2020-01-01 00:00:00+00'" if column.type.tz else "timestamp '2020-01-01 00:00:00'"
    days = sorted(text[:10] for text in column.texts if DAY.match(text))
    return f"'{days[len(days) // 2]}'"


def left_out_lines(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """Say which files of the folders are in no source."""
    if left_out:
        yield ""
        yield comment(f"{counted(len(left_out), 'file')} in no source:")
    for one in left_out[:MOST_REASONS]:
        yield comment(f"{one.url}: {one.reason}")
    if len(left_out) > MOST_REASONS:
        yield comment(f"and {counted(len(left_out) - MOST_REASONS, 'other')}")
