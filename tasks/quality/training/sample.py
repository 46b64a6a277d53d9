"""Draw documents with their columns from files or from a published corpus: those with the smallest hashes.

The sample depends on the texts only, not on the order of files and rows. Its size bounds the memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, bad_input
from zyda_flows.tasks.quality.training.targets import TABLE, normalised, without_value
from zyda_flows.tasks.recipe.kinds import ExactRound
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.signatures.exact import text_keys
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.listing import WILDCARDS, list_files
from zyda_flows.tasks.sources.reading import FORMATS, inspect, read
from zyda_flows.tasks.sources.selection import Selection

MOST_CHARACTERS = 100_000  # of a text; training needs no more of it, and memory is bounded
SHARD_BYTES = 64 << 20


@dataclass(frozen=True)
class Sample:
    """Documents in the order of their hashes. texts: (n,). hashes: uint64, (n,). columns: by name, (n,) each.

    left_out: published documents that were not considered, because a column has no value. vectors: by a teacher,
    (n, dims), for the form that needs them.
    """

    texts: pa.LargeStringArray
    hashes: NDArray[np.uint64]
    columns: Mapping[str, pa.Array]
    left_out: int = 0
    vectors: NDArray[np.float32] | None = None


class FileTable(NamedTuple):
    """Some rows of a file. rows: their numbers in the file, (n,)."""

    url: str
    rows: NDArray[np.int64]
    table: pa.Table


def draw_sample(urls: Sequence[str], text: str, columns: Sequence[str], count: int) -> Sample:
    """Return at most `count` documents that are not empty; long texts are cut to MOST_CHARACTERS.

    A published document without a value in a column is left out: a judge did not read it, for example.

    Args:
        urls: files or patterns, or the URL of a published corpus.
        text: the column with the text.
        columns: the columns with scores or labels.
        count: the size of the sample.

    Raises BadInput for a row of a file without a value, and for bad rows; BadRequest for a missing column.
    """
    from_corpus = is_published(urls)
    tables = tables_of_corpus(urls[0], text, columns) if from_corpus else tables_of_files(urls, text, columns)
    smallest, left_out = None, 0
    for part in tables:
        if from_corpus and columns:
            has_values = np.logical_and.reduce([~is_missing(part.table.column(name)) for name in columns])
            left_out += len(part.rows) - int(np.sum(has_values))
            if not has_values.any():
                continue
            part = FileTable(part.url, part.rows[has_values], part.table.filter(pa.array(has_values)))
        table = hashed(part, text, columns)
        smallest = table if smallest is None else concatenated(smallest, table)
        if len(smallest) > 2 * count:
            smallest = smallest.sort_by("hash")[:count]
    schema = pa.schema([("hash", pa.uint64()), ("text", pa.large_string())])
    smallest = (smallest if smallest is not None else schema.empty_table()).sort_by("hash")[:count]
    arrays = {name: as_one_array(smallest.column(name)) for name in smallest.column_names}
    hashes = arrays.pop("hash").to_numpy()
    texts = arrays.pop("text")
    return Sample(texts, hashes, {name.removeprefix("="): array for name, array in arrays.items()}, left_out)


def is_missing(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return column.is_null(nan_is_null=True).to_numpy()


def concatenated(first: pa.Table, second: pa.Table) -> pa.Table:
    """Return the rows of both tables. Raises BadRequest if a column has numbers and texts."""
    if first.schema != second.schema:
        differing = next(name for name in first.column_names if first.field(name) != second.field(name))
        raise BadRequest(f"the column {differing.removeprefix('=')} has numbers and texts; use one type")
    return pa.concat_tables([first, second])


def hashed(part: FileTable, text: str, columns: Sequence[str]) -> pa.Table:
    """Return the hashes, texts and columns of documents that are not empty; the names of columns begin with `=`."""
    arrays = {f"={name}": normalised(name, part.table.column(name), part.url, part.rows) for name in columns}
    texts = pc.utf8_slice_codeunits(part.table.column(text).cast(pa.large_string()), 0, MOST_CHARACTERS)
    keys, has_text = text_keys(as_one_array(texts), ExactRound(exact="text"))
    found = pa.table({"hash": keys[:, 0, 0], "text": texts, **arrays})
    return found.filter(pa.array(has_text))


def tables_of_files(urls: Sequence[str], text: str, columns: Sequence[str]) -> Iterator[FileTable]:
    """Yield the rows of files, some MiB at a time."""
    selection = Selection(only=tuple(columns))
    for file in list_files(Source(name=TABLE, files=tuple(urls), text=text)):
        found = inspect(TABLE, file, text, SHARD_BYTES, selection, may_be_bad=True)
        if found.fault:
            raise bad_input(TABLE, found.fault, file=file.url)
        expect_columns(file.url, columns, found.names)
        for piece in found.file.pieces:
            for chunk in read(TABLE, file, piece, text, selection=selection):
                if chunk.bad:
                    raise bad_input(TABLE, chunk.bad[0].reason, file=file.url, row=chunk.bad[0].row)
                if len(chunk.rows):
                    for name in (name for name in columns if name not in chunk.table.column_names):
                        raise without_value(name, file.url, int(chunk.rows[0]))
                    yield FileTable(file.url, chunk.rows, chunk.table)


def expect_columns(url: str, wanted: Sequence[str], known: Sequence[str] | None) -> None:
    """Raise BadRequest if a file lacks a column. known: its columns, None if they are unknown."""
    for name in wanted:
        if known is not None and name not in known:
            raise BadRequest(f"{url} has no column {name}; its columns are {', '.join(known)}")


def is_published(urls: Sequence[str]) -> bool:
    """Return whether the documents are those of a published corpus."""
    return len(urls) == 1 and is_corpus(urls[0])


def is_corpus(url: str) -> bool:
    """Return whether a URL is that of a folder, not of a file with a known ending, nor a pattern."""
    endings = tuple(ending for kind in FORMATS for ending in kind.ENDINGS)
    return not url.lower().endswith(endings) and not any(character in url for character in WILDCARDS)


def tables_of_corpus(url: str, text: str, columns: Sequence[str]) -> Iterator[FileTable]:
    """Yield the rows of the published files of a corpus, by row group; null for a column that a source lacks."""
    corpus = PublishedCorpus.at(url)
    files = [file for origin in corpus.manifest.made_of for file in corpus.files(f"{origin.source}/")]
    names = dict[str, list[str]]()
    for file in files:
        with corpus.open(file) as parquet:
            names[file.path] = parquet.schema_arrow.names
        expect_columns(f"{corpus.url}/{file.path}", [text], names[file.path])
    expect_columns(corpus.url, columns, [*dict.fromkeys(chain.from_iterable(names.values()))])
    for file in files:
        row = 0
        for table in corpus.row_groups_of(file, [text, *columns]):
            for name in (name for name in columns if name not in table.column_names):
                table = table.append_column(name, pa.nulls(len(table)))
            yield FileTable(f"{corpus.url}/{file.path}", np.arange(row, row + len(table)), table)
            row += len(table)
