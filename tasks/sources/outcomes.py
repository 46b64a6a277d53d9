"""Outcomes of the records of a file: documents, skipped records and records that cannot be read.

Used by formats with consecutive records whose columns are fixed, or stated at the start of the file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.errors import bad_row
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.file_rows import BadRow, Chunk, RowTally, checked_columns
from zyda_flows.tasks.sources.selection import Selection
from zyda_flows.tasks.sources.streams import Input

CHUNK_BYTES = 32 << 20
CHUNK_OTHERS = 1 << 16  # skipped and bad records of a chunk
FIELD_BYTES = 64  # the least memory of a field of a document
INSPECTED = 100
FIRST_RECORDS = 1000  # searched for the first documents


@dataclass(frozen=True)
class SkippedRecord:
    """A record that is not a document. reason: one of a small number of kinds."""

    reason: str


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be read. is_rest: the records after it cannot be read either."""

    reason: str
    content: bytes = b""
    is_rest: bool = False


Outcome = (
    dict[str, Any] | SkippedRecord | BadRecord
)  # a document is a dict of its columns; its text may be UTF-8 bytes


@dataclass
class GatheredOutcomes:
    """Outcomes that are gathered for a chunk."""

    schema: pa.Schema
    rows: list[int] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    size: int = 0

    @property
    def is_full(self) -> bool:
        return self.size >= CHUNK_BYTES or len(self.bad) + len(self.skipped) >= CHUNK_OTHERS

    def add(self, row: int, outcome: Outcome) -> None:
        if isinstance(outcome, SkippedRecord):
            self.skipped.append((row, outcome.reason))
        elif isinstance(outcome, BadRecord):
            content = outcome.content[: limits().bad_row_bytes]
            self.size += len(content) + len(outcome.reason)
            self.bad.append(BadRow(row, outcome.reason, content, outcome.is_rest))
        else:
            self.size += weight(outcome)
            self.rows.append(row)
            self.documents.append(outcome)

    def chunk(self) -> Chunk:
        columns = [
            as_column([document.get(column.name) for document in self.documents], column.type)
            for column in self.schema
        ]
        table = pa.table(columns, schema=self.schema)
        return Chunk(np.array(self.rows, np.int64), table, self.bad, skipped=self.skipped)


def weight(fields: dict[str, Any]) -> int:
    """Return the approximate memory of the fields of a document, in bytes."""
    return sum(
        FIELD_BYTES + (len(value) if isinstance(value, str | bytes) else 0) for value in fields.values()
    )


def as_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column. Texts may be bytes that the format has checked to be UTF-8."""
    if any(isinstance(value, bytes) for value in values):
        return pa.array(values, pa.large_binary()).view(kind)
    return pa.array(values, kind)


def chunks_of_outcomes(
    outcomes: Iterable[Outcome], schema: pa.Schema, text: str, tally: RowTally, selection: Selection
) -> Iterator[Chunk]:
    """Yield the outcomes of the records of a file as chunks of some MiB; the first record is row 0.

    The tally counts bad rows that stand for the rest of a file. The caller counts the records.
    """
    selected = pa.schema([schema.field(name) for name in selection.of(schema.names, text)])
    gathered = GatheredOutcomes(selected)
    for row, outcome in enumerate(outcomes):
        gathered.add(row, outcome)
        tally.rests += isinstance(outcome, BadRecord) and outcome.is_rest
        if gathered.is_full:
            yield gathered.chunk()
            gathered = GatheredOutcomes(selected)
    yield gathered.chunk()


def first_documents(outcomes: Iterable[Outcome], schema: pa.Schema, count: int) -> Chunk:
    """Return the first records of a file, up to the document number `count`."""
    gathered = GatheredOutcomes(schema)
    for row, outcome in enumerate(islice(outcomes, FIRST_RECORDS)):
        gathered.add(row, outcome)
        if len(gathered.documents) == count or gathered.size >= limits().inspected_bytes:
            break
    return gathered.chunk()


def checked_outcomes(
    stream: Input, outcomes: Iterable[Outcome], schema: pa.Schema, text: str, *, may_be_bad: bool
) -> pa.Schema:
    """Check the first records of a file and return its columns.

    Raises BadInput if the text column is missing; unless may_be_bad, also for the first bad record.
    """
    checked_columns(stream, text, schema)
    for row, outcome in enumerate(islice(outcomes, INSPECTED)):
        if isinstance(outcome, BadRecord) and not may_be_bad:
            raise bad_row(stream.source, outcome.reason, file=stream.url, row=row)
    return schema
