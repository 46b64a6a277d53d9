"""Compressed bytes, decompressed member by member: what follows a damaged one can still be had.

A file of gzip, Zstandard, LZ4 or bzip2 is one member, or many after one another: archives of the web have one for
each record.
"""

import bz2
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import lz4.frame
import zstandard
from isal import isal_zlib

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources import zstd_dictionaries
from zyda_flows.tasks.sources.zstd_dictionaries import BadDictionary, dictionary_of, frame_size
from zyda_flows.tasks.storage.stores import Stream

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4", ".bz2": "bzip2"}
BLOCK = 1 << 18
# Of what is compressed, so much is given to a decoder at once: so much is lost before a damaged place. Of gzip's a
# thousandfold may come out of it, and of Zstandard's thirty thousandfold; of the others what is asked for.
INPUT_BYTES = {"gzip": 1 << 14, "zstd": 1 << 12, "lz4": 1 << 14, "bzip2": 1 << 12}
FIRST_INPUT_BYTES = (
    1 << 10
)  # as much is given to a decoder first, then twice as much each time: it may fail at once
OUTPUT_BYTES = 1 << 22  # of what comes out
REDECODED = 4  # times as much as was read is decoded again, to look for members in what proves to be damaged
KEPT_BYTES = (
    1 << 24
)  # of what was decompressed already, to look there for members where one proves to be damaged
MARKS = {
    "gzip": b"\x1f\x8b\x08",
    "zstd": b"\x28\xb5\x2f\xfd",
    "lz4": b"\x04\x22\x4d\x18",
    "bzip2": b"BZh",
}
LONGEST_MARK = 4
NOT_ZERO = re.compile(rb"[^\0]")
SKIPPABLE = b"\x2a\x4d\x18"  # of Zstandard and LZ4: the second to fourth byte of a frame that holds no data


GzipError = cast(type[Exception], isal_zlib.error)  # by its stubs it is an instance


class Bzip2Error(Exception):
    """What bz2 raises as an OSError, which elsewhere is a store's."""


class Lz4Error(Exception):
    """What lz4 raises as a RuntimeError."""


class DecompressedTooLarge(Exception):
    """More was decompressed than a file of its kind holds."""


DAMAGED_MEMBER: tuple[type[Exception], ...] = (
    EOFError,
    GzipError,
    zstandard.ZstdError,
    Bzip2Error,
    Lz4Error,
    BadDictionary,
    DecompressedTooLarge,
)


class Decoder:
    """What decompresses one member. Feed it as long as it is not at its end; `left` are the bytes behind that."""

    def __init__(self, kind: str, dictionary: zstandard.ZstdCompressionDict | None = None) -> None:
        self.kind = kind
        self.engine = ENGINES[kind]() if dictionary is None else zstd_engine(dictionary)

    @property
    def end(self) -> bool:
        return bool(self.engine.eof)

    @property
    def left(self) -> int:
        """Count the bytes that were given to it and are behind its member."""
        return len(self.engine.unused_data or b"")

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Decompress, at most MOST_AT_ONCE at a time where a library has a limit. Raises one of DAMAGED_MEMBER."""
        try:
            yield from self.decompressed(content)
        except OSError as error:
            raise Bzip2Error(str(error)) from error
        except RuntimeError as error:
            raise Lz4Error(str(error)) from error
        except MemoryError as error:
            raise DecompressedTooLarge("it takes more memory than there is") from error

    def decompressed(self, content: bytes) -> Iterator[bytes]:
        if self.kind == "zstd":
            yield self.engine.decompress(content)
            return
        yield self.engine.decompress(content, OUTPUT_BYTES)
        if self.kind == "gzip":
            while self.engine.unconsumed_tail:
                yield self.engine.decompress(self.engine.unconsumed_tail, OUTPUT_BYTES)
            return
        while not (self.engine.eof or self.engine.needs_input):
            yield self.engine.decompress(b"", OUTPUT_BYTES)


def zstd_engine(dictionary: zstandard.ZstdCompressionDict | None = None) -> Any:
    return zstandard.ZstdDecompressor(dictionary, max_window_size=1 << 31).decompressobj()  # --long=31


ENGINES: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(wbits=31),  # the largest window, 15, and 16: with gzip's head
    "zstd": zstd_engine,
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "bzip2": bz2.BZ2Decompressor,
}


@dataclass(frozen=True)
class Block:
    """Some decompressed bytes of a member. offset: its own, in the file. begins: whether they are its first."""

    content: bytes
    offset: int
    begins: bool


@dataclass(frozen=True)
class BrokenMember:
    """A member that cannot be read on. offset: in the file, of its first byte."""

    error: Exception
    offset: int


class CompressedMembers:
    """The members of a stream. resumes: read on behind a damaged one, where a next one begins.

    Zeros after the last member are padding, as gzip itself takes them. Without a compression the stream is one.
    has_dictionaries: a frame of Zstandard with a dictionary is that of the frames behind it, up to another one.
    """

    def __init__(
        self,
        stream: Stream,
        compression: str | None,
        *,
        resumes: bool = False,
        has_dictionaries: bool = False,
    ) -> None:
        self.stream, self.kind, self.resumes = stream, compression or "", resumes
        self.has_dictionaries = has_dictionaries and self.kind == "zstd"
        self.dictionary: zstandard.ZstdCompressionDict | None = None
        self.dictionaries = 0
        marks = [MARKS.get(self.kind, b""), *([zstd_dictionaries.MARK] if self.has_dictionaries else [])]
        self.marks = re.compile(b"|".join(map(re.escape, marks)))
        self.held = bytearray()  # from the first byte of a member, or from as far behind it as is kept
        self.offset = 0  # of what is held, in the file
        self.place = 0  # of the first byte that no decoder was given, in what is held
        self.furthest = 0  # the last byte in the file that a decoder had
        self.again = 0  # bytes of damaged members that were decoded

    def again_from(self, offset: int) -> "CompressedMembers":
        """Return the members from one on. Raises OSError or ValueError where the stream cannot go back."""
        self.stream.seek(offset)
        members = CompressedMembers(
            self.stream, self.kind or None, resumes=self.resumes, has_dictionaries=self.has_dictionaries
        )
        members.offset, members.dictionary, members.dictionaries = offset, self.dictionary, self.dictionaries
        return members

    def __iter__(self) -> Iterator[Block | BrokenMember]:
        if not self.kind:
            yield from plain_blocks(self.stream)
            return
        size, growth, growth_from = 0, limits().growth, limits().growth_from
        for block in self.blocks():
            yield block
            size += len(block.content) if isinstance(block, Block) else 0
            if size > growth_from and size > growth * (self.offset + len(self.held)):
                yield BrokenMember(
                    DecompressedTooLarge(f"it decompresses to more than {growth:,} times its size"),
                    block.offset,
                )
                return

    def blocks(self) -> Iterator[Block | BrokenMember]:
        if not self.more():
            yield BrokenMember(EOFError(f"it has no bytes, where {self.kind} data has at least a head"), 0)
            return
        while len(self.held) > self.place or self.more():
            self.drop(self.place)
            start = self.offset
            if self.held[0] == 0:
                if not self.skip_zeros():
                    return
                what = f"zeros and something else follow its {self.kind} data"
                yield BrokenMember(EOFError(what), start)
                if not self.resumes:
                    return
                continue
            try:
                if not self.pass_dictionary():
                    yield from self.member(start)
            except DAMAGED_MEMBER as error:
                yield BrokenMember(error, start)
                if not self.resumes or not (isinstance(error, BadDictionary) or self.find_next(start)):
                    return

    def more(self) -> bool:
        """Read on, and say whether there was more."""
        block = self.stream.read(BLOCK)
        self.held += block
        return bool(block)

    def drop(self, size: int) -> None:
        """Hold the first bytes no longer."""
        del self.held[:size]
        self.offset += size
        self.place -= size

    def pass_dictionary(self) -> bool:
        """Take the dictionary that begins here, and go behind it. Raises BadDictionary, there too."""
        mark, head = zstd_dictionaries.MARK, zstd_dictionaries.HEAD
        if not (self.has_dictionaries and self.hold(len(mark)) and self.held.startswith(mark)):
            return False
        self.dictionary = None
        size = frame_size(bytes(self.held[:head])) if self.hold(head) else 0
        limit = limits().zstd_dictionary
        is_held = size <= limit and self.hold(head + size)
        content = bytes(self.held[head : head + size]) if is_held else b""
        if not self.skip(head + size):
            raise BadDictionary("it ends in the middle of its dictionary")
        if not is_held:
            raise BadDictionary(f"its dictionary has {size:,} bytes, expected at most {limit:,}")
        self.dictionaries += 1
        if self.dictionaries > limits().zstd_dictionaries:
            raise BadDictionary(f"it has more than {limits().zstd_dictionaries:,} dictionaries")
        self.dictionary = dictionary_of(content)
        return True

    def hold(self, size: int) -> bool:
        """Hold so many bytes; False where there are fewer before the end."""
        while len(self.held) < size and self.more():
            pass
        return len(self.held) >= size

    def skip(self, size: int) -> bool:
        """Go behind so many bytes without holding them all; False where there are fewer before the end."""
        while len(self.held) < size:
            size -= len(self.held)
            self.place = len(self.held)
            self.drop(self.place)
            if not self.more():
                return False
        self.place = size
        return True

    def member(self, start: int) -> Iterator[Block]:
        """Decompress one member. Raises one of DAMAGED_MEMBER."""
        decoder, begins, at_once = Decoder(self.kind, self.dictionary), True, FIRST_INPUT_BYTES
        while not decoder.end:
            if len(self.held) == self.place and not self.more():
                raise EOFError(f"it ends in the middle of its {self.kind} data")
            part = bytes(self.held[self.place : self.place + at_once])
            self.place += len(part)
            at_once = min(2 * at_once, INPUT_BYTES[self.kind])
            for content in filter(None, decoder.feed(part)):
                yield Block(content, start, begins)
                begins = False
            if self.place > (KEPT_BYTES if self.resumes else BLOCK):
                self.drop(self.place - KEPT_BYTES // 2 if self.resumes else self.place)
        self.place -= decoder.left

    def skip_zeros(self) -> bool:
        """Go behind zeros; False where nothing comes after them."""
        while (found := NOT_ZERO.search(self.held)) is None:
            self.place = len(self.held)
            self.drop(self.place)
            if not self.more():
                return False
        self.place = found.start()
        return True

    def find_next(self, start: int) -> bool:
        """Go to where another member seems to begin, behind the first byte of one. False where there is none.

        It may begin in what a decoder had of the damaged one. After too much of that it is searched behind it.
        """
        end = self.offset + self.place
        self.furthest, self.again = max(self.furthest, end), self.again + end - start
        if self.again <= REDECODED * self.furthest + KEPT_BYTES:
            self.place = 1 if self.offset == start else 0
        while (found := self.marks.search(self.held, self.place)) is None:
            self.place = max(self.place, len(self.held) - LONGEST_MARK + 1)
            self.drop(self.place)
            if not self.more():
                return False
        self.place = found.start()
        return True


def plain_blocks(stream: Stream) -> Iterator[Block]:
    begins = True
    while block := stream.read(BLOCK):
        yield Block(block, 0, begins)
        begins = False


def chunks_of(stream: Stream, compression: str | None) -> Iterator[bytes]:
    """Yield what a stream holds, decompressed. Raises one of DAMAGED_MEMBER, such as Swollen."""
    for block in CompressedMembers(stream, compression):
        if isinstance(block, BrokenMember):
            raise block.error
        yield block.content


def whole_content(stream: Stream, compression: str | None, most: int) -> bytes:
    """Return what a stream holds, decompressed: at most so many bytes. Raises one of DAMAGED_MEMBER."""
    content = bytearray()
    for chunk in chunks_of(stream, compression):
        content += chunk
        if len(content) > most:
            raise DecompressedTooLarge(f"it has more than {most:,} bytes, decompressed")
    return bytes(content)


def compression_of(url: str) -> str | None:
    """Return how a file is compressed, by its name."""
    return next((kind for end, kind in COMPRESSIONS.items() if url.lower().endswith(end)), None)


def compression_in(first: bytes) -> str | None:
    """Return how something is compressed, by its first bytes."""
    kinds = (kind for kind, mark in MARKS.items() if first.startswith(mark))
    return next(kinds, "zstd" if first[1:4] == SKIPPABLE and first[0] >> 4 == 5 else None)
