"""Find the records of a WARC file, and the next record after a damaged record.

The head of a record states the length of its block, and another record or the end of the file must follow. Bytes
that are not a record are returned as a record with a fault.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import CompressedMembers
from zyda_flows.tasks.sources.warc_window import MARK, OVERLAP, DataCut, MemberPosition, WarcWindow

# The end of a head, or the beginning of another record in it.
END_OF_HEAD = re.compile(rb"\r?\n(?:\r?\n|(?=WARC/[01]\.))")
LENGTH = re.compile(rb"^content-length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
LINE_ENDS = re.compile(rb"[\r\n]*")
ENDS = b"\r\n\r\n"  # of a record
NO_NEXT_RECORD = "no record follows the {:,} bytes of its Content-Length"


@dataclass(frozen=True)
class FramedRecord:
    """A record. offset: in the file, of its compressed member, or of the record itself.

    fault: the reason why it is not a valid record. is_rest: the bytes after it cannot be read. is_beginning: only
    the beginning of the record is in `content`.
    """

    content: bytes
    offset: int
    fault: str = ""
    is_rest: bool = False
    is_beginning: bool = False


class BlankRun(Exception):
    """Too many consecutive line ends."""


class WarcFraming:
    """The records of a file. is_doubting: a long record had a wrong length, so long lengths are not trusted."""

    def __init__(self, members: CompressedMembers) -> None:
        self.window, self.is_doubting, self.records = WarcWindow(members), False, 0

    def __iter__(self) -> Iterator[FramedRecord]:
        while True:
            try:
                if not self.skip_line_ends():
                    return
                framed = self.record()
            except DataCut as cut:
                framed = self.cut(str(cut))
            except BlankRun as blank:
                framed = FramedRecord(b"", self.window.offset_here(), str(blank), is_rest=True)
            self.records += not framed.is_rest
            yield framed
            if framed.is_rest:
                return

    def cut(self, fault: str) -> FramedRecord:
        """Return the bytes here as an invalid record, and move to the next record, or to the next member."""
        content, offset = bytes(self.window.held[: limits().bad_record_kept]), self.window.offset_here()
        if place := self.window.next_record(1):
            self.window.drop(place)
            return FramedRecord(content[:place], offset, fault)
        return FramedRecord(content, offset, fault, is_rest=not self.window.go_to_next_member())

    def skip_line_ends(self) -> bool:
        """Move to the next byte that is not a line end; return False at the end. Raises DataCut, BlankRun."""
        skipped, most = 0, limits().warc_blank
        while self.window.fill(1):
            run = LINE_ENDS.match(self.window.held)
            ends = run.end() if run else 0
            is_at_byte = ends < len(self.window.held)
            self.window.drop(ends)
            if is_at_byte:
                return True
            skipped += ends
            if skipped > most:
                raise BlankRun(
                    f"more than {most:,} consecutive bytes of line ends; the rest of the file is not read"
                )
        return False

    def record(self) -> FramedRecord:
        """Return the record that begins here. Raises DataCut if the data end in it."""
        self.window.fill(len(MARK))
        if not self.window.held.startswith(MARK):
            return self.no_record("no record begins here: it would begin with WARC/ and a version")
        head = self.end_of_head()
        if head is None:
            return self.no_record(f"its head has no end within {limits().warc_head:,} bytes")
        if head[0] in {b"\n", b"\r\n"}:
            return self.no_record("another record begins in its head")
        length = LENGTH.search(self.window.held, 0, head.end())
        if length is None:
            return self.no_record("its head has no Content-Length")
        if int(length[1]) > limits().warc_record:
            return self.too_long(head.end(), int(length[1]))
        return self.whole(head.end(), int(length[1]))

    def end_of_head(self) -> re.Match[bytes] | None:
        """Return the end of the head that begins here, or None if it has no end. Raises DataCut."""
        searched = 0
        while True:
            most, mark = limits().warc_head, self.window.next_mark(1)
            end = END_OF_HEAD.search(self.window.held, searched, min(most, mark or most))
            if end or mark or len(self.window.held) >= most:
                return end
            searched = max(0, len(self.window.held) - OVERLAP)
            if not self.window.fill(len(self.window.held) + 1):
                return None

    def whole(self, start: int, length: int) -> FramedRecord:
        """Return the record whose block of `length` bytes begins at `start` of the window. Raises DataCut."""
        size, offset = start + length, self.window.offset_here()
        if not self.window.fill(size):
            raise DataCut(f"the file ends {size - len(self.window.held):,} bytes before the record does")
        is_followed = self.is_followed(size)
        if self.window.broken is not None and self.window.broken.offset == offset:
            raise DataCut(f"the data are damaged: {first_line(self.window.broken.error)}")
        if not is_followed:
            return self.no_record(NO_NEXT_RECORD.format(length))
        with memoryview(self.window.held) as held:  # slicing the bytearray would make another copy
            record = bytes(held[:size])
        self.window.drop(size)
        return FramedRecord(record, offset)

    def too_long(self, start: int, length: int) -> FramedRecord:
        """Skip a record and return its beginning, which states its kind. Raises DataCut.

        If its length is wrong, the record has a fault, and reading continues at the first record that seems to
        begin in it.
        """
        most = limits().warc_head
        with suppress(DataCut):
            self.window.fill(start + most)
        head, block = bytes(self.window.held[:start]), bytes(self.window.held[start : start + most])
        head, offset = (
            LENGTH.sub(b"Content-Length: %d\r" % len(block), head, count=1),
            self.window.offset_here(),
        )
        remaining, inner = self.passed(start + length)
        fault = self.fault_of_length(length, remaining)
        if not fault:
            fault = f"it has {length:,} bytes, expected at most {limits().warc_record:,}"
            return FramedRecord(head + block, offset, fault, is_beginning=True)
        is_rest = remaining > 0 and not self.window.held
        if inner and self.window.go_back(inner):
            is_rest, self.is_doubting = False, True
        return FramedRecord(head[: limits().bad_record_kept], offset, fault, is_rest)

    def fault_of_length(self, length: int, remaining: int) -> str:
        """Return why a record of which some bytes could not be passed has not the length that it says it has."""
        if remaining and self.window.held:
            return f"another record begins {remaining:,} bytes before the end that its length says"
        if remaining:
            return f"the file ends {remaining:,} bytes before the record does"
        return "" if self.is_followed(0) else NO_NEXT_RECORD.format(length)

    def passed(self, size: int) -> tuple[int, MemberPosition | None]:
        """Skip `size` bytes of a record. Return the number of bytes that remain, and the next record's position.

        A record at the beginning of a member ends this record. If lengths are doubted, any record does. Raises
        DataCut.
        """
        end, inner, searched = self.window.place + size, None, 1  # its first byte may begin a member, too
        while True:
            remaining = end - self.window.place
            line = self.window.next_line(searched) if inner is None else None
            mark = self.window.next_record(searched) if self.is_doubting else self.window.next_mark(searched)
            if mark is not None and mark < remaining:
                self.window.drop(mark)
                return remaining - mark, inner
            if line is not None and line < remaining:
                inner = self.window.known_place(line)
            if len(self.window.held) >= remaining:
                self.window.drop(remaining)
                return 0, inner
            passed = max(1, len(self.window.held) - OVERLAP)
            self.window.drop(passed)
            searched = 0
            if not self.window.fill(len(self.window.held) + 1):
                remaining = end - self.window.place - len(self.window.held)
                self.window.drop(len(self.window.held))
                return remaining, inner

    def is_followed(self, size: int) -> bool:
        """Return whether the end of a record, or of the file, follows the first `size` bytes of the window."""
        with suppress(DataCut):
            self.window.fill(size + len(ENDS) + len(MARK))
        behind = bytes(self.window.held[size : size + len(ENDS) + len(MARK)])
        return behind.startswith(ENDS) or MARK.startswith(behind.lstrip(b"\r\n")[: len(MARK)])

    def no_record(self, fault: str) -> FramedRecord:
        """Return the bytes here as an invalid record, and move to where the next record seems to begin."""
        content, offset, start = (
            bytes(self.window.held[: limits().bad_record_kept]),
            self.window.offset_here(),
            self.window.place,
        )
        searched = 1
        while (place := self.window.next_record(searched)) is None:
            self.window.drop(max(1, len(self.window.held) - OVERLAP))
            searched = 0
            if not self.window.has_more():
                place = len(self.window.held)
                break
        self.window.drop(place)
        return FramedRecord(content[: self.window.place - start], offset, fault)
