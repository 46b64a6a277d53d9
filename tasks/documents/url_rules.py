"""The rules of the step `url_rules`: remove documents by their domain, their address, or words in the address.

Lists of domains have millions of lines and are held as sorted hashes. Words are runs of letters and digits, as in
RefinedWeb. A line of several words matches the words without the characters between them, as in datatrove, which
reads the same lists.
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

VERSION = "1"  # raised when the rules for an address change
RULE = "url_rules"
SENTENCES = {
    "domains": "its domain or a parent of its domain is in a list",
    "urls": "its address or an address above it is in a list",
    "words": "its address contains a word of a list",
    "subwords": "its address contains letters of a list",
    "soft_words": "its address contains several words of a list",
}
BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")
PLAIN_DOMAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*[a-z_]")


class PlannedUrlRules(Record):
    """The settings of a step, with its files as they were listed."""

    column: str
    soft_most: int
    files: tuple[tuple[str, tuple[PlannedFile, ...]], ...]
    version: str = VERSION


def plan_url_rules(settings: UrlRules) -> PlannedUrlRules:
    """Look up and read the files of a step. Raises BadInput for a missing or empty file."""
    files = tuple((kind, planned_files(f"{RULE}.{kind}", urls)) for kind, urls in settings.files.items())
    planned = PlannedUrlRules(column=settings.column, soft_most=settings.soft_most, files=files)
    lists_of(planned)
    return planned


@dataclass(frozen=True)
class AddressLists:
    """Forbidden parts of addresses. domains, urls: sorted hashes, (n,) uint64."""

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
        """Return the first kind of rule that an address breaks, and the matching part; None for no match."""
        parsed = normalise_address(address)
        if parsed is None:
            return None
        host, whole = parsed
        if domain := first_in(self.domains, host_and_parents(host)):
            return "domains", domain
        if url := longest_beginning(self.urls, whole):
            return "urls", url
        return self.broken_by_words(self.spellings(host, whole))

    def spellings(self, host: str, whole: str) -> list[list[str]]:
        """Return the words of an address, and its words without escapes if a list has letters beyond ASCII."""
        spellings = [BETWEEN_WORDS.split(whole.lower())]
        if self.has_letters_beyond_ascii and (shown := as_shown(host, whole)) is not None:
            spellings.append(words_of_any_script(shown))
        return spellings

    def broken_by_words(self, spellings: list[list[str]]) -> tuple[str, str] | None:
        """Return the first kind of rule that the words of an address break, and the matching words."""
        words = [*chain.from_iterable(spellings)]
        if word := next((word for word in words if word in self.words), None):
            return "words", word
        for spelling in spellings:
            if subword := self.any_subword.search("".join(spelling)):
                return "subwords", subword[0]
        soft = dict.fromkeys(word for word in words if word in self.soft_words)
        return ("soft_words", " ".join(soft)) if len(soft) > self.soft_most else None


def as_shown(host: str, whole: str) -> str | None:
    """Return an address in lower case as browsers show it, without escapes; None if that is ASCII only."""
    shown = ".".join(map(label_as_shown, host.split("."))) + unquote(whole[len(host) :])
    return None if shown.isascii() else shown.lower()


def words_of_any_script(text: str) -> list[str]:
    """Return the words of a text in NFC: runs of letters, digits and combining marks, such as vowels of Hindi."""
    characters = normalize("NFC", text)
    return "".join(c if c.isalnum() or category(c)[0] == "M" else " " for c in characters).split()


def label_as_shown(label: str) -> str:
    """Return a label of a domain with its Punycode decoded; other labels unchanged."""
    with suppress(UnicodeError):
        return label.removeprefix("xn--").encode().decode("punycode") if label.startswith("xn--") else label
    return label


def hash_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def hashes_of(texts: Iterable[str]) -> NDArray[np.uint64]:
    """Return the hashes of texts, sorted: (n,) uint64."""
    return np.unique(np.fromiter(map(hash_of, texts), np.uint64))


def first_in(hashes: NDArray[np.uint64], texts: Iterable[str]) -> str | None:
    """Return the first text whose hash is in `hashes`, or None. hashes: sorted, (n,) uint64."""
    if not len(hashes):
        return None
    for text in texts:
        wanted = np.uint64(hash_of(text))
        place = int(np.searchsorted(hashes, wanted))
        if place < len(hashes) and hashes[place] == wanted:
            return text
    return None


def longest_beginning(hashes: NDArray[np.uint64], address: str) -> str | None:
    """Return the longest address whose hash is in `hashes`: the address or an address above it; None for none.

    All addresses are without a slash at the end. Each character is hashed once.
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
    matches = np.flatnonzero(hashes[places] == values)
    return address[: [*ends, len(whole)][matches[-1]]] if len(matches) else None


@lru_cache(maxsize=4)
def lists_of(planned: PlannedUrlRules) -> AddressLists:
    """Read the lists of a step. Raises BadInput for a changed, damaged or empty file."""
    texts = {kind: entries_of_kind(kind, files) for kind, files in planned.files}
    return AddressLists(
        domains=hashes_of(texts.get("domains", ())),
        urls=hashes_of(texts.get("urls", ())),
        words=frozenset(words_in(texts.get("words", ()))),
        subwords=tuple(dict.fromkeys(words_in(texts.get("subwords", ())))),
        soft_words=frozenset(words_in(texts.get("soft_words", ()))),
        soft_most=planned.soft_most,
    )


def domains_in(line: str) -> list[str]:
    """Return the domains of a line in normalised form. Raises ValueError for a line with addresses."""
    if (host := line.strip().lower()) and PLAIN_DOMAIN.fullmatch(host):
        return [host]  # the fast path, for lists of millions of domains
    entries = entries_of(line)
    for entry in entries:
        if entry.kind != "domain" and entry.value.removesuffix("/") != entry.host:
            raise ValueError(f"{entry.value!r} is an address; list it under `urls`, or give its domain only")
    return [entry.host for entry in entries]


def urls_in(line: str) -> list[str]:
    """Return the addresses of a line. Raises ValueError for an invalid line."""
    if (host := line.strip().lower()) and PLAIN_DOMAIN.fullmatch(host):
        return [host]
    return [entry.value.rstrip("/") for entry in entries_of(line)]


def words_in(lines: Iterable[str]) -> Iterator[str]:
    """Yield the words of a list in the form in which they are compared."""
    for line in lines:
        words = BETWEEN_WORDS.split(line.lower()) if line.isascii() else words_of_any_script(line.lower())
        if word := "".join(words):
            yield word


def entries_of_kind(kind: str, files: tuple[PlannedFile, ...]) -> list[str]:
    """Return the entries of the lists of a kind. Raises BadInput for unreadable lines, and if all are empty."""
    read = {"domains": domains_in, "urls": urls_in}.get(kind, line_in)
    name, entries = f"{RULE}.{kind}", list[str]()
    for file in files:
        lines = lines_of_list(name, file)
        entries += read_entries(f"{name}: {file.listed.url}", lines, read, "are not in a known form")
    if not entries:
        raise BadInput(f"{name}: no entries in {', '.join(file.listed.url for file in files)}")
    return entries


def line_in(line: str) -> list[str]:
    """Return the line in a list; an empty list for a blank line or a comment."""
    line = line.strip()
    return [line] if line and not line.startswith("#") else []


def url_columns(planned: PlannedUrlRules, table: pa.Table) -> dict[str, pa.Array]:
    """Return the matching part of each address by rule: (n,) strings, null for documents that keep the rule.

    table: (n,), the columns of the documents. Raises ValueError for a column that cannot contain addresses.
    """
    lists, n = lists_of(planned), len(table)
    notes: dict[str, list[str | None]] = {kind: [None] * n for kind, _ in planned.files}
    for row, address in enumerate(column_texts(table, planned.column, "address").to_pylist()):
        if address and (match := lists.broken_by(address)):
            kind, part = match
            notes[kind][row] = part
    return {f"{RULE}.{kind}": pa.array(parts, pa.string()) for kind, parts in notes.items()}


def rules_of(settings: UrlRules) -> dict[str, str]:
    """Return the rules of a step with a sentence for each."""
    return {f"{RULE}.{kind}": SENTENCES[kind] for kind in settings.files}
