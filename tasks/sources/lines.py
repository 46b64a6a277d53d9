"""The lines in a stream of bytes, decompressed."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import zstandard

from tasks.storage.stores import Stream

UNREADABLE = (OSError, EOFError, zlib.error, zstandard.ZstdError)  # from bytes to lines
DAMAGED = (*UNREADABLE, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError)
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
# Compressed bytes: so much is lost before a damaged place, and not a whole block. Of gzip's a thousandfold, and of
# Zstandard's thirty thousandfold may come out at once.
DECODED_AT_ONCE = {"gzip": 1 << 14, "zstd": 1 << 12}
SPLIT_AT_ONCE = 1 << 20
COMPRESSED_BLOCK = 1 << 18
DECODERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),  # the largest window, 15, and 16: with gzip's head
    "zstd": lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),  # --long=31
}
MAX_LINE = 1 << 30
MAX_CONTENT = 1 << 20  # of a bad row, so much is kept beside its reason


def compression_of(url: str) -> str | None:
    """Return how a file is compressed, by its name."""
    return next((kind for end, kind in COMPRESSIONS.items() if url.lower().endswith(end)), None)


@dataclass(frozen=True)
class LongLine:
    """A line that is too long to be held: its first bytes."""

    start: bytes


class Lines:
    """The lines of a stream, without their ends, up to where it is damaged; then it raises.

    `ends` counts the ends of lines as they pass, apart from the lines that are given out; `is_open` is
    true where the last line has no end.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.chunks = chunks_of(stream, compression_of(stream.url))
        self.ends = 0
        self.is_open = False

    def start(self) -> bytes:
        """Return some of the first bytes, without taking them away from the lines."""
        first = next((chunk for chunk in self.chunks if chunk), b"")
        self.chunks = chain([first], self.chunks)
        return first

    def __iter__(self) -> Iterator[bytes | LongLine]:
        parts, held = list[bytes](), 0
        for chunk in slices_of(self.chunks):
            self.ends += chunk.count(b"\n")
            first, *following = chunk.split(b"\n")
            parts.append(first)
            held += len(first)
            if held > MAX_LINE:
                parts = [b"".join(parts)[:MAX_CONTENT]]
            if following:
                yield whole_line(parts, held)
                yield from following[:-1]
                parts, held = [following[-1]], len(following[-1])
        if held:
            self.is_open = True
            yield whole_line(parts, held)


def slices_of(chunks: Iterable[bytes], size: int = SPLIT_AT_ONCE) -> Iterator[bytes]:
    """Cut what came out of a decoder at once, so that the lines of no more than that are held."""
    for chunk in chunks:
        yield from (chunk[start : start + size] for start in range(0, len(chunk), size))


def whole_line(parts: list[bytes], held: int) -> bytes | LongLine:
    if held > MAX_LINE:
        return LongLine(b"".join(parts)[:MAX_CONTENT])
    return parts[0] if len(parts) == 1 else b"".join(parts)


def chunks_of(stream: Stream, compression: str | None) -> Iterator[bytes]:
    """Yield what a stream holds, decompressed. Raises EOFError where its last frame is cut off.

    Zeros after the last frame are padding, as gzip itself takes them.
    """
    decoder = None
    is_padding, is_empty = False, compression is not None
    at_once = DECODED_AT_ONCE.get(compression or "", 0)
    while block := stream.read(COMPRESSED_BLOCK):
        is_empty = False
        if compression is None:
            yield block
            continue
        while block:  # a file may hold several frames, one after another
            if decoder is None and (is_padding or block[:1] == b"\0"):
                is_padding = True
                expect_padding(block, compression)
                break
            decoder = decoder or DECODERS[compression]()
            yield decoder.decompress(block[:at_once])
            block = (decoder.unused_data if decoder.eof else b"") + block[at_once:]
            decoder = None if decoder.eof else decoder
    if is_empty:
        raise EOFError(f"it has no bytes, where {compression} data has at least a head")
    if decoder is not None:
        raise EOFError(f"it ends in the middle of its {compression} data")


def expect_padding(block: bytes, compression: str) -> None:
    if block.strip(b"\0"):
        raise EOFError(f"something that is not {compression} data follows its {compression} data")
