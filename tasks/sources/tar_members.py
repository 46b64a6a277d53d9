"""The files in a tar, one after another as it streams by.

`tarfile` ends silently at a damaged head, as if there was no more. Here the next head is looked for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from tarfile import BLOCKSIZE, GNUTYPE_LONGNAME, REGULAR_TYPES, XHDTYPE, HeaderError, TarInfo

MAX_NAME = 1 << 16
PAX_PATH = re.compile(rb"(?:\A|\n)[0-9]+ path=([^\n]*)\n")


@dataclass(frozen=True)
class TarMember:
    """A file in a tar. fault: why it cannot be had. is_rest: nor can what follows it."""

    name: str
    content: bytes = b""
    fault: str = ""
    is_rest: bool = False


class TarMembers:
    """The files in decompressed chunks of a tar, each of at most so many bytes; folders and links are passed.

    has_end: whether it is cut off where the blocks of zeros are missing with which a tar ends.
    """

    def __init__(self, chunks: Iterator[bytes], most: int, *, has_end: bool) -> None:
        self.chunks, self.most, self.has_end = chunks, most, has_end
        self.held = bytearray()

    def __iter__(self) -> Iterator[TarMember]:
        long_name, is_lost, is_at_end = "", False, not self.has_end
        while True:
            if not self.fill(BLOCKSIZE):
                if self.held.strip(b"\0") or not is_at_end:
                    yield TarMember("", fault="the file ends before its end", is_rest=True)
                return
            head = bytes(self.held[:BLOCKSIZE])
            del self.held[:BLOCKSIZE]
            if not head.strip(b"\0"):
                is_at_end = True  # or in the padding of one of several tars
                continue
            is_at_end = not self.has_end
            try:
                member = TarInfo.frombuf(head, "utf-8", "replace")
                if member.size < 0:
                    raise HeaderError("its size is negative")
            except HeaderError as error:
                if not is_lost:  # what follows may be its content, up to the next head
                    yield TarMember("", fault=f"a head is damaged: {error}")
                is_lost = True
                continue
            is_lost = False
            found = self.taken(long_name or member.name, member)
            long_name = ""
            if member.type == GNUTYPE_LONGNAME and not found.fault:
                long_name = found.content.rstrip(b"\0").decode(errors="replace")
            elif member.type == XHDTYPE and not found.fault:
                path = PAX_PATH.search(found.content)
                long_name = path[1].decode(errors="replace") if path else ""
            elif member.type in REGULAR_TYPES or found.is_rest:
                yield found
            if found.is_rest:
                return

    def fill(self, size: int) -> bool:
        while len(self.held) < size:
            chunk = next(self.chunks, None)
            if chunk is None:
                return False
            self.held += chunk
        return True

    def taken(self, name: str, member: TarInfo) -> TarMember:
        """Take a member's content, or pass it where it is too long."""
        most = self.most if member.type in REGULAR_TYPES else MAX_NAME
        padded = -(-member.size // BLOCKSIZE) * BLOCKSIZE
        if member.size > most:
            while padded and self.fill(1):
                size = min(padded, len(self.held))
                del self.held[:size]
                padded -= size
            fault = f"it has {member.size:,} bytes, expected at most {most:,}"
            return TarMember(name, fault=fault, is_rest=bool(padded))
        if not self.fill(member.size):
            content = bytes(self.held)
            self.held.clear()
            return TarMember(name, content, "the file ends before its end", is_rest=True)
        content = bytes(self.held[: member.size])
        self.fill(padded)
        del self.held[:padded]
        return TarMember(name, content)
