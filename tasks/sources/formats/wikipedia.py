"""Dumps of Wikipedia and other Wikimedia wikis: XML with the pages of a wiki as wikitext.

A document is a page of the main namespace. Redirects and pages of other namespaces are skipped and counted by
kind. Pages are separated before they are parsed, so that a damaged page does not affect others.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote
from xml.etree import ElementTree

import pyarrow as pa

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.extraction.wikitext_namespaces import UNSHOWN
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import Block, BrokenMember, CompressedMembers
from zyda_flows.tasks.sources.decoders import COMPRESSIONS, compression_of
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.outcomes import (
    BadRecord,
    Outcome,
    SkippedRecord,
    checked_outcomes,
    chunks_of_outcomes,
    first_documents,
)
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input

NAME = "wikipedia"
# The parts of a dump are named by their pages: enwiki-20240601-pages-articles1.xml-p1p41242.bz2.
ENDINGS = (".xml", *(f".xml{end}" for end in COMPRESSIONS), ".bz2")
AT_RANDOM = False
VERSION = 1
SCHEMA = pa.schema(
    [
        ("text", pa.large_string()),
        ("title", pa.string()),
        ("url", pa.string()),
        ("page_id", pa.int64()),
        ("revision", pa.int64()),
        ("timestamp", pa.string()),
        ("namespace", pa.int32()),
    ]
)
OPEN, CLOSE = b"<page>", b"</page>"
NAMESPACE = re.compile(rb'<namespace key="(-?\d{1,9})"[^<>]*>([^<]*)</namespace>')
LONG_TAG = re.compile(rb"<[^<>]{65536}")
# Namespaces whose links show no text: media, files and categories. Each wiki has its own names for them.
UNSHOWN_SPACES = {-2: "Media", 6: "File", 14: "Category"}
FETCH = "; zyda fetch copies the dump again, and compares it with the checksums that its host publishes"
BASE = re.compile(rb"<base>([^<]*)/[^</]*</base>")
ENTITIES = b"<!DOCTYPE"  # not in dumps; entities can expand a few bytes to many


class DamagedBlock(Exception):
    """The compressed data are damaged."""


class Pages:
    """The pages of a dump as outcomes. count: of the pages read. namespaces, base: of the wiki, from the head."""

    def __init__(self, stream: Input) -> None:
        self.stream, self.count = stream, 0
        self.blocks = iter(CompressedMembers(stream, compression_of(stream.url), resumes=True))
        self.held = bytearray()
        self.broken: BrokenMember | None = None
        self.namespaces, self.base = {0: ""}, ""
        self.local_link: Callable[[str], str] = str

    def __iter__(self) -> Iterator[Outcome]:
        is_rest = False
        with suppress(DamagedBlock):
            self.read_head()
        while not is_rest:
            try:
                page = self.next_page()
            except DamagedBlock as error:
                content, is_rest = bytes(self.held), not self.resume()
                page = BadRecord(f"{error}{FETCH if is_rest else ''}", content, is_rest=is_rest)
            if page is None:
                return
            is_rest = isinstance(page, BadRecord) and page.is_rest
            self.count += not is_rest
            yield page if isinstance(page, BadRecord) else self.outcome(page)

    def more(self) -> bool:
        """Hold another block; return False at the end. Raises DamagedBlock."""
        block = next(self.blocks, None) if self.broken is None else self.broken
        if isinstance(block, BrokenMember):
            self.broken = block
            raise DamagedBlock(f"the data are damaged at byte {block.offset:,}: {first_line(block.error)}")
        self.held += block.content if block else b""
        return block is not None

    def resume(self) -> bool:
        """Continue after damaged data; return False if nothing follows."""
        block = next(self.blocks, None)
        self.broken = block if isinstance(block, BrokenMember) else None
        self.held = bytearray(block.content if isinstance(block, Block) else b"")
        return block is not None

    def read_head(self) -> None:
        """Read the head before the first page: the address of the wiki and the names of its namespaces."""
        searched = 0
        while self.held.find(OPEN, searched) < 0 and len(self.held) < limits().dump_head:
            searched = max(0, len(self.held) - len(OPEN))
            if not self.more():
                break
        head = bytes(self.held[: limits().dump_head]).partition(OPEN)[0]
        names = {int(key): name.decode(errors="replace") for key, name in NAMESPACE.findall(head)}
        self.namespaces |= names
        self.local_link = local_links(
            {UNSHOWN_SPACES[key]: names[key] for key in UNSHOWN_SPACES if key in names}
        )
        base = BASE.search(head)
        self.base = base[1].decode(errors="replace") if base else ""

    def next_page(self) -> bytes | BadRecord | None:
        """Return the XML of the next page, or the fault of a page without an end; None at the end of the dump."""
        while (start := self.held.find(OPEN)) < 0:
            del self.held[: max(0, len(self.held) - len(OPEN))]
            if not self.more():
                return None
        del self.held[:start]
        searched = len(OPEN)
        while True:
            following = self.held.find(OPEN, searched)
            stop = following if following >= 0 else len(self.held)
            end = self.held.find(CLOSE, searched, stop)
            if end >= 0:
                page = bytes(self.held[: end + len(CLOSE)])
                del self.held[: end + len(CLOSE)]
                return page
            searched = max(len(OPEN), len(self.held) - len(CLOSE))
            if following >= 0 or len(self.held) > limits().dump_page or not self.more():
                return self.cut_off(stop)

    def cut_off(self, end: int) -> BadRecord:
        """Remove the held bytes up to `end` and return them as a page without an end."""
        content = bytes(self.held[:end])
        del self.held[:end]
        if len(content) > limits().dump_page:
            return BadRecord(f"a page of more than {limits().dump_page:,} bytes", content)
        return BadRecord("a page has no end: </page> is missing", content)

    def outcome(self, page: bytes) -> Outcome:
        """Return the outcome of a page."""
        if fault := fault_of_xml(page):
            return BadRecord(fault, page)
        try:
            return self.document(ElementTree.fromstring(page))  # noqa: S314 (without entities)
        except (ElementTree.ParseError, UnicodeError, ValueError) as error:
            return BadRecord(f"not a page of a dump: {first_line(error)}", page)

    def document(self, page: ElementTree.Element) -> Outcome:
        """Return the columns of a page, or the kind of a page that is not an article. Raises ValueError."""
        namespace, title = number(page.findtext("ns"), 0), page.findtext("title") or ""
        if page.find("redirect") is not None:
            return SkippedRecord("redirect")
        if namespace != 0:
            return SkippedRecord(f"namespace {self.namespaces.get(namespace) or namespace}")
        revision = latest_revision(page)
        text = revision.find("text")
        if text is None or text.get("deleted") is not None:
            return SkippedRecord("deleted")
        return {
            "text": self.local_link(text.text or ""),
            "title": title,
            "url": f"{self.base}/{quote(title.replace(' ', '_'), safe=':/()!*,;@')}" if self.base else None,
            "page_id": number(page.findtext("id"), -1),
            "revision": number(revision.findtext("id"), -1),
            "timestamp": revision.findtext("timestamp"),
            "namespace": namespace,
        }


def latest_revision(page: ElementTree.Element) -> ElementTree.Element:
    """Return the latest revision of a page. Raises ValueError if it has none."""
    revisions = page.findall("revision")
    if not revisions:
        raise ValueError("it has no revision")
    if len(revisions) == 1:
        return revisions[0]
    return max(revisions, key=lambda revision: revision.findtext("timestamp") or "")


def fault_of_xml(page: bytes) -> str:
    """Return the reason not to parse a page (too large, or not from a dump), or an empty text."""
    if len(page) > limits().dump_page:
        return f"a page of more than {limits().dump_page:,} bytes"
    if ENTITIES in page:
        return "it declares entities, which dumps do not"
    if page.count(b"<") > limits().dump_tags:
        return f"it has more than {limits().dump_tags:,} tags"
    return "it has a tag of more than 65,536 bytes" if LONG_TAG.search(page) else ""


def number(text: str | None, default: int) -> int:
    """Return a number of 64 bits. Raises ValueError."""
    value = int(text[:30]) if text else default
    if abs(value) >= 1 << 63:
        raise ValueError(f"expected a number of 64 bits, got {text}")
    return value


def local_links(names: dict[str, str]) -> Callable[[str], str]:
    """Return a function that translates the namespaces of links to files and categories to English.

    names: the wiki's names, by their English names.
    """
    english = {name.lower(): key for key, name in names.items() if name and name.lower() not in UNSHOWN}
    if not english:
        return str
    known = "|".join(re.escape(name).replace("\\ ", "[ _]") for name in english)
    link = re.compile(rf"\[\[[ _]*({known})[ _]*:", re.IGNORECASE)
    return lambda text: link.sub(
        lambda match: f"[[{english.get(match[1].replace('_', ' ').lower(), 'File')}:", text
    )


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of all dumps, after checking the first pages."""
    return checked_outcomes(stream, Pages(stream), SCHEMA, text, may_be_bad=may_be_bad), (FilePiece(),)


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first pages, up to the article number `count`."""
    return first_documents(Pages(stream), SCHEMA, count)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read all pages."""
    pages = Pages(stream)
    yield from chunks_of_outcomes(pages, SCHEMA, text, tally, selection)
    tally.rows += pages.count
