"""Read the files of a tar from a stream.

`tarfile` ends silently at a damaged head. This reader searches for the next valid head.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from tarfile import BLOCKSIZE, GNUTYPE_LONGNAME, REGULAR_TYPES, XHDTYPE, HeaderError, TarInfo

MAX_NAME = 1 << 16
PAX_PATH = re.compile(rb"(?:\A|\n)[0-9]+ path=([^\n]*)\n")


@dataclass(frozen=True)
class TarMember:
    """A file in a tar. fault: the reason why it cannot be read. is_rest: nor can the files after it."""

    name: str
    content: bytes = b""
    fault: str = ""
    is_rest: bool = False


class TarMembers:
    """The files in decompressed chunks of a tar; folders and links are skipped.

    most: bytes of a file; a larger file has a fault. has_end: whether the tar must end with blocks of zeros.
    """

    def __init__(self, chunks: Iterator[bytes], most: int, *, has_end: bool) -> None:
        self.chunks, self.most, self.has_end = chunks, most, has_end
        self.held = bytearray()
        self.long_name = ""  # from an extension head, for the next file
        self.is_at_end = not has_end
        self.is_lost = False  # since a damaged head

    def __iter__(self) -> Iterator[TarMember]:
        while self.fill(BLOCKSIZE):
            head = bytes(self.held[:BLOCKSIZE])
            del self.held[:BLOCKSIZE]
            if not head.strip(b"\0"):
                self.is_at_end = True  # or in the padding between several tars
                continue
            self.is_at_end = not self.has_end
            member = self.member(head)
            if member is not None:
                yield member
                if member.is_rest:
                    return
        if self.held.strip(b"\0") or not self.is_at_end:
            yield TarMember("", fault="the file ends before its end", is_rest=True)

    def member(self, head: bytes) -> TarMember | None:
        """Return the file of a head, a fault for the first damaged head, or None for other members."""
        was_lost, self.is_lost = self.is_lost, False
        try:
            info = TarInfo.frombuf(head, "utf-8", "replace")
            if info.size < 0:
                raise HeaderError("its size is negative")
        except HeaderError as error:
            self.is_lost = True  # the next blocks may be the content of the file, up to the next head
            return None if was_lost else TarMember("", fault=f"a head is damaged: {error}")
        member = self.read_content(self.long_name or info.name, info)
        self.long_name = "" if member.fault else long_name(info, member.content)
        return member if info.type in REGULAR_TYPES or member.is_rest else None

    def fill(self, size: int) -> bool:
        """Hold at least `size` bytes; return False if the tar ends before."""
        while len(self.held) < size:
            chunk = next(self.chunks, None)
            if chunk is None:
                return False
            self.held += chunk
        return True

    def read_content(self, name: str, member: TarInfo) -> TarMember:
        """Read the content of a member, or skip it if it is too long."""
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


def long_name(info: TarInfo, content: bytes) -> str:
    """Return the name that an extension head states for the next file; empty for other members."""
    if info.type == GNUTYPE_LONGNAME:
        return content.rstrip(b"\0").decode(errors="replace")
    if info.type == XHDTYPE and (path := PAX_PATH.search(content)):
        return path[1].decode(errors="replace")
    return ""
