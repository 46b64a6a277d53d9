"""The repeated passages of a document, and its text with what is cut for them."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from zyda_flows.tasks.corpus.documents import rows_with
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.lookup.document_reader import DocumentPlace, DocumentReader
from zyda_flows.tasks.lookup.document_texts import rows_in_work, text_ingested
from zyda_flows.tasks.publish.differences import Segment
from zyda_flows.tasks.storage.records import Record

MOST_PASSAGES = 20
MOST_CUT = 20  # segments that are cut
SHOWN_CHARACTERS = 200  # of a passage or a segment


class RepeatedPassage(Record):
    """A repeated passage of a document.

    part, keep: the number of the part of `passages` that found it, from 1, and the part's `keep`. start, end: in
    characters of its text before the cut. owner: the document with the kept copy. documents: that have it. text:
    the first characters of the passage; "" if the text before the cut cannot be read.
    """

    part: int
    keep: str
    start: int
    end: int
    owner: DocumentPlace
    documents: int
    text: str = ""


def passages_of(reader: DocumentReader, doc_id: int) -> dict[str, Any]:
    """Return the fields of `Explanation` about the repeated passages of a document."""
    rows = rows_with(reader.corpus, reader.corpus.files("passages/"), "doc_id", [doc_id]).to_pylist()
    if not rows:
        return {}
    parts = reader.corpus.manifest.recipe["passages"]
    text = text_before_cut(reader, doc_id)
    passages = tuple(
        RepeatedPassage(
            part=row["part"],
            keep=parts[row["part"] - 1]["keep"],
            start=row["start"],
            end=row["end"],
            owner=reader.place(row["owner_id"]),
            documents=row["documents"],
            text=text[row["start"] : min(row["end"], row["start"] + SHOWN_CHARACTERS)],
        )
        for row in rows[:MOST_PASSAGES]
    )
    return {"passages": passages, "passage_count": len(rows)} | cut_fields(reader, doc_id, text)


def text_before_cut(reader: DocumentReader, doc_id: int) -> str:
    """Return the text whose characters `passages/` counts; "" if neither the work folder nor its source has it."""
    try:
        if text := text_ingested(reader, doc_id):
            return text
        is_as_read = not reader.recipe.steps_of(reader.source_of(doc_id).name)
        return reader.text(doc_id) if is_as_read else ""
    except ZydaError:
        return ""


def cut_fields(reader: DocumentReader, doc_id: int, text: str) -> dict[str, Any]:
    """Return how much is cut of a kept document, and its text with what is cut; nothing if this is unknown."""
    rows = next((rows for rows in rows_in_work(reader, "cuts", doc_id)), None)
    if rows is None or not text:
        return {}
    row = rows.to_pylist()[0]
    data = text.encode()
    places = [place for span in zip(row["cut_start"], row["cut_end"], strict=True) for place in span]
    segments = [data[begin:end].decode() for begin, end in pairwise([0, *places, len(data)])]
    return {
        "cut_characters": sum(map(len, segments[1::2])),
        "cut_text": tuple(shortened(segments[: 2 * MOST_CUT + 1])) if places else (),
    }


def shortened(segments: Sequence[str]) -> Iterator[Segment]:
    """Yield segments that are kept and cut in turn, without the middles of long ones."""
    for number, text in enumerate(segments):
        if len(text) > SHOWN_CHARACTERS:
            half = SHOWN_CHARACTERS // 2
            text = f"{text[:half]} … {len(text) - 2 * half:,} characters … {text[-half:]}"
        if text:
            yield Segment(text=text, is_same=number % 2 == 0)
