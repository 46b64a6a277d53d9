"""A window over the decompressed bytes of a WARC file, with the members that begin in it.

The window moves forward as records are read. It finds positions where a record seems to begin, and can return to
such a position once.
"""

import re
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.sources.compression import Block, BrokenMember, CompressedMembers

MARK = b"WARC/"
NEXT = re.compile(rb"\nWARC/[01]\.")
OVERLAP = 8  # bytes of NEXT that may be at the end of the searched bytes


class MemberPosition(NamedTuple):
    """A decompressed position. member: the position where its member begins. offset: of the member in the file."""

    place: int
    member: int
    offset: int


class DataCut(Exception):
    """The data end or are damaged here."""


class WarcWindow:
    """Decompressed bytes of a file.

    held: the bytes of the window; the first has the position `place`. starts: the members that begin in the
    window, as pairs of the position of the first byte and the offset in the file. marks: the positions of members
    that begin like a record. broken: the member at which the data are damaged.
    """

    def __init__(self, members: CompressedMembers) -> None:
        self.members, self.blocks = members, iter(members)
        self.is_compressed = bool(members.kind)
        self.begin_at(0)

    def begin_at(self, place: int) -> None:
        """Empty the window, and set its position."""
        self.held, self.place = bytearray(), place
        self.starts, self.marks, self.unjudged = deque[tuple[int, int]](), deque[int](), deque[int]()
        self.broken: BrokenMember | None = None

    def begins_with(self, mark: bytes) -> bool:
        """Return whether the file begins with some bytes."""
        with suppress(DataCut):
            self.fill(len(mark))
        return self.held.startswith(mark)

    def fill(self, size: int) -> bool:
        """Hold at least `size` bytes; return False if the file ends before. Raises DataCut."""
        while len(self.held) < size:
            if self.broken is not None:
                raise DataCut(f"the data are damaged: {first_line(self.broken.error)}")
            block = next(self.blocks, None)
            if block is None:
                return False
            if isinstance(block, BrokenMember):
                self.broken = block
            else:
                self.take(block)
        return True

    def has_more(self) -> bool:
        """Hold more bytes; return False at the end of the file or at damaged data."""
        with suppress(DataCut):
            return self.fill(len(self.held) + 1)
        return False

    def take(self, block: Block) -> None:
        end = self.place + len(self.held)
        if block.begins:
            self.starts.append((end, block.offset))
            self.unjudged.append(end)
        self.held += block.content
        end += len(block.content)
        while self.unjudged and self.unjudged[0] + len(MARK) <= end:
            start = self.unjudged.popleft()
            if start >= self.place and self.held.startswith(MARK, start - self.place):
                self.marks.append(start)

    def drop(self, size: int) -> None:
        """Release the first bytes of the window."""
        del self.held[:size]
        self.place += size
        while len(self.starts) > 1 and self.starts[1][0] <= self.place:
            self.starts.popleft()
        while self.marks and self.marks[0] < self.place:
            self.marks.popleft()

    def offset_here(self) -> int:
        """Return the offset in the file of the first byte held, or of its compressed member."""
        if self.broken is not None and not self.held:
            return self.broken.offset
        if not self.is_compressed:
            return self.place
        return self.starts[0][1] if self.starts else 0

    def next_record(self, searched: int) -> int | None:
        """Return the index in the window at which a record seems to begin, from `searched` on."""
        places = (self.next_line(searched), self.next_mark(searched))
        return min((place for place in places if place is not None), default=None)

    def next_line(self, searched: int) -> int | None:
        """Return the index in the window of a line that begins like a record, from `searched` on."""
        line = NEXT.search(self.held, max(0, searched - 1))
        return line.start() + 1 if line else None

    def next_mark(self, searched: int) -> int | None:
        """Return the index in the window of a member that begins like a record, from `searched` on."""
        places = (mark - self.place for mark in self.marks)
        return next((place for place in places if place >= searched), None)

    def known_place(self, place: int) -> MemberPosition:
        """Return the position of an index in the window, to which `go_back` can return."""
        place += self.place
        if not self.is_compressed:
            return MemberPosition(place, place, place)
        begun = [start for start in self.starts if start[0] <= place]
        return MemberPosition(place, *begun[-1])

    def go_back(self, to: MemberPosition) -> bool:
        """Return to a position; return False if the file cannot be read again from there."""
        try:
            members = self.members.again_from(to.offset)
        except (OSError, ValueError):  # a server that sends files only from start to end
            return False
        self.members, self.blocks = members, iter(members)
        self.begin_at(to.member)
        with suppress(DataCut):
            while self.place < to.place and self.fill(1):
                self.drop(min(len(self.held), to.place - self.place))
        return True

    def go_to_next_member(self) -> bool:
        """Move to the next member that begins like a record, or is damaged too; return False if there is none.

        A damaged member that does not begin like a record belongs to the member before it: a compressed body.
        """
        self.begin_at(self.place + len(self.held))
        skipped = -1
        for block in self.blocks:
            if isinstance(block, Block):
                if block.begins and block.content.startswith(MARK):
                    self.take(block)
                    return True
                skipped = block.offset
            elif block.offset != skipped:
                self.broken = block
                return True
        return False
