"""The lines of a stream, decompressed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import chunks_of
from zyda_flows.tasks.sources.decoders import DAMAGED_MEMBER, compression_of
from zyda_flows.tasks.storage.stores import Stream

UNREADABLE: tuple[type[Exception], ...] = (OSError, *DAMAGED_MEMBER)  # between bytes and lines
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
    """The first bytes of a line that is too long to be held."""

    start: bytes


class ByteLines:
    """The lines of a stream, without their ends. Iteration raises an error of UNREADABLE at a damaged position.

    ends: the number of line ends, counted independently of the yielded lines. is_open: whether the last line lacks
    an end.
    """

    def __init__(self, stream: Stream, longest: int | None = None) -> None:
        self.stream, self.longest = stream, limits().line_bytes if longest is None else longest
        self.chunks = chunks_of(stream, compression_of(stream.url))
        self.ends = 0
        self.is_open = False

    def start(self) -> bytes:
        """Return some of the first bytes; the lines still contain them."""
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
    """Cut chunks into slices of at most `size` bytes, so that only the lines of one slice are held."""
    for chunk in chunks:
        yield from (chunk[start : start + size] for start in range(0, len(chunk), size))
