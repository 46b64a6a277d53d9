"""WARC, the format of web archives, and WET, the plain text of their pages.

A document is a page of HTML or XHTML that a server sent with status 200, or a text of a WET file. All other
records are skipped and counted by kind. The number of a row is the number of its record in the file.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from zyda_flows.tasks.errors import bad_input, first_line
from zyda_flows.tasks.extraction.decoding import as_utf8
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import CompressedMembers
from zyda_flows.tasks.sources.decoders import COMPRESSIONS, compression_of
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally, utf8_fault
from zyda_flows.tasks.sources.http_bodies import decoded_body
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.message_heads import (
    Head,
    charset_of,
    content_type_of,
    is_http,
    read_head,
    read_http_head,
)
from zyda_flows.tasks.sources.outcomes import (
    BadRecord,
    Outcome,
    SkippedRecord,
    checked_outcomes,
    chunks_of_outcomes,
    first_documents,
)
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input
from zyda_flows.tasks.sources.warc_digests import wrong_digest
from zyda_flows.tasks.sources.warc_framing import FramedRecord, WarcFraming

NAME = "warc"
ENDINGS = tuple(f"{stem}{end}" for stem in (".warc", ".wet") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 1
SCHEMA = pa.schema(
    [
        ("text", pa.large_string()),
        ("url", pa.string()),
        ("date", pa.string()),
        ("content_type", pa.string()),
        ("status", pa.int16()),
        ("content_language", pa.string()),
        ("warc_id", pa.string()),
    ]
)
IGNORED_RECORDS = {"warcinfo", "request", "metadata", "revisit", "continuation"}
PAGE_RECORDS = {"response", "resource"}
PAGES = {"text/html", "application/xhtml+xml"}
MAIN_TYPES = {"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"}
FOUND, REDIRECTS = 200, range(300, 400)
STATUSES = range(100, 600)
ARC = b"filedesc://"
# The beginning of HTML without a stated type, by the MIME Sniffing Standard.
BEGINS_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*<(?:!--|"
    rb"(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)[\t\n\f\r >])",
    re.IGNORECASE,
)
PDF = b"%PDF-"


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of all WARC files, after checking the first records."""
    framing = checked_framing(stream)
    schema = checked_outcomes(stream, outcomes_of(framing), SCHEMA, text, may_be_bad=may_be_bad)
    return schema, (FilePiece(),)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read all records."""
    framing = framing_of(stream)
    yield from chunks_of_outcomes(outcomes_of(framing), SCHEMA, text, tally, selection)
    tally.rows += framing.records


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first records, up to the document number `count`."""
    return first_documents(outcomes_of(checked_framing(stream)), SCHEMA, count)


def checked_framing(stream: Input) -> WarcFraming:
    framing = framing_of(stream)
    if framing.window.begins_with(ARC):
        raise bad_input(
            stream.source, "it is an ARC file, the format before WARC; convert it to WARC", file=stream.url
        )
    return framing


def framing_of(stream: Input) -> WarcFraming:
    return WarcFraming(
        CompressedMembers(stream, compression_of(stream.url), resumes=True, has_dictionaries=True)
    )


def outcomes_of(framing: WarcFraming) -> Iterator[Outcome]:
    for framed in framing:
        outcome = faulty(framed) if framed.fault else outcome_of(framed)
        if isinstance(outcome, BadRecord):
            outcome = replace(outcome, reason=f"at byte {framed.offset:,} of the file: {outcome.reason}")
        yield outcome


def faulty(framed: FramedRecord) -> Outcome:
    """Return the outcome of a record with a fault; a long record may be skipped by its beginning."""
    if framed.is_beginning and isinstance(beginning := outcome_of(framed), SkippedRecord):
        return beginning
    return BadRecord(framed.fault, framed.content[: limits().bad_record_kept], framed.is_rest)


def outcome_of(framed: FramedRecord) -> Outcome:
    """Return the outcome of a record, or of the beginning of a long record."""
    content = framed.content
    try:
        head = read_head(content, 0, limits().warc_head, "utf-8")
        stated = [] if framed.is_beginning else head.all("warc-block-digest")
        if wrong := stated and wrong_digest(stated, memoryview(content)[head.end :]):
            return BadRecord(
                f"its content does not match its digest (WARC-Block-Digest: {wrong[:200]})", content
            )
        kind = (head.get("warc-type") or "").lower()
        if kind == "conversion":
            return plain_text(head, content)
        if kind not in PAGE_RECORDS:
            return SkippedRecord(kind if kind in IGNORED_RECORDS else "record of unknown type")
        return page(head, kind, content)
    except ValueError as error:
        return BadRecord(first_line(error), content)
    except MemoryError:
        return BadRecord("it needs more memory than is available", content)


def plain_text(head: Head, record: bytes) -> Outcome:
    """Return the outcome of a text of a WET file."""
    if media_type(head.get("content-type")) != "text/plain":
        return SkippedRecord(f"conversion to {kind_of(head.get('content-type'))}")
    content = record[head.end :]
    if fault := utf8_fault(content):
        return BadRecord(fault, content)
    language = head.get("warc-identified-content-language")
    return {**columns_of(head), "text": content, "content_type": "text/plain", "content_language": language}


def page(head: Head, kind: str, record: bytes) -> Outcome:
    """Return the outcome of a record with a response or a resource. Raises ValueError."""
    stated = head.get("content-type")
    response = http_response(head, record)
    if isinstance(response, SkippedRecord):
        return response
    if response is None and kind == "response":
        return SkippedRecord("response without HTTP")
    status, http = response or (None, None)
    stated = head.get("warc-identified-payload-type") or (content_type_of(http) if http else stated)
    if stated and media_type(stated) not in PAGES:
        return SkippedRecord(f"content of type {kind_of(stated)}")
    body = record[http.end if http else head.end :]
    content = decoded_body(body, http) if http else body
    if not stated and not BEGINS_HTML.match(content):
        return SkippedRecord(f"content of type {kind_of(stated)}")
    if content[: len(PDF)] == PDF:  # regardless of the stated type
        return SkippedRecord("content of type application")
    return {
        **columns_of(head),
        "text": as_utf8(content, charset_of(http or head)),
        "content_type": media_type(stated or "text/html"),
        "status": status,
        "content_language": http.get("content-language") if http else None,
    }


def http_response(head: Head, record: bytes) -> tuple[int, Head] | SkippedRecord | None:
    """Return the status and the head of a record's HTTP response, None if it has none. Raises ValueError.

    A response with another status than 200 is skipped.
    """
    stated, has_http = head.get("content-type"), is_http(record, head.end)
    if media_type(stated) != "application/http" and (stated or not has_http):
        return None
    if not has_http:
        return SkippedRecord("status unknown")
    status, http = read_http_head(record, head.end, limits().http_head)
    if status == FOUND:
        return status, http
    if status in REDIRECTS:
        return SkippedRecord("redirect")
    return SkippedRecord(f"status {status if status in STATUSES else 'unknown'}")


def columns_of(head: Head) -> dict[str, str | None]:
    """Return the columns from the head of a record of any kind."""
    return {
        "url": (head.get("warc-target-uri") or "").strip("<>") or None,
        "date": head.get("warc-date"),
        "warc_id": (head.get("warc-record-id") or "").strip("<>") or None,
    }


def media_type(value: str | None) -> str:
    """Return a media type without its parameters, in lower case."""
    return (value or "").partition(";")[0].strip().lower()


def kind_of(value: str | None) -> str:
    """Return the top-level type of a media type, if it is registered."""
    kind = media_type(value).partition("/")[0]
    return kind if kind in MAIN_TYPES else "of unknown type"
