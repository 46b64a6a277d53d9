"""The lines in a stream of bytes, decompressed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import DAMAGED_MEMBER, chunks_of, compression_of
from zyda_flows.tasks.storage.stores import Stream

UNREADABLE: tuple[type[Exception], ...] = (OSError, *DAMAGED_MEMBER)  # from bytes to lines
DAMAGED: tuple[type[Exception], ...] = (
    *UNREADABLE,
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    ValueError,
)
SPLIT_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class LongLine:
    """A line that is too long to be held: its first bytes."""

    start: bytes


class ByteLines:
    """The lines of a stream, without their ends, up to where it is damaged; then it raises.

    `ends` counts the ends of lines as they pass, apart from the lines that are given out; `is_open` is
    true where the last line has no end.
    """

    def __init__(self, stream: Stream, longest: int | None = None) -> None:
        self.stream, self.longest = stream, limits().line_bytes if longest is None else longest
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
            if held > self.longest:
                parts = [b"".join(parts)[: limits().bad_row_bytes]]
            if following:
                yield self.whole_line(parts, held)
                yield from following[:-1]
                parts, held = [following[-1]], len(following[-1])
        if held:
            self.is_open = True
            yield self.whole_line(parts, held)

    def whole_line(self, parts: list[bytes], held: int) -> bytes | LongLine:
        if held > self.longest:
            return LongLine(b"".join(parts)[: limits().bad_row_bytes])
        return parts[0] if len(parts) == 1 else b"".join(parts)


def slices_of(chunks: Iterable[bytes], size: int = SPLIT_AT_ONCE) -> Iterator[bytes]:
    """Cut what came out of a decoder at once, so that the lines of no more than that are held."""
    for chunk in chunks:
        yield from (chunk[start : start + size] for start in range(0, len(chunk), size))
