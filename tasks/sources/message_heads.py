"""The heads of WARC records and HTTP messages: a first line, and fields of a name and a value.

They are parsed as leniently as in browsers (RFC 9110, 9112): lines end with LF or CRLF, names have any case, and
white space around the colon is ignored. A line that begins with white space continues the line before it. A line
without a colon is skipped.
"""

import re
from typing import NamedTuple

END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
FOLD = re.compile(r"\r?\n[ \t]+")
HTTP = re.compile(rb"[\r\n]{0,4}(?:HTTP|ICY)\b", re.IGNORECASE)
STATUS = re.compile(r"\S+[ \t]+([0-9]{1,9})")
NO_STATUS = 200  # the status that browsers assume if a status line has none
CHARSET = re.compile(r"charset\s*=\s*\"?([^\s;\",]+)", re.IGNORECASE)


class Head(NamedTuple):
    """A head. fields: the values by name, in lower case. end: the position of the first byte of the body."""

    first: str
    fields: dict[str, list[str]]
    end: int

    def all(self, name: str) -> list[str]:
        """Return the values of a field, in order."""
        return self.fields.get(name, [])

    def get(self, name: str) -> str | None:
        """Return the last value of a field."""
        values = self.fields.get(name)
        return values[-1] if values else None

    def listed(self, name: str) -> list[str]:
        """Return the members of a field whose value is a list, in lower case and without parameters."""
        members = (member.partition(";")[0] for value in self.all(name) for member in value.split(","))
        return [stripped for member in members if (stripped := member.strip(" \t\"'").lower())]


def read_head(content: bytes, start: int, longest: int, encoding: str) -> Head:
    """Return the head that begins at `start`. A head without an end extends to the end of the content.

    Raises ValueError if it has more bytes than `longest`.
    """
    blank_line = END_OF_HEAD.search(content, start, start + longest)
    if blank_line is None and len(content) - start > longest:
        raise ValueError(f"its head has no end within {longest:,} bytes")
    stop, end = blank_line.span() if blank_line else (len(content), len(content))
    text = content[start:stop].decode(encoding, "replace")
    if "\n " in text or "\n\t" in text:
        text = FOLD.sub(" ", text)
    first, *lines = text.split("\n")
    fields = dict[str, list[str]]()
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), []).append(value.strip())
    return Head(first.strip(), fields, end)


def is_http(content: bytes, start: int) -> bool:
    """Return whether an HTTP message seems to begin at `start`."""
    return HTTP.match(content, start) is not None


def read_http_head(content: bytes, start: int, longest: int) -> tuple[int, Head]:
    """Return the status and the head of an HTTP response, after interim responses and responses of a proxy.

    Raises ValueError if the heads have more bytes than `longest`.
    """
    place = start
    while True:
        place += len(content[place : place + 4]) - len(content[place : place + 4].lstrip(b"\r\n"))
        head = read_head(content, place, longest - (place - start), "cp1252")
        status = status_of(head.first)
        is_interim = 100 <= status < 200 or (status == NO_STATUS and not head.fields)
        if not (is_interim and content.startswith(b"HTTP/", head.end)):
            return status, head
        place = head.end


def status_of(line: str) -> int:
    """Return the status of a status line; 200 if it has none, as in browsers."""
    status = STATUS.match(line)
    return int(status[1]) if status else NO_STATUS


def content_type_of(head: Head) -> str | None:
    """Return the last media type of a head, as in browsers; a parameter alone does not replace it."""
    types = [value for value in head.all("content-type") if "/" in value]
    return types[-1] if types else head.get("content-type")


def charset_of(head: Head) -> str | None:
    """Return the name of the encoding that a head states."""
    named = CHARSET.search(content_type_of(head) or "")
    return named[1].lower() if named else None
