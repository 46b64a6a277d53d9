"""Which documents go for their address: its domain, the address itself, or words in it.

Lists of domains have millions of lines: they are held as sorted hashes. Words are those that RefinedWeb counts:
between other characters than letters and digits. A line of several words is one without what is between them, as
datatrove reads the same lists.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.errors import BadInput
from tasks.recipe.web_steps import UrlRules
from tasks.sources.lines import DAMAGED
from tasks.sources.named_values import texts_in
from tasks.sources.small_files import PlannedFile, content_of, decompressed, planned_files
from tasks.sources.web_addresses import domain, normalised, with_parents
from tasks.storage.records import Record

VERSION = "2"  # raised when an address breaks other rules
RULE = "url_rules"
SENTENCES = {
    "domains": "its domain, or one that it is in, is in a list",
    "urls": "its address, or one that it is below, is in a list",
    "words": "a word of a list stands in its address",
    "subwords": "letters of a list stand in its address",
    "soft_words": "several words of a list stand in its address",
}
BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")
WITHOUT_SCHEME = re.compile(r"(//)?[^/\\:@?#\s]+\.[^/\\:@?#\s]+(:\d+)?([/?#]|$)")  # and with a host


class PlannedUrlRules(Record):
    """What a step says of addresses, with the files that it names as they were listed."""

    column: str
    soft_most: int
    files: tuple[tuple[str, tuple[PlannedFile, ...]], ...]
    version: str = VERSION


def planned_url_rules(said: UrlRules) -> PlannedUrlRules:
    """Find the files that a step names. Raises BadInput where one is not there or holds nothing."""
    files = tuple((kind, planned_files(f"{RULE}.{kind}", urls)) for kind, urls in said.files.items())
    planned = PlannedUrlRules(column=said.column, soft_most=said.soft_most, files=files)
    lists_of(planned)
    return planned


@dataclass(frozen=True)
class Lists:
    """What may not stand in addresses. domains, urls: as sorted hashes, (n,) uint64."""

    domains: NDArray[np.uint64]
    urls: NDArray[np.uint64]
    words: frozenset[str]
    subwords: tuple[str, ...]
    soft_words: frozenset[str]
    soft_most: int

    @cached_property
    def any_subword(self) -> re.Pattern[str]:
        longest_first = sorted(self.subwords, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) if longest_first else r"(?!)")

    def broken_by(self, address: str) -> tuple[str, str] | None:
        """Return the first kind of rule that an address breaks, and what in it does; None for one that stays."""
        known = compared(with_scheme(address.strip()))
        if known is None:
            return None
        host, whole = known
        if listed := first_in(self.domains, with_parents(host)):
            return "domains", listed
        if url := first_in(self.urls, [*beginnings(whole)] if len(self.urls) else ()):
            return "urls", url
        words = BETWEEN_WORDS.split(whole.lower())
        if found := next((word for word in words if word in self.words), None):
            return "words", found
        if subword := self.any_subword.search("".join(words)):
            return "subwords", subword[0]
        soft = dict.fromkeys(word for word in words if word in self.soft_words)
        return ("soft_words", " ".join(soft)) if len(soft) > self.soft_most else None


def hash_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def hashes_of(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return the hashes of texts, sorted: (n,) uint64."""
    return np.unique(np.fromiter(map(hash_of, texts), np.uint64))


def first_in(hashes: NDArray[np.uint64], texts: Iterable[str]) -> str | None:
    """Return the first of some texts whose hash is among others."""
    if not len(hashes):
        return None
    for text in texts:
        wanted = np.uint64(hash_of(text))
        place = int(np.searchsorted(hashes, wanted))
        if place < len(hashes) and hashes[place] == wanted:
            return text
    return None


def beginnings(address: str) -> Iterator[str]:
    """Return an address, and those that it is below, without the slash at their end."""
    bare = address.rstrip("/")
    yield bare
    path = bare.partition("?")[0]
    if path != bare:
        yield path.rstrip("/")
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


@lru_cache(maxsize=4)
def lists_of(planned: PlannedUrlRules) -> Lists:
    """Read the lists of a step. Raises BadInput where one has changed, is damaged or holds nothing."""
    texts = {kind: [*lines_of(kind, files)] for kind, files in planned.files}
    domains = (host for line in texts.get("domains", ()) if (host := host_in(line)))
    urls = (
        known[1].rstrip("/")
        for line in texts.get("urls", ())
        if (known := compared(line if "://" in line else f"https://{line}"))
    )
    return Lists(
        domains=hashes_of(domains),
        urls=hashes_of(urls),
        words=frozenset(words_in(texts.get("words", ()))),
        subwords=tuple(dict.fromkeys(words_in(texts.get("subwords", ())))),
        soft_words=frozenset(words_in(texts.get("soft_words", ()))),
        soft_most=planned.soft_most,
    )


def compared(address: str) -> tuple[str, str] | None:
    """Return the host of an address and the whole, both without a dot behind the host; None where it is none."""
    known = normalised(address)
    return known and (known[0], known[0] + known[1].removeprefix(known[0]).lstrip("."))


def with_scheme(address: str) -> str:
    """Return an address of the web that says no scheme with one, and any other text as it is."""
    return f"https://{address.removeprefix('//')}" if WITHOUT_SCHEME.match(address) else address


def host_in(line: str) -> str:
    """Return a domain of a list as those of addresses are compared."""
    host = line.lower().strip(".").removeprefix("*.")
    return host if host.isascii() else domain(host) or ""  # the former in haste: there are millions


def words_in(lines: Iterable[str]) -> Iterator[str]:
    """Yield the words of a list as they are looked for. No address has one in letters beyond ASCII as such."""
    bare = (BETWEEN_WORDS.sub("", line.lower()) for line in lines if line.isascii())
    return filter(None, bare)


def lines_of(kind: str, files: tuple[PlannedFile, ...]) -> Iterator[str]:
    """Yield the lines of lists that say something. Raises BadInput."""
    name, count = f"{RULE}.{kind}", 0
    for file in files:
        content = content_of(name, file)
        try:
            text = decompressed(content, file.listed.url).decode("utf-8-sig")
        except DAMAGED as error:
            raise BadInput(f"{name}, file {file.listed.url}: it cannot be read: {error}") from error
        for line in map(str.strip, text.splitlines()):
            if line and not line.startswith("#"):
                count += 1
                yield line
    if not count:
        raise BadInput(f"{name}: nothing stands in {', '.join(file.listed.url for file in files)}")


def judged_urls(planned: PlannedUrlRules, table: pa.Table) -> dict[str, pa.Array]:
    """Return what breaks each rule in the addresses of documents: (n,) strings, null where nothing does.

    table: (n,), the columns of the documents. Raises ValueError for a column that names no addresses.
    """
    lists, n = lists_of(planned), len(table)
    notes: dict[str, list[str | None]] = {kind: [None] * n for kind, _ in planned.files}
    for row, address in enumerate(texts_in(table, planned.column, "address").to_pylist()):
        found = lists.broken_by(address) if address else None
        if found:
            notes[found[0]][row] = found[1]
    return {f"{RULE}.{kind}": pa.array(of_kind, pa.string()) for kind, of_kind in notes.items()}


def rules_of(said: UrlRules) -> dict[str, str]:
    """Return the rules of a step, of those that it has, with what each means."""
    return {f"{RULE}.{kind}": SENTENCES[kind] for kind in said.files}
