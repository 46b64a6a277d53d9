"""What the records of a file are, each by itself: a document, none of its kind, or one that cannot be read.

For formats whose records come one after another and whose columns are known, or stand at their beginning.
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
CHUNK_OTHERS = 1 << 16  # of those that are no documents
FIELD_BYTES = 64  # of a document's field without a value, at least
INSPECTED = 100
FIRST_RECORDS = 1000  # among which are the first documents


@dataclass(frozen=True)
class Skip:
    """A record that is no document of its kind. reason: one of few."""

    reason: str


@dataclass(frozen=True)
class Bad:
    """A record that cannot be read: why, and what was there. is_rest: nor can anything that follows."""

    reason: str
    content: bytes = b""
    is_rest: bool = False


Outcome = dict[str, Any] | Skip | Bad  # of a document, its columns; the text may be in UTF-8


@dataclass
class Gathered:
    """Outcomes on their way to a chunk."""

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
        if isinstance(outcome, Skip):
            self.skipped.append((row, outcome.reason))
        elif isinstance(outcome, Bad):
            content = outcome.content[: limits().bad_row_bytes]
            self.size += len(content) + len(outcome.reason)
            self.bad.append(BadRow(row, outcome.reason, content, outcome.is_rest))
        else:
            self.size += weight(outcome)
            self.rows.append(row)
            self.documents.append(outcome)

    def chunk(self) -> Chunk:
        columns = [
            as_column([one.get(named.name) for one in self.documents], named.type) for named in self.schema
        ]
        table = pa.table(columns, schema=self.schema)
        return Chunk(np.array(self.rows, np.int64), table, self.bad, skipped=self.skipped)


def weight(fields: dict[str, Any]) -> int:
    """Return about how many bytes the fields of a document take; empty ones take memory as well."""
    return sum(
        FIELD_BYTES + (len(value) if isinstance(value, str | bytes) else 0) for value in fields.values()
    )


def as_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column. Texts may be bytes, of which their reader has seen that they are UTF-8."""
    if any(isinstance(value, bytes) for value in values):
        return pa.array(values, pa.large_binary()).view(kind)
    return pa.array(values, kind)


def chunks_of_outcomes(
    outcomes: Iterable[Outcome], schema: pa.Schema, text: str, tally: RowTally, selection: Selection
) -> Iterator[Chunk]:
    """Yield the outcomes of the records of a file, of which the first is row 0, as chunks of some MiB.

    The tally counts what stands for the rest of a file; the records are counted by who finds them.
    """
    carried = pa.schema([schema.field(name) for name in selection.of(schema.names, text)])
    gathered = Gathered(carried)
    for row, outcome in enumerate(outcomes):
        gathered.add(row, outcome)
        tally.rests += isinstance(outcome, Bad) and outcome.is_rest
        if gathered.is_full:
            yield gathered.chunk()
            gathered = Gathered(carried)
    yield gathered.chunk()


def first_documents(outcomes: Iterable[Outcome], schema: pa.Schema, count: int) -> Chunk:
    """Return the first records of a file, up to the last of so many documents."""
    gathered = Gathered(schema)
    for row, outcome in enumerate(islice(outcomes, FIRST_RECORDS)):
        gathered.add(row, outcome)
        if len(gathered.documents) == count or gathered.size >= limits().inspected_bytes:
            break
    return gathered.chunk()


def checked_outcomes(
    stream: Input, outcomes: Iterable[Outcome], schema: pa.Schema, text: str, *, may_be_bad: bool
) -> pa.Schema:
    """Return the columns of a file after a look at its first records.

    Raises BadInput where there is no text among them, and, where it is not may_be_bad, for the first that is bad.
    """
    checked_columns(stream, text, schema)
    for row, outcome in enumerate(islice(outcomes, INSPECTED)):
        if isinstance(outcome, Bad) and not may_be_bad:
            raise bad_row(stream.source, outcome.reason, file=stream.url, row=row)
    return schema
