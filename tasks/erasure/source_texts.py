"""Documents and rows of which nothing is stored, read in their sources: removed by a rule, or set aside.

It is read so that these are known when their files change, or a rule is relaxed.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from zyda_flows.tasks.documents.deny_list import Request
from zyda_flows.tasks.documents.deny_rows import request_for_row, row_aside, text_of_row
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import ZydaError, first_line
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.ingest.set_aside import rows_with_columns
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.file_rows import Chunk
from zyda_flows.tasks.sources.reading import read


@dataclass
class SourceTexts:
    """What was found. rows: by what rows that are set aside are known. notes: why some of it could not be read."""

    texts: list[str] = field(default_factory=list)
    rows: list[Request] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_source_texts(
    reader: DocumentReader, doc_ids: Collection[int], left_out: Collection[int] = ()
) -> SourceTexts:
    """Read documents and rows in their sources: of a document its text there, and as the steps clean it.

    left_out: of which it is noted that they are not read.
    """
    found, by_file = SourceTexts(), dict[tuple[int, int], set[int]]()
    if left_out:
        found.notes.append(
            f"{len(left_out):,} documents that a rule removed are too many to look for copies of them"
        )
    for doc_id in doc_ids:
        by_file.setdefault(split(doc_id)[:2], set()).add(doc_id)
    for ids in by_file.values():
        source, file, _ = reader.file_of(min(ids))
        rows = {split(doc_id)[2] for doc_id in ids}
        try:
            for chunk in chunks_with(reader, min(ids), rows):
                add_chunk(found, reader, source, chunk, rows)
        except ZydaError as error:
            why = first_line(error)
            found.notes.append(
                f"source {source}, file {file.url}: {len(rows):,} of its rows are known by their ids alone: {why}"
            )
    return found


def chunks_with(reader: DocumentReader, doc_id: int, rows: set[int]) -> Iterator[Chunk]:
    """Yield the chunks of the file of a document until some rows have been read."""
    source, file, _ = reader.file_of(doc_id)
    file, left = reader.located(source, file), set(rows)
    for piece in file.pieces:
        end = math.inf if piece.rows is None else piece.first_row + piece.rows
        if not any(piece.first_row <= row < end for row in left):
            continue
        for chunk in read(source, file, piece, reader.source_of(doc_id).text):
            yield chunk
            left -= {*chunk.rows.tolist(), *(row.row for row in chunk.bad)}
            if not left:
                return


def add_chunk(found: SourceTexts, reader: DocumentReader, source: str, chunk: Chunk, rows: set[int]) -> None:
    """Add what a chunk has of some rows."""
    text = reader.recipe.source(source).text
    places = [place for place, row in enumerate(chunk.rows.tolist()) if row in rows]
    if places:
        table = chunk.table.take(places)
        texts = as_one_array(table.column(text)).cast(pa.large_string())
        plan = plan_documents(reader.recipe, source)
        changing = DocumentPlan(steps=tuple(step for step in plan.steps if step.changes_text))
        cleaned = run_steps(changing, texts, table.drop_columns([text])).text if changing.steps else texts
        both = dict.fromkeys([*cleaned.to_pylist(), *texts.to_pylist()])
        found.texts += [one for one in both if one]
    bad = rows_with_columns(chunk.bad, chunk.bad_columns) if chunk.bad_columns is not None else chunk.bad
    for row in bad:
        if row.row in rows and (row.content or row.columns):
            found.rows.append(request_for_row(row.content, row.columns))
            # A row that is mended is a document with this text.
            if written := text_of_row(row_aside(row.content, row.columns), text):
                found.texts.append(written)
