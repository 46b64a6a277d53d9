"""WARC: what crawlers keep of the web, and WET, the plain text of that.

A document is a page that a server sent with status 200, in HTML or XHTML, or a text of a WET file. All other
records are no documents, and are counted by what they are. The number of a row is that of its record in the
file.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import pyarrow as pa
from fastwarc.warc import WarcRecord, WarcRecordType

from tasks.errors import bad_input, first_line
from tasks.extraction.decoding import as_utf8
from tasks.sources.compression import COMPRESSIONS, Members, compression_of
from tasks.sources.listing import Piece
from tasks.sources.outcomes import Bad, Outcome, Skip, checked_outcomes, chunks_of_outcomes
from tasks.sources.rows import Chunk, Tally, utf8_fault
from tasks.sources.selection import ALL, Selection
from tasks.sources.streams import Input
from tasks.sources.warc_framing import KEPT_CONTENT, MAX_RECORD, Framed, Framing

NAME = "warc"
ENDINGS = tuple(f"{stem}{end}" for stem in (".warc", ".wet") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 2
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
OTHERS = {"warcinfo", "request", "metadata", "revisit", "continuation"}
PAGES = {"text/html", "application/xhtml+xml"}
MAIN_TYPES = {"application", "audio", "font", "image", "message", "model", "multipart", "text", "video"}
FOUND, REDIRECTS = 200, range(300, 400)
STATUSES = range(100, 600)
ENCODINGS = ("Content-Encoding", "Transfer-Encoding")
MAX_HTTP_HEAD = 1 << 16
ARC = b"filedesc://"
PDF = b"%PDF-"


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[Piece, ...]]:
    """Return the columns that all WARC files have, after a look at the first records."""
    framing = framing_of(stream)
    if framing.begins_with(ARC):
        raise bad_input(stream.source, "it is an ARC file, the form before WARC; convert it", file=stream.url)
    schema = checked_outcomes(stream, outcomes_of(framing), SCHEMA, text, may_be_bad=may_be_bad)
    return schema, (Piece(),)


def read(stream: Input, piece: Piece, text: str, tally: Tally, selection: Selection = ALL) -> Iterator[Chunk]:
    """Read all records."""
    framing = framing_of(stream)
    yield from chunks_of_outcomes(outcomes_of(framing), SCHEMA, text, tally, selection)
    tally.rows += framing.records


def framing_of(stream: Input) -> Framing:
    return Framing(Members(stream, compression_of(stream.url), resumes=True, has_dictionaries=True))


def outcomes_of(framing: Framing) -> Iterator[Outcome]:
    for framed in framing:
        outcome = faulty(framed) if framed.fault else outcome_of(framed)
        if isinstance(outcome, Bad):
            outcome = replace(outcome, reason=f"at byte {framed.offset:,} of the file: {outcome.reason}")
        yield outcome


def faulty(framed: Framed) -> Outcome:
    """Say what a record is that cannot be read: one that is too long may be no document by its beginning."""
    if framed.is_beginning and isinstance(beginning := outcome_of(framed), Skip):
        return beginning
    return Bad(framed.fault, framed.content[:KEPT_CONTENT], framed.is_rest)


def outcome_of(framed: Framed) -> Outcome:
    """Say what a record is, by its beginning if there is no more of it."""
    try:
        record = WarcRecord.from_bytes(framed.content)
        has_digest = not framed.is_beginning and record.headers.get("WARC-Block-Digest")
        if has_digest and not record.verify_block_digest():
            return Bad("its content is not what its digest (WARC-Block-Digest) says", framed.content)
        if record.record_type == WarcRecordType.conversion:
            return plain_text(record, framed)
        if record.record_type not in (WarcRecordType.response, WarcRecordType.resource):
            kind = str(record.headers.get("WARC-Type")).lower()
            return Skip(kind if kind in OTHERS else "record of unknown type")
        return page(record, framed)
    except (OSError, ValueError) as error:
        return Bad(first_line(error), framed.content)


def plain_text(record: WarcRecord, framed: Framed) -> Outcome:
    """Return a text of a WET file."""
    if media_type(record.headers.get("Content-Type")) != "text/plain":
        return Skip(f"conversion to {kind_of(record.headers.get('Content-Type'))}")
    content = record.reader.read()
    if fault := utf8_fault(content):
        return Bad(fault, content)
    columns = columns_of(record)
    language = record.headers.get("WARC-Identified-Content-Language")
    return {**columns, "text": content.decode(), "content_type": "text/plain", "content_language": language}


def page(record: WarcRecord, framed: Framed) -> Outcome:
    """Return a web page, or what else a server sent."""
    status, charset = None, None
    if record.is_http:
        record.parse_http(auto_decode="none", max_header_len=MAX_HTTP_HEAD, quirks_mode=True)
        status, charset = record.http_headers.status_code, record.http_charset
        if status != FOUND:
            return Skip(
                "redirect" if status in REDIRECTS else f"status {status if status in STATUSES else 'unknown'}"
            )
        content_type = record.http_headers.get("Content-Type")
    elif record.record_type == WarcRecordType.response:
        return Skip("response without HTTP")
    else:
        content_type = record.headers.get("Content-Type")
    known = record.headers.get("WARC-Identified-Payload-Type") or content_type
    if media_type(known) not in PAGES:
        return Skip(f"content of type {kind_of(known)}")
    is_encoded = record.is_http and any(name in record.http_headers for name in ENCODINGS)
    # The reader takes, and clears, as much memory as it is asked for.
    content = body_of(framed) if is_encoded else record.reader.read(len(framed.content))
    if content[: len(PDF)] == PDF:  # whatever the server called it
        return Skip("content of type application")
    if len(content) > MAX_RECORD:
        return Bad(f"it has more than {MAX_RECORD:,} bytes when it is decoded", framed.content)
    language = record.http_headers.get("Content-Language") if record.is_http else None
    return {
        **columns_of(record), "text": as_utf8(content, charset), "content_type": media_type(known),
        "status": status, "content_language": language,
    }  # fmt: skip


def body_of(framed: Framed) -> bytes:
    """Return what a server sent, decoded. Raises OSError.

    Some crawlers keep it decoded, below a head that says how it was encoded.
    """
    try:
        return body_as_said(framed, "all")
    except OSError as error:
        content = body_as_said(framed, "transfer")
        if not content.lstrip().startswith(b"<"):
            raise OSError(f"its body is not encoded as its head says: {first_line(error)}") from error
        return content


def body_as_said(framed: Framed, decode: Literal["all", "transfer"]) -> bytes:
    record = WarcRecord.from_bytes(framed.content)
    if record.is_http:
        record.parse_http(auto_decode=decode, max_header_len=MAX_HTTP_HEAD, quirks_mode=True)
    return bytes(record.reader.read(MAX_RECORD + 1))


def columns_of(record: WarcRecord) -> dict[str, str | None]:
    """Return what the head of a record says, whatever its kind."""
    headers = record.headers
    return {
        "url": (headers.get("WARC-Target-URI") or "").strip("<>") or None,
        "date": headers.get("WARC-Date"),
        "warc_id": (headers.get("WARC-Record-ID") or "").strip("<>") or None,
    }


def media_type(said: str | None) -> str:
    """Return a media type without its parameters, in small letters."""
    return (said or "").partition(";")[0].strip().lower()


def kind_of(said: str | None) -> str:
    """Return the first part of a media type, where that is one of those that there are."""
    kind = media_type(said).partition("/")[0]
    return kind if kind in MAIN_TYPES else "of unknown type"
