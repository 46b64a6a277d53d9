"""Decode the bodies of HTTP responses as browsers do, with a limit for the decoded size of each coding.

Crawlers often store a decoded body under a head that still names its codings. A coding that the body does not have
is skipped if the body is plain text. A truncated body is decoded up to its end. A damaged body raises BadBody.
Sources: RFC 9110, section 8.4; RFC 9112, section 7; RFC 8878.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator

import brotli
import zstandard
from isal import isal_zlib

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.decoders import GzipError
from zyda_flows.tasks.sources.message_heads import Head

GZIP = b"\x1f\x8b"
GZIP_MEMBER = b"\x1f\x8b\x08"
# Bytes that a decoder is given, and bytes that it returns, at a time.
INPUT_BYTES = 1 << 16
OUTPUT_BYTES = 1 << 20
WINDOW = 1 << 23  # bytes: the largest window of a body in Zstandard (RFC 9659)
LAST = 64  # final bytes of a brotli body, which are decoded singly, because other bytes may follow its end
BLANK = b"\r\n\t \0"  # bytes that often follow the end
MOST_BLANK = 1 << 12
PLAIN_WITHIN = 1 << 10
CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff")
CHUNK = re.compile(rb"[ \t]*([0-9a-fA-F]{1,16})[ \t]*(?:;[^\n]{0,8192})?\r?\n")
NO_CODING = {"identity", "none", "chunked"}


class BadBody(ValueError):
    """The reason why a body cannot be decoded."""


def decoded_body(body: bytes, head: Head) -> bytes:
    """Return a body without its transfer and content codings. Raises BadBody."""
    transfer = head.listed("transfer-encoding")
    if "chunked" in transfer:
        body = without_chunks(body)
    named = (*head.listed("content-encoding"), *transfer)
    codings = [coding for coding in named if coding not in NO_CODING]
    most = limits().http_codings
    for count, coding in enumerate(reversed(codings)):
        if count >= most:
            raise BadBody(f"its body has {len(codings)} codings, expected at most {most}")
        body = without_coding(body, coding)
    return without_more_gzip(body, most)


def without_more_gzip(body: bytes, most: int) -> bytes:
    """Decompress a body that is compressed more often than its head states. Raises BadBody."""
    count = 0
    while body.startswith(GZIP_MEMBER):
        if count == most:
            raise BadBody(f"its body is compressed more than {most} times")
        body, count = bounded(gunzipped(body), "gzip"), count + 1
    return body


def without_chunks(body: bytes) -> bytes:
    """Return a body without its chunked coding; a body without chunks is unchanged. Raises BadBody.

    Extensions and trailers are skipped. The final chunk may be missing, and the chunk before it may be truncated.
    """
    parts, place, view = list[memoryview](), 0, memoryview(body)
    while place < len(body):
        chunk = CHUNK.match(body, place)
        if chunk is None and not parts:
            return body
        if chunk is None:
            if len(body) - place < 20 and b"\n" not in body[place:]:  # a truncated head of a chunk
                break
            raise BadBody(f"its body is damaged: no chunk begins at byte {place:,} of it")
        size = int(chunk[1], 16)
        if size == 0:
            break
        parts.append(view[chunk.end() : chunk.end() + size])
        place = chunk.end() + size
        place += 2 if body.startswith(b"\r\n", place) else body.startswith(b"\n", place)
    return b"".join(parts)


def without_coding(body: bytes, coding: str) -> bytes:
    """Return a body without a content coding; unchanged if it does not have the coding. Raises BadBody."""
    if not body:
        return body
    decode = decoder_of(body, coding)
    if decode is None:
        if is_plain(body):
            return body
        known = "gzip, deflate, br, zstd"
        raise BadBody(
            f"its body is not encoded as its head states ({coding[:40]!r}), or not in one of {known}"
        )
    try:
        return bounded(decode(body), coding)
    except BadBody:
        if is_plain(body):
            return body
        raise


def decoder_of(body: bytes, coding: str) -> Callable[[bytes], Iterator[bytes]] | None:
    """Return the decoder of a coding. The first bytes decide between gzip and zlib, regardless of the head."""
    if coding in {"gzip", "x-gzip", "deflate"}:
        if body.startswith(GZIP):
            return gunzipped
        if has_zlib_head(body):
            return inflated_zlib
        return inflated_raw if coding == "deflate" else None
    return {"br": unbrotlied, "zstd": unzstded}.get(coding)


def has_zlib_head(body: bytes) -> bool:
    return body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0


def is_plain(body: bytes) -> bool:
    """Return whether a body seems to be text: compressed data has control characters near its start."""
    return body.startswith(BYTE_ORDER_MARKS) or not CONTROLS.search(body, 0, PLAIN_WITHIN)


def bounded(parts: Iterable[bytes], coding: str) -> bytes:
    """Join decoded parts up to a truncation. Raises BadBody if they are damaged, too large or empty."""
    decoded, size, most = list[bytes](), 0, limits().http_body
    try:
        for part in parts:
            size += len(part)
            if size > most:
                raise BadBody(f"it has more than {most:,} bytes when it is decoded")
            decoded.append(part)
    except EOFError as error:
        if not size:
            raise BadBody(f"its body ends before any of it can be decoded (coding {coding})") from error
    except (GzipError, zstandard.ZstdError, brotli.error) as error:
        raise BadBody(f"its body is damaged (coding {coding}): {error}") from error
    except MemoryError as error:
        raise BadBody(f"its body needs more memory than is available (coding {coding})") from error
    return b"".join(decoded)


def gunzipped(body: bytes) -> Iterator[bytes]:
    """Yield the content of all gzip members; bytes after them are skipped. Raises GzipError, EOFError."""
    end = yield from inflated(body, 0, 31)
    while body.startswith(GZIP_MEMBER, end):
        end = yield from inflated(body, end, 31)


def inflated_zlib(body: bytes) -> Iterator[bytes]:
    yield from inflated(body, 0, 15)


def inflated_raw(body: bytes) -> Iterator[bytes]:
    yield from inflated(body, 0, -15)


def inflated(body: bytes, start: int, wbits: int) -> Generator[bytes, None, int]:
    """Yield the content of one DEFLATE stream from `start` on; return its end. Raises GzipError, EOFError."""
    engine, place, pending = isal_zlib.decompressobj(wbits=wbits), start, b""
    while not engine.eof:
        if not pending:
            pending = body[place : place + INPUT_BYTES]
            place += len(pending)
        part = engine.decompress(pending, OUTPUT_BYTES)
        if not (part or pending or engine.eof):
            raise EOFError
        pending = engine.unconsumed_tail
        yield part
    return place - len(engine.unused_data) - len(pending)


def unbrotlied(body: bytes) -> Iterator[bytes]:
    """Yield the content of a brotli body. Raises brotli.error, EOFError."""
    engine, blank = brotli.Decompressor(), min(len(body) - len(body.rstrip(BLANK)), MOST_BLANK)
    last = max(0, len(body) - LAST - blank)
    ends = [*range(INPUT_BYTES, last, INPUT_BYTES), *range(last, len(body) + 1)]
    start = 0
    for end in ends:
        yield engine.process(body[start:end], output_buffer_limit=OUTPUT_BYTES)
        while not (engine.can_accept_more_data() or engine.is_finished()):
            yield engine.process(b"", output_buffer_limit=OUTPUT_BYTES)
        if engine.is_finished():
            return
        start = end
    raise EOFError


def unzstded(body: bytes) -> Iterator[bytes]:
    """Yield the content of all Zstandard frames; other bytes may follow them. Raises ZstdError, EOFError."""
    engine, is_empty = zstandard.ZstdDecompressor(max_window_size=WINDOW), True
    # zstandard reports the bytes after a short frame before it returns the content of the frame: read it again
    # alone.
    for are_many in (True, False):
        reader = engine.stream_reader(body, read_across_frames=are_many)
        try:
            while part := reader.read(OUTPUT_BYTES):
                is_empty = False
                yield part
            break
        except zstandard.ZstdError as error:
            if "Unknown frame descriptor" not in str(error) or (is_empty and not are_many):
                raise
            if not is_empty:
                return
    if is_empty:
        first = engine.decompressobj()
        first.decompress(body)  # it has no content
        if not first.eof:
            raise EOFError
