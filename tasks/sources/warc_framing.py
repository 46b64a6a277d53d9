"""Where the records of a WARC file begin and end, and where the next one begins after one that is damaged.

FastWARC, which reads the records, ends a file where one has a bad head. So they are cut apart here: a record's
head says how long it is, and another one, or the end, has to follow. What is no record is one all the same,
with its fault.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tasks.errors import first_line
from tasks.sources.compression import Block, Broken, Members

MAX_HEAD = 1 << 16
# Bytes of its block. Common Crawl cuts pages at 5 MiB; for a byte of emoji alone, a worker needs some forty.
MAX_RECORD = 12 << 20
END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
MARK = b"WARC/"
ENDS = b"\r\n\r\n"  # of a record
NEXT = re.compile(rb"\nWARC/[01]\.")
NOT_FOLLOWED = "no record follows the {:,} bytes that it says it has"
OVERLAP = 8  # so much of NEXT may stand at the end of what was looked through
KEPT_CONTENT = 1 << 12  # of what is no record


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


class Cut(Exception):
    """The data break off here."""


class Framing:
    """The records of a file.

    `held` are decompressed bytes, of which the first is number `place`; `starts` are the members that begin in
    them, by the place of their first byte, with their offsets in the file.
    """

    def __init__(self, members: Members) -> None:
        self.blocks = iter(members)
        self.is_compressed = bool(members.kind)
        self.held, self.place = bytearray(), 0
        self.starts: list[tuple[int, int]] = []
        self.broken: Broken | None = None  # the member at which the data break off
        self.records = 0

    def begins_with(self, mark: bytes) -> bool:
        """Say whether the first bytes of the file are these."""
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
                content, offset = bytes(self.held[:KEPT_CONTENT]), self.offset_here()
                framed = Framed(content, offset, str(cut), is_rest=not self.go_to_next_member())
            self.records += not framed.is_rest
            yield framed
            if framed.is_rest:
                return

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
        if block.begins:
            self.starts.append((self.place + len(self.held), block.offset))
        self.held += block.content

    def drop(self, size: int) -> None:
        """Hold the first bytes no longer."""
        del self.held[:size]
        self.place += size
        while len(self.starts) > 1 and self.starts[1][0] <= self.place:
            del self.starts[0]

    def offset_here(self) -> int:
        """Return where in the file the first byte that is held is, or the member with it begins."""
        if self.broken is not None and not self.held:
            return self.broken.offset
        if not self.is_compressed:
            return self.place
        return self.starts[0][1] if self.starts else 0

    def skip_line_ends(self) -> bool:
        """Go to the next byte that is no line end; False at the end. Raises Cut."""
        while self.fill(1):
            ends = len(self.held) - len(self.held.lstrip(b"\r\n"))
            is_at_byte = ends < len(self.held)
            self.drop(ends)
            if is_at_byte:
                return True
        return False

    def record(self) -> Framed:
        """Return the record that begins here. Raises Cut where the data break off in it."""
        self.fill(len(MARK))
        if not self.held.startswith(MARK):
            return self.no_record("no record begins here: it would begin with WARC/ and a version")
        head, searched = END_OF_HEAD.search(self.held, 0, MAX_HEAD), 0
        while head is None:
            searched = max(0, len(self.held) - 3)
            if len(self.held) >= MAX_HEAD or not self.fill(len(self.held) + 1):
                return self.no_record(f"its head has no end within {MAX_HEAD:,} bytes")
            head = END_OF_HEAD.search(self.held, searched, MAX_HEAD)
        length = LENGTH.search(self.held, 0, head.end())
        if length is None:
            return self.no_record("its head says no Content-Length")
        if int(length[1]) > MAX_RECORD:
            return self.too_long(head.end(), int(length[1]))
        return self.whole(head.end(), int(length[1]))

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

        Its length may be wrong: then it is a bad row, whatever it is, and what seems to be another record is read.
        """
        self.fill(start + MAX_HEAD)
        head, block = bytes(self.held[:start]), bytes(self.held[start : start + MAX_HEAD])
        # With the length of what is held: a reader may ask for as much memory as a record says it has.
        head, offset = LENGTH.sub(b"Content-Length: %d\r" % len(block), head, count=1), self.offset_here()
        fault, remaining = self.passed(start + length)
        if fault is None and not self.is_followed(0):
            fault = NOT_FOLLOWED.format(length)
        if fault is not None:
            return Framed(head[:KEPT_CONTENT], offset, fault, is_rest=remaining > 0 and not self.held)
        fault = f"it has {length:,} bytes, expected at most {MAX_RECORD:,}"
        return Framed(head + block, offset, fault, is_beginning=True)

    def passed(self, size: int) -> tuple[str | None, int]:
        """Pass the bytes of a record; return why they are not its own, if so, and how many were not passed."""
        remaining = size
        while remaining and self.fill(1):
            here = min(remaining, len(self.held))
            self.fill(here + len(MARK))
            own = 1 if remaining == size else 0  # its first byte may begin a member, too
            places = (start - self.place for start, _ in self.starts)
            others = (place for place in places if own <= place < here and self.held.startswith(MARK, place))
            if (place := next(others, None)) is not None:
                self.drop(place)
                fault = (
                    f"another record begins {remaining - place:,} bytes before the end that its length says"
                )
                return fault, remaining - place
            self.drop(here)
            remaining -= here
        return (f"the file ends {remaining:,} bytes before the record does" if remaining else None), remaining

    def is_followed(self, size: int) -> bool:
        """Say whether what is behind so many bytes of those held is the end of a record, or of the file."""
        with suppress(Cut):
            self.fill(size + len(ENDS) + len(MARK))
        behind = bytes(self.held[size : size + len(ENDS) + len(MARK)])
        return behind.startswith(ENDS) or MARK.startswith(behind.lstrip(b"\r\n")[: len(MARK)])

    def no_record(self, fault: str) -> Framed:
        """Return what is here as no record, and go to where another one seems to begin."""
        found = Framed(bytes(self.held[:KEPT_CONTENT]), self.offset_here(), fault)
        searched = 1
        while (place := self.next_record(searched)) is None:
            self.drop(max(0, len(self.held) - OVERLAP))
            searched = 0
            try:
                has_more = self.fill(len(self.held) + 1)
            except Cut:
                has_more = False
            if not has_more:
                place = len(self.held)
                break
        self.drop(place)
        return found

    def next_record(self, searched: int) -> int | None:
        """Return where in what is held a record seems to begin, behind so many bytes."""
        found = NEXT.search(self.held, searched - 1 if searched else 0)
        places = [found.start() + 1] if found else []
        places += [start - self.place for start, _ in self.starts if start - self.place >= searched]
        return min((place for place in places if self.held.startswith(MARK, place)), default=None)

    def go_to_next_member(self) -> bool:
        """Go to the next member that begins as a record does, or is damaged too; False where there is none.

        A damaged one that began as no record is a part of the one before: a body that was compressed, say.
        """
        self.drop(len(self.held))
        self.broken, self.starts = None, []
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
