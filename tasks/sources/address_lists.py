"""Parse lists of domains and web addresses, in the forms in which such lists are published.

    example.org                    a domain and its subdomains; also `*.example.org`, `.example.org`
    https://example.org/page       an address; with `/*` at its end, all addresses below that folder
    0.0.0.0 example.org            a line of a hosts file, of one or more names
    ||example.org^                 a rule of an ad blocker for a whole domain
    address=/example.org/0.0.0.0   dnsmasq
    example.org, example.net       several in a line, separated by commas, semicolons or white space

`#`, `!` and `;` begin a comment at the start of a line or after white space. A line in any other form is an error.
"""

import io
import ipaddress
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeVar

from zyda_flows.tasks.errors import BadInput, first_line
from zyda_flows.tasks.sources.byte_lines import DAMAGED
from zyda_flows.tasks.sources.small_files import PlannedFile, decompress_list, read_planned_file
from zyda_flows.tasks.sources.web_addresses import normalise_address, normalise_domain

T = TypeVar("T")

MAX_NAMED_FAULTS = 3  # of a list
PLAIN = re.compile(r"(?:https?://)?[A-Za-z][A-Za-z0-9._~/?&%+-]*")
COMMENT = re.compile(r"(?:^|\s)[#;!].*")
BETWEEN = re.compile(r"[\s,;]+")
BLANK = re.compile(r"\s+")
DNSMASQ = re.compile(r"(?:address|server|local|ipset|nftset)=/")
HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
NETWORK = re.compile(r"([0-9a-fA-F:.]+)/[0-9]{1,3}")
WHOLE_PAGES = {
    "all",
    "doc",
    "document",
    "important",
}  # options of ad blockers' rules that mean a domain's pages
WHOLE_DOMAIN = re.compile(r"(?:(?:\*|https?)://)?\*\.([^/*]+)/?\*?")
HOST = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:]+\]")
# Names in hosts files that are not web domains.
LOCAL = {
    "localhost", "localhost.localdomain", "local", "broadcasthost", "ip6-localhost", "ip6-loopback", "ip6-localnet",
    "ip6-mcastprefix", "ip6-allnodes", "ip6-allrouters", "ip6-allhosts", "0.0.0.0",  # noqa: S104
}  # fmt: skip


class Entry(NamedTuple):
    """A domain with its subdomains, an address, or a folder with all addresses below it, in normal form.

    The value of a folder has no slash at its end.
    """

    kind: Literal["domain", "url", "folder"]
    value: str
    host: str


def entries_of(line: str) -> list[Entry]:
    """Parse a line; a blank line or a comment has no entries. Raises ValueError for an unknown form."""
    return [entry_of(field) for field in fields_of(line)]


def entry_of(field: str) -> Entry:
    """Parse a domain or an address. Raises ValueError."""
    if (pattern := WHOLE_DOMAIN.fullmatch(field)) or "/" not in field:
        if host := normalise_domain(pattern[1] if pattern else field):
            return Entry("domain", host, host)
        raise ValueError(f"{field!r} is not a domain")
    return address_of(field)


def address_of(field: str) -> Entry:
    """Parse the address of a page or, with `/*` at its end, of a folder. Raises ValueError."""
    is_folder = field.endswith("/*")
    address = None if BLANK.search(field) else normalise_address(field[:-1] if is_folder else field)
    if address is None or not HOST.fullmatch(address[0]):
        raise ValueError(f"{field!r} is not a web address")
    host, whole = address
    return Entry("folder", whole.rstrip("/"), host) if is_folder else Entry("url", whole, host)


def fields_of(line: str) -> list[str]:
    """Return the domains and addresses of a line, without the syntax of its form.

    A blank line or a comment has none. Raises ValueError for a line that states another rule.
    """
    if PLAIN.fullmatch(line):
        return [line]  # a fast path: lists have millions of these
    if line.startswith(("[Adblock", "[uBlock")):
        return []
    line = COMMENT.sub("", line).strip()
    if line.startswith("@@"):
        raise ValueError(f"{line!r} is an exception; remove the domain from the list instead")
    if line.startswith("|"):
        return [rule_of(line)]
    if found := DNSMASQ.match(line):
        return [name for name in line[found.end() :].rpartition("/")[0].split("/") if name]
    words = BLANK.split(line) if line else []
    if len(words) > 1 and is_number(words[0].partition("%")[0]):
        return [word for word in words[1:] if word.lower() not in LOCAL]
    fields = [field for word in words for field in fields_in(word)]
    for field in fields:
        if (found := NETWORK.fullmatch(field)) and is_number(found[1]):
            raise ValueError(f"{field!r} is a network of addresses, no domain")
    return fields


def fields_in(word: str) -> list[str]:
    """Return the fields of a line that has no white space. Commas can be part of an address."""
    parts = [part.strip("\"'") for part in BETWEEN.split(word) if part]
    is_address = "/" in word and not all(HAS_SCHEME.match(part) for part in parts)
    return [word.strip("\"',;")] if is_address else [part for part in parts if part]


def is_number(word: str) -> bool:
    """Return whether a word is a number of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(word)
    except ValueError:
        return False
    return True


def rule_of(line: str) -> str:
    """Return the domain or address of an ad blocker's rule. Raises ValueError for a rule for some requests."""
    body, _, options = line.strip("|").partition("$")
    if {option.strip() for option in options.split(",") if option} - WHOLE_PAGES:
        raise ValueError(f"{line!r} is for some requests only")
    body = body.removesuffix("|").removesuffix("^")
    if "^" in body or ("*" in body and not body.startswith("*.")):
        raise ValueError(f"{line!r} is a pattern, neither a domain nor an address")
    host, _, path = body.partition("/")
    return f"{body}*" if path.endswith("/") else body if path else host


def lines_of_list(name: str, file: PlannedFile) -> Iterator[str]:
    """Return the lines of a list in UTF-8 or, with a byte order mark, UTF-16.

    name: names the owner of the list in errors. Raises BadInput if the list cannot be read.
    """
    content = read_planned_file(name, file)
    try:
        content = decompress_list(content, file.listed.url)
        encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
        text = content.decode(encoding)
    except DAMAGED as error:
        raise BadInput(f"{name}: {file.listed.url}: it cannot be read: {first_line(error)}") from error
    return (line.removesuffix("\n") for line in io.StringIO(text, newline=None))


def read_entries(
    where: str, lines: Iterable[str], read: Callable[[str], Iterable[T]], fault: str
) -> Iterator[T]:
    """Yield the results of `read` for each line. Raises BadInput with the first lines that raise ValueError.

    fault: the words of the error for such lines.
    """
    return read_numbered(where, enumerate(lines, 1), read, fault)


def read_numbered(
    where: str, lines: Iterable[tuple[int, str]], read: Callable[[str], Iterable[T]], fault: str
) -> Iterator[T]:
    """Yield the results of `read` for lines with their numbers; the last number is the number of all lines."""
    faults, count, number = list[str](), 0, 0
    for number, line in lines:
        try:
            yield from read(line)
        except ValueError as error:
            count += 1
            if len(faults) < MAX_NAMED_FAULTS:
                faults.append(f"line {number:,}: {first_line(error)}")
    if faults:
        raise BadInput(f"{where}: {count:,} of its {number:,} lines {fault}; {'; '.join(faults)}")
