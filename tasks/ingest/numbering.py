"""Convert rows of a file to documents: tables with ids and exact counts, of at most a shard's size."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.batch import Documents
from zyda_flows.tasks.documents.planning import STATISTICS
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import BadInput, bad_input, bad_row
from zyda_flows.tasks.ids import MAX_ROWS
from zyda_flows.tasks.ingest.forgotten import without_content
from zyda_flows.tasks.ingest.set_aside import rows_with_columns
from zyda_flows.tasks.ingest.source_plan import IngestParameters
from zyda_flows.tasks.sources.column_names import stored_schema
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.document_components import COMPONENT, components_of
from zyda_flows.tasks.sources.file_rows import BadRow, Chunk, RowTally
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.storage.counts import CleaningCounts, SpecialCounts, totals
from zyda_flows.tasks.tokens.engine import TokenEngine

MAX_TEXT = (1 << 32) - 1  # the largest value of n_bytes
ROWS_COUNTED_AT_ONCE = 1 << 22


def text_bytes(texts: pa.LargeStringArray | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the UTF-8 length of each text: (n,) int64."""
    return pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)


def choose_rows(rows: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.bool_]:
    """Choose rows by a hash of their number, so that every run chooses the same rows: (n,) bool."""
    if fraction >= 1:
        return np.ones(len(rows), np.bool_)
    # Products wrap modulo 2**64. The share of hashes below a share of 2**64 is that share.
    x = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (x ^ (x >> np.uint64(32))) < np.uint64(fraction * 2.0**64)


class BadRowSink(Protocol):
    """Receives the rows that are set aside."""

    def add(self, rows: Iterable[BadRow]) -> None: ...


@dataclass
class RowConverter:
    """Converts the rows of a file to documents. first: the doc_id of row 0.

    max_rows: of a file. max_text: bytes of a text. blank: the number of blank rows. skipped: the number of records
    that are not documents, by kind. cleaned: the counts of each cleaning. special_tokens: the counts of special
    tokens in texts. forgotten: ids of which only counts are stored.
    """

    source: str
    file: InputFile
    first: int
    parameters: IngestParameters
    engine: TokenEngine
    max_rows: int = MAX_ROWS
    max_text: int = MAX_TEXT
    blank: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    cleaned: dict[str, CleaningCounts] = field(default_factory=dict)
    special_tokens: dict[str, SpecialCounts] = field(default_factory=dict)
    forgotten: frozenset[int] = frozenset()

    def chosen(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which rows are in the sample: (n,) bool."""
        return choose_rows(rows, self.parameters.sample_rows, self.file.seed)

    def entering(self, first_row: int, tally: RowTally) -> int:
        """Return the number of rows that enter from a piece that has been read, by its tally."""
        counted = sum(map(self.count_chosen, tally.read_ranges(first_row)))
        return counted - self.blank - self.skipped.total() + tally.rests

    def count_chosen(self, rows: range) -> int:
        """Return the number of rows in the sample."""
        if self.parameters.sample_rows >= 1:
            return len(rows)
        parts = (rows[i : i + ROWS_COUNTED_AT_ONCE] for i in range(0, len(rows), ROWS_COUNTED_AT_ONCE))
        return sum(int(self.chosen(np.arange(part.start, part.stop)).sum()) for part in parts)

    def documents(self, chunks: Iterator[Chunk], aside: "BadRowSink") -> Iterator[pa.Table]:
        """Yield the documents of chunks, in tables with at most the text of a shard.

        Bad rows are added to `aside`. Raises BadInput at a bad row if rows may not be set aside. Tokens are
        counted directly after a chunk is read, while it is in the processor's cache.
        """
        for chunk in chunks:
            bad = self.bad_rows(chunk)
            if bad and not self.parameters.set_aside:
                raise bad_row(self.source, bad[0].reason, file=self.file.url, row=bad[0].row)
            aside.add(bad)
            self.blank += int(self.chosen(chunk.blank).sum())
            places = np.array([row for row, _ in chunk.skipped], np.int64)
            self.skipped.update(chunk.skipped[i][1] for i in np.flatnonzero(self.chosen(places)))
            if len(chunk.rows) and chunk.rows[-1] >= self.max_rows:
                raise bad_input(self.source, f"more than {self.max_rows:,} rows; cut it", file=self.file.url)
            chosen = self.chosen(chunk.rows)
            rows, table = chunk.rows, chunk.table
            if not chosen.all():
                rows, table = rows[chosen], table.filter(pa.array(chosen))
            for start, stop in slices(table, self.parameters):
                yield self.document_table(table.slice(start, stop - start), rows[start:stop])

    def bad_rows(self, chunk: Chunk) -> list[BadRow]:
        """Return the bad rows of a chunk that are in the sample, with the content that may be stored."""
        chosen = self.chosen(np.array([row.row for row in chunk.bad], np.int64))
        rows = chunk.bad
        if self.parameters.publish_set_aside:
            rows = rows_with_columns(rows, chunk.bad_columns) if chunk.bad_columns is not None else rows
            rows = [row.without_content() if self.is_forgotten(row) else row for row in rows]
        else:
            rows = [row.without_content() for row in rows]
        return [row for row, is_in in zip(rows, chosen, strict=True) if is_in or row.is_rest]

    def is_forgotten(self, row: BadRow) -> bool:
        return self.first + row.row in self.forgotten

    def document_table(self, table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
        """Convert rows, (n,), to documents: ids, counts, the text and the source's other columns."""
        texts = as_one_array(table.column(self.parameters.text))
        source_columns = table.drop_columns([self.parameters.text])
        plan, documents = self.parameters.documents, None
        if plan.steps:
            self.check_sizes(texts, rows)
            try:
                documents = run_steps(plan, texts, source_columns)
            except BadInput as error:  # raised by a user's own step
                raise bad_input(self.source, str(error), file=self.file.url) from error
            self.cleaned = totals([self.cleaned, documents.cleaned])
            texts = documents.text
            if documents.cleaned_columns is not None:
                source_columns = documents.cleaned_columns
        sizes = self.check_sizes(texts, rows)
        try:
            tokens = self.engine.count(texts)
        except BadInput as error:
            raise bad_input(self.source, str(error), file=self.file.url) from error
        self.special_tokens = totals([self.special_tokens, self.engine.special.count(texts)])
        counted = [
            pa.array(rows.astype(np.uint64) + np.uint64(self.first)),
            pa.array(tokens),
            pa.array(sizes.astype(np.uint32)),
        ]
        stored = texts if documents is None else documents.stored_texts(keeps_text=plan.keeps_text)
        added = self.component(table, documents)
        schema = stored_schema(
            source_columns.schema,
            self.parameters.text,
            classified=self.parameters.classified,
            measured=plan.published,
            added=[COMPONENT] * len(added),
        )
        numbered = pa.table([*counted, stored, *source_columns.columns, *added], schema=schema)
        if documents is not None:
            numbered = numbered.append_column(STATISTICS, documents.statistics(plan.columns()))
        return without_content(numbered, self.forgotten) if self.forgotten else numbered

    def component(self, table: pa.Table, documents: Documents | None) -> list[pa.Array]:
        """Return a list with the column of components; empty if the recipe has none. Raises BadInput."""
        if (component := self.parameters.component) is None:
            return []
        if component.language and documents is not None:
            languages = documents.columns.get(self.parameters.documents.language)
            return [pa.nulls(len(table), COMPONENT.type) if languages is None else languages]
        try:
            return [components_of(component, table, self.file)]
        except ValueError as error:
            raise bad_input(self.source, f"component: {error}", file=self.file.url) from error

    def check_sizes(self, texts: pa.LargeStringArray, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the UTF-8 length of each text: (n,) int64. Raises BadInput if a text is too long."""
        sizes = text_bytes(texts)
        if len(sizes) and sizes.max() > self.max_text:
            row = int(rows[sizes.argmax()])
            fault = f"a text of {sizes.max():,} bytes, expected at most {self.max_text:,}"
            raise bad_input(self.source, fault, file=self.file.url, row=row)
        return sizes


def number_parts(tables: Iterable[pa.Table], limit: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield each table with the number of its part; a part has at most `limit` bytes of text."""
    number = size = 0
    for table in tables:
        table_bytes = pc.sum(table.column("n_bytes")).as_py()
        if size and size + table_bytes > limit:
            number, size = number + 1, 0
        size += table_bytes
        yield number, table


def slices(table: pa.Table, parameters: IngestParameters) -> Iterator[tuple[int, int]]:
    """Yield slices of a table, (start, stop), with at most the text of a shard."""
    if not len(table):
        return
    ends = np.cumsum(text_bytes(table.column(parameters.text)))
    start = before = 0
    while start < len(table):
        limit = before + parameters.shard_bytes
        # The row whose text ends after the limit begins the next slice, unless it would be alone.
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, stop
        start, before = stop, int(ends[stop - 1])
