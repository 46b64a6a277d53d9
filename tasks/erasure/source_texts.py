"""Read documents and rows in their sources that have no stored text: documents removed by a rule, rows set aside.

Their texts and contents are needed to match them again after their files change, or a rule is relaxed.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from zyda_flows.tasks.documents.deny_list import Request
from zyda_flows.tasks.documents.deny_rows import parse_row_aside, request_for_row, text_of_row
from zyda_flows.tasks.documents.planning import DocumentPlan, plan_documents
from zyda_flows.tasks.documents.run_steps import run_steps
from zyda_flows.tasks.errors import ZydaError, first_line
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.ingest.set_aside import rows_with_columns
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.file_rows import Chunk
from zyda_flows.tasks.sources.reading import read

FILES_AT_ONCE = 4


@dataclass
class SourceTexts:
    """Texts of documents from their sources.

    rows: entries that match rows set aside. notes: failures of reading.
    """

    texts: list[str] = field(default_factory=list)
    rows: list[Request] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_source_texts(
    recipe: Recipe, doc_ids: Collection[int], skipped: Collection[int], spread: Callable[..., list[Any]]
) -> SourceTexts:
    """Read documents and rows in their sources: the text of the source, and the text that the steps make of it.

    skipped: documents that are not read, which a note counts. spread: calls a function on every item.
    """
    texts, by_file = SourceTexts(), dict[tuple[int, int], set[int]]()
    if skipped:
        texts.notes.append(
            f"{len(skipped):,} documents that a rule removed are too many to search for copies of them"
        )
    for doc_id in doc_ids:
        by_file.setdefault(split(doc_id)[:2], set()).add(doc_id)
    files = [*by_file.values()]
    batches = [files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE)]
    for part in spread(partial(texts_of_files, recipe), batches):
        texts.texts += part.texts
        texts.rows += part.rows
        texts.notes += part.notes
    return texts


def texts_of_files(recipe: Recipe, files: Sequence[Collection[int]]) -> SourceTexts:
    """Read documents and rows of some files of sources. files: the ids of the documents of each file."""
    texts, reader = SourceTexts(), DocumentReader.of(recipe)
    for ids in files:
        source, file, _ = reader.file_of(min(ids))
        rows = {split(doc_id)[2] for doc_id in ids}
        try:
            for chunk in chunks_with(reader, min(ids), rows):
                add_documents(texts, reader, source, chunk, rows)
                add_bad_rows(texts, reader.recipe.source(source).text, chunk, rows)
        except ZydaError as error:
            texts.notes.append(
                f"source {source}, file {file.url}: {len(rows):,} of its rows can be matched by their ids alone: "
                f"{first_line(error)}"
            )
    return texts


def chunks_with(reader: DocumentReader, doc_id: int, rows: set[int]) -> Iterator[Chunk]:
    """Yield the chunks of the file of a document until all of `rows` have been read."""
    source, file, _ = reader.file_of(doc_id)
    file, unread = reader.located(source, file), set(rows)
    for piece in file.pieces:
        end = math.inf if piece.rows is None else piece.first_row + piece.rows
        if not any(piece.first_row <= row < end for row in unread):
            continue
        for chunk in read(source, file, piece, reader.source_of(doc_id).text):
            yield chunk
            unread -= {*chunk.rows.tolist(), *(row.row for row in chunk.bad)}
            if not unread:
                return


def add_documents(
    texts: SourceTexts, reader: DocumentReader, source: str, chunk: Chunk, rows: set[int]
) -> None:
    """Add the texts of the documents of a chunk in some rows, as they are read and as the steps change them."""
    column = reader.recipe.source(source).text
    places = [place for place, row in enumerate(chunk.rows.tolist()) if row in rows]
    if not places:
        return
    table = chunk.table.take(places)
    read_texts = as_one_array(table.column(column)).cast(pa.large_string())
    plan = plan_documents(reader.recipe, source)
    changing = DocumentPlan(steps=tuple(step for step in plan.steps if step.changes_text))
    cleaned = (
        run_steps(changing, read_texts, table.drop_columns([column])).text if changing.steps else read_texts
    )
    texts.texts += [text for text in dict.fromkeys([*cleaned.to_pylist(), *read_texts.to_pylist()]) if text]


def add_bad_rows(texts: SourceTexts, column: str, chunk: Chunk, rows: set[int]) -> None:
    """Add the entries that match the bad rows of a chunk. column: of the text."""
    bad = rows_with_columns(chunk.bad, chunk.bad_columns) if chunk.bad_columns is not None else chunk.bad
    for row in bad:
        if row.row in rows and (row.content or row.columns):
            texts.rows.append(request_for_row(row.content, row.columns))
            # If the row is repaired in the source, it becomes a document with this text.
            if text := text_of_row(parse_row_aside(row.content, row.columns), column):
                texts.texts.append(text)
