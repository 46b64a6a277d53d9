"""The lines of a source in the recipe that `zyda init` writes, with the reason for each guess."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import yaml

from zyda_flows.tasks.planning.draft_columns import DAY, Column, Guess
from zyda_flows.tasks.planning.draft_sources import DraftSource
from zyda_flows.tasks.sources.column_names import column_renames
from zyda_flows.tasks.sources.decoders import COMPRESSIONS
from zyda_flows.tasks.words import counted

DEFAULT_TEXT, DEFAULT_URL = "text", "url"
MOST_COLUMNS = 30
LONGEST_COMMENT = 300
EXTRACTS = "makes the text of the markup (docs/raw-web.md)"


def scalar(value: Any) -> str:
    """Return a value as YAML in a single line."""
    texts = value if isinstance(value, list) else [value]
    is_odd = any(isinstance(text, str) and not text.isprintable() for text in texts)
    text = yaml.safe_dump(
        value,
        default_flow_style=True,
        default_style='"' if is_odd else None,
        allow_unicode=True,
        width=1 << 30,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def line(name: str, value: Any, why: str = "") -> str:
    return f"{name}: {scalar(value)}" + (f"  {comment(why)}" if why else "")


def comment(text: str) -> str:
    """Return a comment in a single line, without the control characters of its text."""
    plain = "".join(char if char.isprintable() else "?" for char in text)
    return f"# {plain}" if len(plain) <= LONGEST_COMMENT else f"# {plain[:LONGEST_COMMENT]} ..."


def source_lines(source: DraftSource, folder: str, shared_extractor: str | None) -> Iterator[str]:
    """Write a source of a recipe in a folder. shared_extractor: the extractor in the recipe's own steps."""
    yield f"  - name: {scalar(source.name)}"
    lines = [comment(facts(source)), line("files", patterns_of(source, folder))]
    if source.format:
        lines.append(line("format", source.format, "for the names of its files do not show it"))
    lines += column_lines(source)
    if source.extractor != shared_extractor:
        lines += ["documents:  # its own, in place of the steps above"]
        lines += [f"  - {line('extract', source.extractor, EXTRACTS)}"]
    conditions = [*keep_conditions(source)]
    if conditions:
        why = "condition in SQL for the kept rows, applied after deduplication (docs/recipe.md)"
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
    """Describe the files, and count the rows that were read."""
    size = sum(file.size for file in source.files)
    ends = [end for end in COMPRESSIONS if any(file.url.lower().endswith(end) for file in source.files)]
    kinds = " and ".join(COMPRESSIONS[end] for end in ends)
    return (
        f"{counted(len(source.files), 'file')}, {size:,} bytes, format {source.kind.NAME}"
        f"{f', compressed by {kinds}' if kinds else ''}; read: {counted(source.guesses.row_count, 'row')} "
        f"of {counted(source.inspected, 'file')}"
    )


def column_lines(source: DraftSource) -> Iterator[str]:
    """Yield the guessed columns with their reasons, and the columns to carry."""
    guesses = source.guesses
    yield comment(f"text: {guesses.text_column.reason}")
    if guesses.text_column.name != DEFAULT_TEXT:
        yield line("text", guesses.text_column.name)
    if guesses.url_column:
        yield comment(
            f"url: {guesses.url_column.reason}; by it pages are removed on request (docs/removal.md)"
        )
        if guesses.url_column.name != DEFAULT_URL:
            yield line("url", guesses.url_column.name)
    named = {
        "id": guesses.id_column,
        "language": guesses.language_column,
        "date": guesses.date_column,
        "licence": guesses.license_column,
    }
    for role, guess in named.items():
        if guess:
            use = "; published beside the new doc_id" if role == "id" else ""
            yield comment(f"{role}: column {guess.name!r}, {guess.reason}{use}")
    carried = [name for name in guesses.column_names if name != guesses.text_column.name]
    if 0 < len(carried) <= MOST_COLUMNS:
        yield f"#columns: {scalar(carried)}  # to carry beside the text; without this line, all"


def keep_conditions(source: DraftSource) -> Iterator[str]:
    """Yield conditions on the columns that were guessed, with values that were seen."""
    guesses = source.guesses
    if guesses.language_column and (name := name_in_sql(source, guesses.language_column)):
        value = guesses.language_column.column.frequent[0][0].replace("'", "''")
        yield f"{name} = '{value}'"
    if guesses.date_column and (name := name_in_sql(source, guesses.date_column)):
        yield f"{name} >= {first_day(guesses.date_column.column)}"


def name_in_sql(source: DraftSource, guess: Guess) -> str:
    """Return the name of a column in `keep`; "" for a field of a column of objects."""
    if guess.column.is_field:
        return ""
    renamed = column_renames([guess.name], source.guesses.text_column.name, classified=False)
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
