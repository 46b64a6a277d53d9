"""Tables of labels: their files, their columns, and the keys by which their rows are compared with documents."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, NoCorpus, bad_input
from zyda_flows.tasks.recipe.joins import Join, On
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.columns import is_json
from zyda_flows.tasks.sources.copies import list_source_files
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.json_columns import json_column
from zyda_flows.tasks.sources.listing import WILDCARDS, files_matching
from zyda_flows.tasks.sources.named_values import BINARY, column_of, column_texts, column_values
from zyda_flows.tasks.sources.reading import FORMATS, first_table, has_schema

TEXT = "text"  # the column of a published corpus whose hash is the key
KEY_BYTES = 16
HEX_DIGITS = 64
NOT_TYPED = (
    "has values of several types; take a field of it, with `take: {name: column.field}`, or leave it out"
)


@dataclass(frozen=True)
class LabelColumns:
    """The columns of a table of labels that a join reads.

    key: the path of the key. is_hashed: whether the key is the hash of the column. paths: of the columns to take.
    """

    on: On
    key: str
    is_hashed: bool
    paths: tuple[str, ...]

    def names(self, known: Sequence[str]) -> list[str]:
        """Return the names of the columns to read. known: of all columns."""
        return [*dict.fromkeys(filter(None, (column_of(path, known) for path in (self.key, *self.paths))))]

    def keys(self, table: pa.Table) -> pa.Array:
        return keys_of(table, self.on, self.key, is_hashed=self.is_hashed)

    def taken(self, table: pa.Table) -> pa.Table:
        """Return the columns to take, with their places as names; null where a file lacks a column."""
        columns = [taken_column(table, path) for path in self.paths]
        fields = [field.with_name(str(place)) for place, (field, _) in enumerate(columns)]
        return pa.table([column for _, column in columns], pa.schema(fields))


@dataclass(frozen=True)
class LabelTable:
    """The files of a table of labels, ordered by URL.

    is_hashed: see `LabelColumns`. fields: the columns to take with their types, as far as the first rows of the
    first file show them.
    """

    files: tuple[InputFile, ...]
    is_hashed: bool
    fields: tuple[pa.Field, ...]


def label_columns(join: Join, *, is_hashed: bool) -> LabelColumns:
    """Return the columns of labels that a join reads. is_hashed: see `LabelColumns`."""
    key = TEXT if is_hashed else join.key or join.on
    return LabelColumns(join.on, key, is_hashed, tuple(path for _, path in join.take))


def column_of_key(source: Source, join: Join) -> str:
    """Return the path of the column of documents with their keys."""
    return {"url": source.url, "id": source.id, "sha256": TEXT}[join.on]


def find_labels(source: Source, join: Join, inputs: str | None) -> LabelTable:
    """List the files of a join's labels, and check the columns of the first file. Raises BadInput.

    inputs: the folder of copies, or None.
    """
    files, is_corpus = label_files(source, join, inputs)
    is_hashed = is_corpus and join.on == "sha256" and join.key is None
    columns = label_columns(join, is_hashed=is_hashed)
    first, table = first_with_columns(source, files)
    with naming_file(source.name, first):
        check_columns(source.name, first, columns, table)
        taken = columns.taken(table)
    named = zip(join.take, taken.schema, strict=True)
    fields = tuple(field.with_name(name).with_metadata(None) for (name, _), field in named)
    check_types(source.name, first.url, join, taken.schema)
    return LabelTable(files, is_hashed, fields)


def first_with_columns(source: Source, files: Sequence[InputFile]) -> tuple[InputFile, pa.Table]:
    """Return the first file of labels with a column, and its first rows: JSON Lines may have no row."""
    for file in filter(lambda file: file.size, files):
        if (table := first_table(source.name, file)).num_columns:
            return file, table
    raise bad_input(source.name, "join: its labels have no row", file=files[0].url)


def label_files(source: Source, join: Join, inputs: str | None) -> tuple[tuple[InputFile, ...], bool]:
    """Return the files of a join's labels, and whether they belong to a published corpus. Raises BadInput.

    inputs: the folder of copies, or None.
    """
    if (corpus := corpus_of_labels(join)) is not None:
        paths = [
            artifact.path
            for name in corpus.source_names.values()
            for artifact in corpus.artifacts(f"{name}/")
        ]
        if not paths:
            raise bad_input(source.name, f"join: {corpus.url} has no documents")
        files = [
            file for path in sorted(paths) for file in files_matching(source.name, f"{corpus.url}/{path}")
        ]
        return tuple(files), True
    return tuple(list_source_files(source_of_labels(source, join), inputs)), False


def source_of_labels(source: Source, join: Join) -> Source:
    """Return a source whose files are those of a join's labels, for lists of files and their copies."""
    return Source.model_construct(name=f"{source.name}, join", files=join.labels)


def corpus_of_labels(join: Join) -> PublishedCorpus | None:
    """Return the published corpus from which a join takes labels, or None."""
    return corpus_at(join.labels[0]) if len(join.labels) == 1 else None


def corpus_at(url: str) -> PublishedCorpus | None:
    """Return the corpus that is published at a URL; None for a pattern, a file, or a folder without a corpus."""
    endings = tuple(ending for kind in FORMATS for ending in kind.ENDINGS)
    if any(character in url for character in WILDCARDS) or url.lower().endswith(endings):
        return None
    try:
        return PublishedCorpus.at(url)
    except NoCorpus:
        return None


@contextmanager
def naming_file(reader: str, file: InputFile, numbers: NDArray[np.int64] | None = None) -> Iterator[None]:
    """Raise BadInput for another ValueError of this block. numbers: of the rows of a table, (n,)."""
    try:
        yield
    except BadInput:
        raise
    except BadKey as error:
        row = None if numbers is None else int(numbers[error.row])
        raise bad_input(reader, f"join.key: {error}", file=file.url, row=row) from error
    except ValueError as error:
        raise bad_input(reader, f"join: {error}", file=file.url) from error


def check_columns(source: str, file: InputFile, columns: LabelColumns, table: pa.Table) -> None:
    """Raise BadInput if a file lacks a column of a join.

    JSON Lines may have columns that their first lines lack, so only the key is required there.
    """
    for path in (columns.key, *columns.paths):
        is_required = path == columns.key or has_schema(source, file)
        if is_required and (
            column_of(path, table.column_names) is None or column_values(table, path) is None
        ):
            known = ", ".join(map(repr, table.column_names))
            field = "key" if path == columns.key else "take"
            raise bad_input(source, f"join.{field}: no column {path!r}; there are {known}", file=file.url)


def check_types(source: str, url: str, join: Join, schema: pa.Schema) -> None:
    """Raise BadInput if a column to take has values of several types, or no largest value for `many: max`."""
    for (_, path), field in zip(join.take, schema, strict=True):
        if is_json(field):
            raise bad_input(source, f"join.take: {path!r} {NOT_TYPED}", file=url)
        if join.many == "max" and not has_largest(field.type):
            fault = f"join.many: {path!r} is {field.type}, which has no largest value; use `first`"
            raise bad_input(source, fault, file=url)


def has_largest(kind: pa.DataType) -> bool:
    """Return whether pyarrow finds the largest value of a type in groups."""
    table = pa.table({"group": pa.nulls(0, pa.int64()), "value": pa.nulls(0, kind)})
    with suppress(pa.ArrowNotImplementedError):
        return bool(table.group_by("group").aggregate([("value", "max")]).num_columns)
    return False


def taken_column(table: pa.Table, path: str) -> tuple[pa.Field, pa.Array]:
    """Return a column or a field of a column of objects. Raises ValueError for a column without fields."""
    values = column_values(table, path)
    if values is None:
        return pa.field(path, pa.null()), pa.nulls(len(table))
    if isinstance(values, list):
        name = column_of(path, table.column_names)
        if name == path:  # JSON text as a whole
            return table.schema.field(name), pa.nulls(len(table), pa.string())
        return json_column(path, values)
    return pa.field(path, values.type), values


def keys_of(table: pa.Table, on: On, path: str, *, is_hashed: bool) -> pa.Array:
    """Return the key of each row as 16 bytes, null if it has none: (n,).

    The key is the beginning of the SHA-256 of a text, or BLAKE2 of an address or an id. is_hashed: whether the
    column has texts whose SHA-256 is the key. Raises ValueError, and BadKey for a value that is no key.
    """
    if on == "sha256" and not is_hashed:
        return digests_in(table, path)
    texts = column_texts(table, path, "key")
    if is_hashed:
        return hashed(texts, lambda text: hashlib.sha256(text).digest()[:KEY_BYTES])
    empty = pc.equal(pc.binary_length(texts), 0)
    texts = pc.if_else(empty, pa.scalar(None, texts.type), texts)
    return hashed(texts, lambda text: hashlib.blake2b(text, digest_size=KEY_BYTES).digest())


def hashed(texts: pa.Array, function: Callable[[bytes], bytes]) -> pa.Array:
    contents = texts.cast(pa.large_binary()).to_pylist()
    return pa.array([None if each is None else function(each) for each in contents], pa.binary(KEY_BYTES))


class BadKey(ValueError):
    """A value of a column of SHA-256 that is none. row: its place in the table."""

    def __init__(self, row: int, value: Any) -> None:
        super().__init__(
            f"{value!r:.100} is no SHA-256; expected {HEX_DIGITS} hexadecimal digits or 32 bytes"
        )
        self.row = row


def digests_in(table: pa.Table, path: str) -> pa.Array:
    """Return the beginnings of SHA-256, given as hexadecimal digits or bytes: (n,)."""
    values = column_values(table, path)
    column = pa.nulls(len(table)) if values is None else values
    is_binary = isinstance(column, pa.Array) and any(test(column.type) for test in BINARY)
    digests = list[bytes | None]()
    for row, value in enumerate(column.to_pylist() if isinstance(column, pa.Array) else column):
        digest = value if is_binary else from_hex(value)
        if value is not None and (digest is None or len(digest) != HEX_DIGITS // 2):
            raise BadKey(row, value)
        digests.append(digest and digest[:KEY_BYTES])
    return pa.array(digests, pa.binary(KEY_BYTES))


def from_hex(value: Any) -> bytes | None:
    try:
        return bytes.fromhex(value) if isinstance(value, str) and len(value) == HEX_DIGITS else None
    except ValueError:
        return None


def halves(keys: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the two halves of keys without nulls: (n,) uint64 twice."""
    data = np.frombuffer(keys.buffers()[1], ">u8")[2 * keys.offset : 2 * (keys.offset + len(keys))]
    pairs = data.astype(np.uint64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
