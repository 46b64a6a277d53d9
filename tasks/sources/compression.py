"""Decompress a stream member by member, so that the members after a damaged member can still be read.

A file of gzip, Zstandard, LZ4 or bzip2 has one or more members: web archives have a member for each
record.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import zstandard

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources import zstd_dictionaries
from zyda_flows.tasks.sources.decoders import DAMAGED_MEMBER, MARKS, Decoder, DecompressedTooLarge
from zyda_flows.tasks.sources.zstd_dictionaries import BadDictionary, dictionary_of, frame_size
from zyda_flows.tasks.storage.stores import Stream

BLOCK = 1 << 18
# The most compressed bytes that a decoder is given at a time, and so the most that are lost before a damaged byte.
# gzip may expand them a thousandfold and Zstandard thirty thousandfold; the other decoders return what is
# requested.
INPUT_BYTES = {"gzip": 1 << 14, "zstd": 1 << 12, "lz4": 1 << 14, "bzip2": 1 << 12}
FIRST_INPUT_BYTES = (
    1 << 10
)  # the first input of a decoder; doubled each time, because a decoder may fail early
REDECODED = 4  # how many times the bytes read so far may be decoded again to find members in damaged data
KEPT_BYTES = 1 << 24  # decompressed input that is kept, to search it for members if its member proves damaged
LONGEST_MARK = 4
NOT_ZERO = re.compile(rb"[^\0]")


@dataclass(frozen=True)
class Block:
    """Decompressed bytes of a member. offset: of the member in the file. begins: whether they are its first."""

    content: bytes
    offset: int
    begins: bool


@dataclass(frozen=True)
class BrokenMember:
    """A member that cannot be read further. offset: of its first byte, in the file."""

    error: Exception
    offset: int


class CompressedMembers:
    """The members of a stream; iteration yields their blocks, and a BrokenMember for each damaged member.

    compression: without one, the stream is a single member. resumes: continue after a damaged member, where the
    next member begins. has_dictionaries: a Zstandard frame with a dictionary applies to the frames after it, up to
    the next one. Zeros after the last member are padding, as in gzip.
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
        self.held = bytearray()  # from the first byte of a member, or from the first byte of it that is kept
        self.offset = 0  # of `held`, in the file
        self.place = 0  # of the first byte in `held` that no decoder was given
        self.furthest = 0  # the last byte in the file that a decoder was given
        self.again = 0  # bytes of damaged members that were decoded

    def again_from(self, offset: int) -> "CompressedMembers":
        """Return the members from an offset on. Raises OSError or ValueError if the stream cannot seek back."""
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
                fault = f"it decompresses to more than {growth:,} times its size"
                yield BrokenMember(DecompressedTooLarge(fault), block.offset)
                return

    def blocks(self) -> Iterator[Block | BrokenMember]:
        if not self.more():
            yield BrokenMember(EOFError(f"it has no bytes, where {self.kind} data has at least a head"), 0)
            return
        while len(self.held) > self.place or self.more():
            self.drop(self.place)
            start = self.offset
            error: Exception | None
            if self.held[0] == 0:
                if not self.skip_zeros():
                    return
                error = EOFError(f"zeros and something else follow its {self.kind} data")
                is_at_next = True
            else:
                error = yield from self.next_member(start)
                is_at_next = isinstance(error, BadDictionary)
            if error is None:
                continue
            yield BrokenMember(error, start)
            if not self.resumes or not (is_at_next or self.find_next(start)):
                return

    def next_member(self, start: int) -> Generator[Block, None, Exception | None]:
        """Yield the blocks of the member at `start`, or read a dictionary there; return the error, if any."""
        try:
            if not self.pass_dictionary():
                yield from self.member(start)
        except DAMAGED_MEMBER as error:
            return error
        return None

    def more(self) -> bool:
        """Read a block; return whether the stream had more."""
        block = self.stream.read(BLOCK)
        self.held += block
        return bool(block)

    def drop(self, size: int) -> None:
        """Release the first bytes held."""
        del self.held[:size]
        self.offset += size
        self.place -= size

    def pass_dictionary(self) -> bool:
        """Read and skip the dictionary that begins here, if any. Raises BadDictionary after that."""
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
        """Hold at least `size` bytes; return False if the stream ends before."""
        while len(self.held) < size and self.more():
            pass
        return len(self.held) >= size

    def skip(self, size: int) -> bool:
        """Skip bytes without holding all of them; return False if the stream ends before."""
        while len(self.held) < size:
            size -= len(self.held)
            self.place = len(self.held)
            self.drop(self.place)
            if not self.more():
                return False
        self.place = size
        return True

    def member(self, start: int) -> Iterator[Block]:
        """Decompress one member. Raises an error of DAMAGED_MEMBER."""
        decoder, begins, input_bytes = Decoder(self.kind, self.dictionary), True, FIRST_INPUT_BYTES
        while not decoder.end:
            if len(self.held) == self.place and not self.more():
                raise EOFError(f"it ends in the middle of its {self.kind} data")
            part = bytes(self.held[self.place : self.place + input_bytes])
            self.place += len(part)
            input_bytes = min(2 * input_bytes, INPUT_BYTES[self.kind])
            for content in filter(None, decoder.feed(part)):
                yield Block(content, start, begins)
                begins = False
            if self.place > (KEPT_BYTES if self.resumes else BLOCK):
                self.drop(self.place - KEPT_BYTES // 2 if self.resumes else self.place)
        self.place -= decoder.left

    def skip_zeros(self) -> bool:
        """Skip zeros; return False if only zeros follow."""
        while (nonzero := NOT_ZERO.search(self.held)) is None:
            self.place = len(self.held)
            self.drop(self.place)
            if not self.more():
                return False
        self.place = nonzero.start()
        return True

    def find_next(self, start: int) -> bool:
        """Move to the next position after `start` where a member seems to begin; return False if there is none.

        The member may begin in bytes that the decoder of the damaged member was given. If these have been decoded
        too often already, the search begins after them.
        """
        end = self.offset + self.place
        self.furthest, self.again = max(self.furthest, end), self.again + end - start
        if self.again <= REDECODED * self.furthest + KEPT_BYTES:
            self.place = 1 if self.offset == start else 0
        while (mark := self.marks.search(self.held, self.place)) is None:
            self.place = max(self.place, len(self.held) - LONGEST_MARK + 1)
            self.drop(self.place)
            if not self.more():
                return False
        self.place = mark.start()
        return True


def plain_blocks(stream: Stream) -> Iterator[Block]:
    """Yield the blocks of a stream without compression."""
    begins = True
    while block := stream.read(BLOCK):
        yield Block(block, 0, begins)
        begins = False


def chunks_of(stream: Stream, compression: str | None) -> Iterator[bytes]:
    """Yield the decompressed content of a stream. Raises an error of DAMAGED_MEMBER."""
    for block in CompressedMembers(stream, compression):
        if isinstance(block, BrokenMember):
            raise block.error
        yield block.content


def whole_content(stream: Stream, compression: str | None, most: int) -> bytes:
    """Return the decompressed content of a stream, at most `most` bytes. Raises an error of DAMAGED_MEMBER."""
    content = bytearray()
    for chunk in chunks_of(stream, compression):
        content += chunk
        if len(content) > most:
            raise DecompressedTooLarge(f"it has more than {most:,} bytes, decompressed")
    return bytes(content)
