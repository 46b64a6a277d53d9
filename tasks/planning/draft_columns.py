"""The columns of some rows for a recipe: the text, the address, the language; each with the reason."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.sources.columns import as_one_array, is_json
from zyda_flows.tasks.sources.formats.warc import BEGINS_HTML

KNOWN_TEXTS = ("text", "content", "body", "raw_content", "page_content", "document", "article", "markdown")
KNOWN_URLS = ("url", "uri", "link", "source_url", "page_url")
KNOWN_IDS = re.compile(r"(?:.*[_-])?(?:id|uuid|guid|sha1|sha256)|docid", re.IGNORECASE)
KNOWN_LANGUAGES = re.compile(r"(?:.*[_-])?(?:lang|language|locale)(?:[_-]?code)?", re.IGNORECASE)
KNOWN_DATES = re.compile(
    r"(?:.*[_-])?(?:date|time|timestamp|created|published|crawled)(?:[_-].*)?", re.IGNORECASE
)
KNOWN_LICENSES = re.compile(r"(?:.*[_-])?(?:licen[cs]e|rights)(?:[_-].*)?", re.IGNORECASE)
ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
DAY = re.compile(r"\d{4}-\d\d-\d\d(?![0-9])")
LEAST_MATCHING = 0.9  # the share of the values that must have the expected form
TIMES_SHORTER = 10  # times: a column with the name of a text may be so much shorter than the longest
SHORT_TEXT = 50  # characters
MOST_NAMED = 5
LONGEST_VALUE = 40  # characters of a value that is shown, and of a language


@dataclass
class Column:
    """A column, or a field of a column of objects (`meta.url`), with its values in some rows."""

    name: str
    type: pa.DataType
    is_field: bool
    values: list[Any] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [value for value in self.values if isinstance(value, str)]

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2] if self.is_field else self.name

    @property
    def length(self) -> float:
        """The median of the lengths of its texts, in characters."""
        return median(map(len, self.texts)) if self.texts else 0

    def share(self, matches: Callable[[str], object]) -> float:
        """Return the share of its texts that match."""
        return sum(1 for text in self.texts if matches(text)) / max(1, len(self.texts))

    @property
    def is_html(self) -> bool:
        return self.share(lambda text: BEGINS_HTML.match(text[:2000].encode(errors="replace"))) > 0.5

    @property
    def has_addresses(self) -> bool:
        return self.share(ADDRESS.fullmatch) >= LEAST_MATCHING

    @property
    def frequent(self) -> list[tuple[str, int]]:
        """Its most frequent texts, with their counts."""
        return Counter(self.texts).most_common(MOST_NAMED)


@dataclass(frozen=True)
class Guess:
    """A column that was guessed, and why."""

    column: Column
    reason: str

    @property
    def name(self) -> str:
        return self.column.name


@dataclass(frozen=True)
class ColumnGuesses:
    """The columns that were guessed from some rows.

    column_names: the names of all columns. row_count: the number of these rows.
    """

    text_column: Guess
    column_names: tuple[str, ...]
    row_count: int
    url_column: Guess | None = None
    id_column: Guess | None = None
    language_column: Guess | None = None
    date_column: Guess | None = None
    license_column: Guess | None = None

    @property
    def rows_without_text(self) -> int:
        return self.row_count - len(self.text_column.column.texts)


def guess_columns(
    source: str, url: str, tables: Sequence[pa.Table], *, text: str | None = None
) -> ColumnGuesses:
    """Guess the columns of the rows of a file. text: the column of the text, if the format defines it.

    Raises BadInput if no column has texts.
    """
    columns, rows = columns_of(tables), sum(map(len, tables))
    whole = [column for column in columns if not column.is_field]
    why = "each document's text, by the format of its files"
    known = [Guess(column, why) for column in whole if column.name == text]
    chosen = known[0] if known else text_guess(source, url, whole, rows)
    others = [column for column in columns if column is not chosen.column]
    return ColumnGuesses(
        chosen,
        tuple(column.name for column in whole),
        rows,
        url_column=url_guess(others),
        id_column=id_guess(others),
        language_column=language_guess(others),
        date_column=date_guess(others),
        license_column=license_guess(others),
    )


def columns_of(tables: Sequence[pa.Table]) -> list[Column]:
    """Return the columns of tables, and the fields of their columns of objects, with their values."""
    columns = dict[str, Column]()
    for table in tables:
        for name, array, is_field in arrays_of(table):
            column = columns.setdefault(name, Column(name, array.type, is_field))
            column.values += values_of(array)
    return [*columns.values()]


def arrays_of(table: pa.Table) -> Iterator[tuple[str, pa.Array, bool]]:
    for named in table.schema:
        array = as_one_array(table.column(named.name))
        if pa.types.is_struct(named.type):
            for inner in named.type:
                if f"{named.name}.{inner.name}" in table.column_names:  # which `meta.url` means then
                    continue
                yield f"{named.name}.{inner.name}", pc.struct_field(array, inner.name), True
        yield named.name, pa.nulls(len(array)) if is_json(named) else array, False


def values_of(array: pa.Array) -> list[Any]:
    """Return the texts and whole numbers of a column; None for all other values."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        contents = array.cast(pa.large_binary()).to_pylist()
        return [None if content is None else content.decode(errors="replace") for content in contents]
    return array.to_pylist() if pa.types.is_integer(array.type) else [None] * len(array)


def text_guess(source: str, url: str, columns: Sequence[Column], rows: int) -> Guess:
    """Choose the column with the name of a text, or else the column with the longest strings. Raises BadInput."""
    filled = [column for column in columns if column.length]
    strings = [column for column in filled if not column.has_addresses] or filled
    if not strings:
        known = ", ".join(f"{column.name!r} ({column.type})" for column in columns) or "none"
        fault = f"no column of strings with a text was found in its first {rows:,} rows; its columns: {known}"
        raise bad_input(source, fault, file=url)
    most = max((column.length for column in strings if not column.is_html), default=0)
    named = (column for known in KNOWN_TEXTS for column in strings if column.name.strip().lower() == known)
    chosen = next((column for column in named if column.length * TIMES_SHORTER >= most), None)
    why = "the column of this name" if chosen else "longest strings"
    chosen = chosen or max(strings, key=lambda column: column.length)
    reason = f"{why}, median {chosen.length:,.0f} characters, of {rows:,} rows"
    reason += ", which is short for texts" if chosen.length < SHORT_TEXT else ""
    others = [f"{column.name!r} ({column.length:,.0f})" for column in filled if column is not chosen][
        :MOST_NAMED
    ]
    return Guess(chosen, f"{reason}; other strings: {', '.join(others)}" if others else reason)


def url_guess(columns: Sequence[Column]) -> Guess | None:
    """Choose a column of addresses of the web; usual names come first."""
    candidates = [column for column in columns if column.texts and column.has_addresses]
    ranks = {name: rank for rank, name in enumerate(KNOWN_URLS)}
    candidates.sort(key=lambda column: (column.is_field, ranks.get(column.last_name.lower(), len(ranks))))
    return Guess(candidates[0], f"addresses in {counts(candidates[0])}") if candidates else None


def id_guess(columns: Sequence[Column]) -> Guess | None:
    """Choose a column with a name of an id, and a different value in each row."""
    for column in columns:
        values = [value for value in column.values if value is not None]
        if KNOWN_IDS.fullmatch(column.last_name) and values and len({*values}) == len(column.values):
            return Guess(column, f"{len(values):,} different values in {len(column.values):,} rows")
    return None


def language_guess(columns: Sequence[Column]) -> Guess | None:
    for column in named(columns, KNOWN_LANGUAGES):
        if column.texts and max(map(len, column.texts)) <= LONGEST_VALUE:
            return Guess(column, in_short(column))
    return None


def license_guess(columns: Sequence[Column]) -> Guess | None:
    candidates = (column for column in named(columns, KNOWN_LICENSES) if column.texts)
    return next((Guess(column, in_short(column)) for column in candidates), None)


def date_guess(columns: Sequence[Column]) -> Guess | None:
    for column in named(columns, KNOWN_DATES):
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            return Guess(column, f"its type is {column.type}")
        if column.texts and column.share(DAY.match) >= LEAST_MATCHING:
            return Guess(column, f"{min(column.texts)[:10]} to {max(column.texts)[:10]} in {counts(column)}")
    return None


def named(columns: Sequence[Column], pattern: re.Pattern[str]) -> Iterator[Column]:
    """Yield the columns with the given names that are not empty in most rows."""
    for column in columns:
        is_filled = 2 * len(column.texts) >= len(column.values) or not pa.types.is_string(column.type)
        if is_filled and pattern.fullmatch(column.last_name.strip()):
            yield column


def in_short(column: Column) -> str:
    """Return a summary of the values of a column."""
    shown = ", ".join(f"{text[:LONGEST_VALUE]!r} ({count:,})" for text, count in column.frequent)
    return f"{shown} in {counts(column)}"


def counts(column: Column) -> str:
    return f"{len(column.texts):,} of {len(column.values):,} rows"
