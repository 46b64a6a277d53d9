"""Where the records of a WARC file begin and end, and where the next one begins after one that is damaged.

A record's head states how long it is, and another one, or the end, has to follow. Bytes that are no record are
returned as one with its fault.
"""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from tasks.errors import first_line
from tasks.limits import limits
from tasks.sources.compression import Block, Broken, Members

# Of a head, or of what it has instead: another record.
END_OF_HEAD = re.compile(rb"\r?\n(?:\r?\n|(?=WARC/[01]\.))")
LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
LINE_ENDS = re.compile(rb"[\r\n]*")
MARK = b"WARC/"
ENDS = b"\r\n\r\n"  # of a record
NEXT = re.compile(rb"\nWARC/[01]\.")
NOT_FOLLOWED = "no record follows the {:,} bytes that it says it has"
OVERLAP = 8  # so much of NEXT may be at the end of what was searched


@dataclass(frozen=True)
class Framed:
    """A record. offset: in the file, of the compressed member that it is in, or of itself. fault: why it is none.

    is_rest: nobody can say what follows it. is_beginning: there is more of it, which was passed.
    """

    content: bytes
    offset: int
    fault: str = ""
    is_rest: bool = False
    is_beginning: bool = False


class Place(NamedTuple):
    """A decompressed byte. member: the place of the first byte of its member. offset: of its member in the file."""

    place: int
    member: int
    offset: int


class Cut(Exception):
    """The data break off here."""


class Blank(Exception):
    """Too many line ends follow one another."""


class Framing:
    """The records of a file.

    `held` are decompressed bytes, of which the first is number `place`; `starts` are the members that begin in
    them, by the place of their first byte, with their offsets in the file; `marks` are the places of the members
    that begin as a record does. is_doubting: the length of a long record was wrong, so no other is believed.
    """

    def __init__(self, members: Members) -> None:
        self.members, self.blocks = members, iter(members)
        self.is_compressed, self.is_doubting = bool(members.kind), False
        self.records = 0
        self.begin_at(0)

    def begin_at(self, place: int) -> None:
        """Hold nothing, before a decompressed byte."""
        self.held, self.place = bytearray(), place
        self.starts, self.marks, self.unjudged = deque[tuple[int, int]](), deque[int](), deque[int]()
        self.broken: Broken | None = None  # the member at which the data break off

    def begins_with(self, mark: bytes) -> bool:
        """Return whether these are the first bytes of the file."""
        with suppress(Cut):
            self.fill(len(mark))
        return self.held.startswith(mark)

    def __iter__(self) -> Iterator[Framed]:
        while True:
            try:
                if not self.skip_line_ends():
                    return
                framed = self.record()
            except Cut as cut:
                framed = self.cut(str(cut))
            except Blank as blank:
                framed = Framed(b"", self.offset_here(), str(blank), is_rest=True)
            self.records += not framed.is_rest
            yield framed
            if framed.is_rest:
                return

    def cut(self, fault: str) -> Framed:
        """Return what is here as no record, and go to the next one: of those held, or the next member."""
        content, offset = bytes(self.held[: limits().bad_record_kept]), self.offset_here()
        if place := self.next_record(1):
            self.drop(place)
            return Framed(content[:place], offset, fault)
        return Framed(content, offset, fault, is_rest=not self.go_to_next_member())

    def fill(self, size: int) -> bool:
        """Hold so many bytes; False where there are fewer before the end. Raises Cut."""
        while len(self.held) < size:
            if self.broken is not None:
                raise Cut(f"the data are damaged: {first_line(self.broken.error)}")
            block = next(self.blocks, None)
            if block is None:
                return False
            if isinstance(block, Broken):
                self.broken = block
            else:
                self.take(block)
        return True

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

    def skip_line_ends(self) -> bool:
        """Go to the next byte that is no line end; False at the end. Raises Cut, Blank."""
        skipped, most = 0, limits().warc_blank
        while self.fill(1):
            found = LINE_ENDS.match(self.held)
            ends = found.end() if found else 0
            is_at_byte = ends < len(self.held)
            self.drop(ends)
            if is_at_byte:
                return True
            skipped += ends
            if skipped > most:
                raise Blank(
                    f"more than {most:,} bytes of line ends follow one another, and the rest is not read"
                )
        return False

    def record(self) -> Framed:
        """Return the record that begins here. Raises Cut where the data break off in it."""
        self.fill(len(MARK))
        if not self.held.startswith(MARK):
            return self.no_record("no record begins here: it would begin with WARC/ and a version")
        head = self.end_of_head()
        if head is None:
            return self.no_record(f"its head has no end within {limits().warc_head:,} bytes")
        if head[0] in {b"\n", b"\r\n"}:
            return self.no_record("another record begins in its head")
        length = LENGTH.search(self.held, 0, head.end())
        if length is None:
            return self.no_record("its head says no Content-Length")
        if int(length[1]) > limits().warc_record:
            return self.too_long(head.end(), int(length[1]))
        return self.whole(head.end(), int(length[1]))

    def end_of_head(self) -> re.Match[bytes] | None:
        """Return the end of the head that begins here, if it has one before another record begins. Raises Cut."""
        searched = 0
        while True:
            most, mark = limits().warc_head, self.next_mark(1)
            found = END_OF_HEAD.search(self.held, searched, min(most, mark or most))
            if found or mark or len(self.held) >= most:
                return found
            searched = max(0, len(self.held) - OVERLAP)
            if not self.fill(len(self.held) + 1):
                return None

    def whole(self, start: int, length: int) -> Framed:
        """Return the record whose block of so many bytes starts at a byte of what is held. Raises Cut."""
        size, offset = start + length, self.offset_here()
        if not self.fill(size):
            raise Cut(f"the file ends {size - len(self.held):,} bytes before the record does")
        is_followed = self.is_followed(size)
        if self.broken is not None and self.broken.offset == offset:
            raise Cut(f"the data are damaged: {first_line(self.broken.error)}")
        if not is_followed:
            return self.no_record(NOT_FOLLOWED.format(length))
        with memoryview(self.held) as held:  # a slice of what is held would be another copy
            record = bytes(held[:size])
        self.drop(size)
        return Framed(record, offset)

    def too_long(self, start: int, length: int) -> Framed:
        """Pass a record, of which the beginning is held: it says what it is. Raises Cut.

        Its length may be wrong. Then it is a bad row, whatever it is, and reading goes on at the first record that
        seems to begin in it.
        """
        most = limits().warc_head
        with suppress(Cut):
            self.fill(start + most)
        head, block = bytes(self.held[:start]), bytes(self.held[start : start + most])
        head, offset = LENGTH.sub(b"Content-Length: %d\r" % len(block), head, count=1), self.offset_here()
        remaining, inner = self.passed(start + length)
        fault = self.fault_of_length(length, remaining)
        if not fault:
            fault = f"it has {length:,} bytes, expected at most {limits().warc_record:,}"
            return Framed(head + block, offset, fault, is_beginning=True)
        is_rest = remaining > 0 and not self.held
        if inner and self.go_back(inner):
            is_rest = False
        return Framed(head[: limits().bad_record_kept], offset, fault, is_rest)

    def fault_of_length(self, length: int, remaining: int) -> str:
        """Return why a record of which some bytes could not be passed has not the length that it says it has."""
        if remaining and self.held:
            return f"another record begins {remaining:,} bytes before the end that its length says"
        if remaining:
            return f"the file ends {remaining:,} bytes before the record does"
        return "" if self.is_followed(0) else NOT_FOLLOWED.format(length)

    def passed(self, size: int) -> tuple[int, Place | None]:
        """Pass the bytes of a record; return how many were not passed, and where another one seems to begin in it.

        A record at the beginning of a member ends this one. So does any, where lengths are doubted. Raises Cut.
        """
        end, inner, searched = self.place + size, None, 1  # its first byte may begin a member, too
        while True:
            remaining = end - self.place
            line = self.next_line(searched) if inner is None else None
            mark = self.next_record(searched) if self.is_doubting else self.next_mark(searched)
            if mark is not None and mark < remaining:
                self.drop(mark)
                return remaining - mark, inner
            if line is not None and line < remaining:
                inner = self.known_place(line)
            if len(self.held) >= remaining:
                self.drop(remaining)
                return 0, inner
            passed = max(1, len(self.held) - OVERLAP)
            self.drop(passed)
            searched = 0
            if not self.fill(len(self.held) + 1):
                remaining = end - self.place - len(self.held)
                self.drop(len(self.held))
                return remaining, inner

    def known_place(self, place: int) -> Place:
        """Return where a byte is of those that are held, so that it can be gone back to."""
        place += self.place
        if not self.is_compressed:
            return Place(place, place, place)
        begun = [start for start in self.starts if start[0] <= place]
        return Place(place, *begun[-1])

    def go_back(self, to: Place) -> bool:
        """Go back to a byte, if the file can be read from there again, and believe no long record from now on."""
        try:
            members = self.members.again_from(to.offset)
        except (OSError, ValueError):  # a server that gives its files from end to end alone
            return False
        self.members, self.blocks, self.is_doubting = members, iter(members), True
        self.begin_at(to.member)
        with suppress(Cut):
            while self.place < to.place and self.fill(1):
                self.drop(min(len(self.held), to.place - self.place))
        return True

    def is_followed(self, size: int) -> bool:
        """Say whether what is behind so many bytes of those held is the end of a record, or of the file."""
        with suppress(Cut):
            self.fill(size + len(ENDS) + len(MARK))
        behind = bytes(self.held[size : size + len(ENDS) + len(MARK)])
        return behind.startswith(ENDS) or MARK.startswith(behind.lstrip(b"\r\n")[: len(MARK)])

    def no_record(self, fault: str) -> Framed:
        """Return what is here as no record, and go to where another one seems to begin."""
        content, offset, start = bytes(self.held[: limits().bad_record_kept]), self.offset_here(), self.place
        searched = 1
        while (place := self.next_record(searched)) is None:
            self.drop(max(1, len(self.held) - OVERLAP))
            searched = 0
            if not self.has_more():
                place = len(self.held)
                break
        self.drop(place)
        return Framed(content[: self.place - start], offset, fault)

    def has_more(self) -> bool:
        """Hold more; False where nothing follows, or what follows is damaged."""
        with suppress(Cut):
            return self.fill(len(self.held) + 1)
        return False

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
