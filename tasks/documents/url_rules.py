"""Which documents go for their address: its domain, the address itself, or words in it.

Lists of domains have millions of lines: they are held as sorted hashes. Words are those that RefinedWeb counts:
between other characters than letters and digits. A line of several words is one without what is between them, as
datatrove reads the same lists.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain
from unicodedata import category, normalize
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.recipe.steps.url_rules import UrlRules
from zyda_flows.tasks.sources.address_lists import entries_of, lines_of_list, read_entries
from zyda_flows.tasks.sources.named_values import column_texts
from zyda_flows.tasks.sources.small_files import PlannedFile, planned_files
from zyda_flows.tasks.sources.web_addresses import folder_ends, host_and_parents, normalise_address
from zyda_flows.tasks.storage.records import Record

VERSION = "1"  # raised when an address breaks other rules
RULE = "url_rules"
SENTENCES = {
    "domains": "its domain, or one that it is in, is in a list",
    "urls": "its address, or one that it is below, is in a list",
    "words": "a word of a list stands in its address",
    "subwords": "letters of a list stand in its address",
    "soft_words": "several words of a list stand in its address",
}
BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")
PLAIN_DOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*[a-z_]")


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

    @cached_property
    def has_letters_beyond_ascii(self) -> bool:
        return not all(map(str.isascii, chain(self.words, self.subwords, self.soft_words)))

    def broken_by(self, address: str) -> tuple[str, str] | None:
        """Return the first kind of rule that an address breaks, and what in it does; None for one that stays."""
        known = normalise_address(address)
        if known is None:
            return None
        host, whole = known
        if listed := first_in(self.domains, host_and_parents(host)):
            return "domains", listed
        if url := longest_beginning(self.urls, whole):
            return "urls", url
        spellings = [BETWEEN_WORDS.split(whole.lower())]
        if self.has_letters_beyond_ascii and (shown := as_shown(host, whole)) is not None:
            spellings.append(words_of_any_script(shown))
        words = [*chain.from_iterable(spellings)]
        if found := next((word for word in words if word in self.words), None):
            return "words", found
        for spelling in spellings:
            if subword := self.any_subword.search("".join(spelling)):
                return "subwords", subword[0]
        soft = dict.fromkeys(word for word in words if word in self.soft_words)
        return ("soft_words", " ".join(soft)) if len(soft) > self.soft_most else None


def as_shown(host: str, whole: str) -> str | None:
    """Return an address in small letters as browsers show it, without escapes; None if it is the same in ASCII."""
    shown = ".".join(map(label_as_shown, host.split("."))) + unquote(whole[len(host) :])
    return None if shown.isascii() else shown.lower()


def words_of_any_script(text: str) -> list[str]:
    """Return the words of a text in NFC: letters, digits and their marks, as vowels of Hindi."""
    characters = normalize("NFC", text)
    return "".join(c if c.isalnum() or category(c)[0] == "M" else " " for c in characters).split()


def label_as_shown(label: str) -> str:
    """Return a label of a domain in its own letters; one that is no Punycode as it is."""
    with suppress(UnicodeError):
        return label.removeprefix("xn--").encode().decode("punycode") if label.startswith("xn--") else label
    return label


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


def longest_beginning(hashes: NDArray[np.uint64], address: str) -> str | None:
    """Return an address, or the longest of those that it is below, whose hash is among others.

    All are without a slash at their end. Each character is hashed once.
    """
    if not len(hashes):
        return None
    path = address.partition("?")[0]
    ends = [*folder_ends(address), len(path)]
    hashed, start, wanted = blake2b(digest_size=8), 0, list[int]()
    for end in ends:
        hashed.update(path[start:end].encode())
        start = end
        wanted.append(int.from_bytes(hashed.digest(), "little"))
    whole = address.rstrip("/")
    values = np.array([*wanted, hash_of(whole)], np.uint64)
    places = np.minimum(np.searchsorted(hashes, values), len(hashes) - 1)
    found = np.flatnonzero(hashes[places] == values)
    return address[: [*ends, len(whole)][found[-1]]] if len(found) else None


@lru_cache(maxsize=4)
def lists_of(planned: PlannedUrlRules) -> Lists:
    """Read the lists of a step. Raises BadInput where one has changed, is damaged or holds nothing."""
    texts = {kind: entries_of_kind(kind, files) for kind, files in planned.files}
    return Lists(
        domains=hashes_of(texts.get("domains", ())),
        urls=hashes_of(texts.get("urls", ())),
        words=frozenset(words_in(texts.get("words", ()))),
        subwords=tuple(dict.fromkeys(words_in(texts.get("subwords", ())))),
        soft_words=frozenset(words_in(texts.get("soft_words", ()))),
        soft_most=planned.soft_most,
    )


def domains_in(line: str) -> list[str]:
    """Return the domains of a line as they are compared. Raises ValueError for a line that has others."""
    if (host := line.strip().lower()) and PLAIN_DOMAIN.fullmatch(host):
        return [host]  # in haste: there are millions
    entries = entries_of(line)
    for entry in entries:
        if entry.kind != "domain" and entry.value.removesuffix("/") != entry.host:
            raise ValueError(f"{entry.value!r} is an address; list it under `urls`, or its domain alone")
    return [entry.host for entry in entries]


def urls_in(line: str) -> list[str]:
    """Return the addresses of a line. Raises ValueError for a line that has others."""
    if (host := line.strip().lower()) and PLAIN_DOMAIN.fullmatch(host):
        return [host]
    return [entry.value.rstrip("/") for entry in entries_of(line)]


def words_in(lines: Iterable[str]) -> Iterator[str]:
    """Yield the words of a list as they are looked for, without what stands between words."""
    for line in lines:
        words = BETWEEN_WORDS.split(line.lower()) if line.isascii() else words_of_any_script(line.lower())
        if word := "".join(words):
            yield word


def entries_of_kind(kind: str, files: tuple[PlannedFile, ...]) -> list[str]:
    """Return the entries of lists. Raises BadInput where one cannot be read, or all are empty."""
    read = {"domains": domains_in, "urls": urls_in}.get(kind, line_in)
    name, entries = f"{RULE}.{kind}", list[str]()
    for file in files:
        lines = lines_of_list(name, file)
        entries += read_entries(f"{name}: {file.listed.url}", lines, read, "are not in a form that is known")
    if not entries:
        raise BadInput(f"{name}: nothing stands in {', '.join(file.listed.url for file in files)}")
    return entries


def line_in(line: str) -> list[str]:
    """Return a line of words, if it has any."""
    line = line.strip()
    return [line] if line and not line.startswith("#") else []


def judged_urls(planned: PlannedUrlRules, table: pa.Table) -> dict[str, pa.Array]:
    """Return what breaks each rule in the addresses of documents: (n,) strings, null where nothing does.

    table: (n,), the columns of the documents. Raises ValueError for a column that names no addresses.
    """
    lists, n = lists_of(planned), len(table)
    notes: dict[str, list[str | None]] = {kind: [None] * n for kind, _ in planned.files}
    for row, address in enumerate(column_texts(table, planned.column, "address").to_pylist()):
        found = lists.broken_by(address) if address else None
        if found:
            notes[found[0]][row] = found[1]
    return {f"{RULE}.{kind}": pa.array(of_kind, pa.string()) for kind, of_kind in notes.items()}


def rules_of(said: UrlRules) -> dict[str, str]:
    """Return the rules of a step, of those that it has, with what each means."""
    return {f"{RULE}.{kind}": SENTENCES[kind] for kind in said.files}
