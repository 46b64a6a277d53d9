"""A window over the decompressed bytes of a WARC file, with the members that begin in it.

It moves forward as records are read. It finds where a record seems to begin, and can go back to such a place once.
"""

import re
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.sources.compression import Block, BrokenMember, CompressedMembers

MARK = b"WARC/"
NEXT = re.compile(rb"\nWARC/[01]\.")
OVERLAP = 8  # so much of NEXT may be at the end of what was searched


class MemberPosition(NamedTuple):
    """A decompressed byte. member: the place of the first byte of its member. offset: of its member in the file."""

    place: int
    member: int
    offset: int


class DataCut(Exception):
    """The data break off here."""


class WarcWindow:
    """Decompressed bytes of a file.

    `held` are the bytes, of which the first is number `place`; `starts` are the members that begin in them, by the
    place of their first byte, with their offsets in the file; `marks` are the places of the members that begin as
    a record does; `broken` is the member at which the data break off.
    """

    def __init__(self, members: CompressedMembers) -> None:
        self.members, self.blocks = members, iter(members)
        self.is_compressed = bool(members.kind)
        self.begin_at(0)

    def begin_at(self, place: int) -> None:
        """Hold nothing, before a decompressed byte."""
        self.held, self.place = bytearray(), place
        self.starts, self.marks, self.unjudged = deque[tuple[int, int]](), deque[int](), deque[int]()
        self.broken: BrokenMember | None = None  # the member at which the data break off

    def begins_with(self, mark: bytes) -> bool:
        """Return whether these are the first bytes of the file."""
        with suppress(DataCut):
            self.fill(len(mark))
        return self.held.startswith(mark)

    def fill(self, size: int) -> bool:
        """Hold so many bytes; False where there are fewer before the end. Raises Cut."""
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
        """Hold more; False where nothing follows, or what follows is damaged."""
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
        """Hold the first bytes no longer."""
        del self.held[:size]
        self.place += size
        while len(self.starts) > 1 and self.starts[1][0] <= self.place:
            self.starts.popleft()
        while self.marks and self.marks[0] < self.place:
            self.marks.popleft()

    def offset_here(self) -> int:
        """Return where in the file the first byte that is held is, or the member with it begins."""
        if self.broken is not None and not self.held:
            return self.broken.offset
        if not self.is_compressed:
            return self.place
        return self.starts[0][1] if self.starts else 0

    def next_record(self, searched: int) -> int | None:
        """Return where in what is held a record seems to begin, behind so many bytes."""
        places = (self.next_line(searched), self.next_mark(searched))
        return min((place for place in places if place is not None), default=None)

    def next_line(self, searched: int) -> int | None:
        """Return where in what is held a line begins as a record does, behind so many bytes."""
        found = NEXT.search(self.held, max(0, searched - 1))
        return found.start() + 1 if found else None

    def next_mark(self, searched: int) -> int | None:
        """Return where in what is held a member begins as a record does, behind so many bytes."""
        places = (mark - self.place for mark in self.marks)
        return next((place for place in places if place >= searched), None)

    def known_place(self, place: int) -> MemberPosition:
        """Return where a byte is of those that are held, so that it can be gone back to."""
        place += self.place
        if not self.is_compressed:
            return MemberPosition(place, place, place)
        begun = [start for start in self.starts if start[0] <= place]
        return MemberPosition(place, *begun[-1])

    def go_back(self, to: MemberPosition) -> bool:
        """Go back to a byte; False where the file cannot be read from there again."""
        try:
            members = self.members.again_from(to.offset)
        except (OSError, ValueError):  # a server that gives its files from end to end alone
            return False
        self.members, self.blocks = members, iter(members)
        self.begin_at(to.member)
        with suppress(DataCut):
            while self.place < to.place and self.fill(1):
                self.drop(min(len(self.held), to.place - self.place))
        return True

    def go_to_next_member(self) -> bool:
        """Go to the next member that begins as a record does, or is damaged too; False where there is none.

        A damaged one that began as no record is a part of the one before: a body that was compressed, say.
        """
        self.begin_at(self.place + len(self.held))
        passed = -1
        for block in self.blocks:
            if isinstance(block, Block):
                if block.begins and block.content.startswith(MARK):
                    self.take(block)
                    return True
                passed = block.offset
            elif block.offset != passed:
                self.broken = block
                return True
        return False
