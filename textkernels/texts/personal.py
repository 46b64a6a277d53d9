r"""Personal data in texts: mail addresses, IP addresses, numbers of phones, cards and bank accounts.

The matches are the matches of Python's `re` in the whole text that a check confirms. A kernel finds windows that
may contain a match (`textkernels.rules.candidates`), and only these are searched by the expression.

    mail    an address by RFC 5322's rules for its characters, as in datatrove's PIIFormatter, also with accented
            Latin letters before the @; not a version
    ip      IPv4 as in datatrove, and IPv6, of no range that IANA reserves for private or special use
    iban    of the length of its country, with the remainder 1 modulo 97, in groups of four or without groups
    card    of a length of its issuer, with Luhn's check digit, in groups as on the card or without groups
    phone   `+` and the country, or (212) 555-0100, 212-555-0100, 212.555.0100, (020) 7946 0958

Groups may be separated by any space or dash of Unicode; cards and phones may have full-width digits. The kinds are
searched in this order; each kind is searched in the text in which the kinds before it were replaced.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import roomy_buffers
from zyda_flows.textkernels.rules.address_candidates import find_addresses
from zyda_flows.textkernels.rules.candidates import Find, windows_of
from zyda_flows.textkernels.rules.mail_candidates import find_mails
from zyda_flows.textkernels.rules.number_candidates import find_accounts, find_cards, find_phones
from zyda_flows.textkernels.texts.ip_addresses import IP, is_public
from zyda_flows.textkernels.texts.personal_forms import (
    CARD,
    MAIL,
    PHONE,
    iban_expression,
    is_card,
    is_iban,
    is_mail,
    is_phone,
)


class PersonalDataKind(NamedTuple):
    """A kind of personal data.

    is_valid: confirms a match. replacements: replacements, used in turn. ipv6_replacements: replacements for IPv6.
    """

    expression: re.Pattern[str]
    find: Find
    is_valid: Callable[[str], bool]
    replacements: tuple[str, ...]
    ipv6_replacements: tuple[str, ...] = ()


KINDS = {
    "mail": PersonalDataKind(
        re.compile(MAIL), find_mails, is_mail, ("email@example.com", "firstname.lastname@example.org")
    ),
    "ip": PersonalDataKind(
        IP,
        find_addresses,
        is_public,
        (
            "22.214.171.124", "126.96.36.199", "188.8.131.52", "184.108.40.206", "220.127.116.11",
            "18.104.22.168",
        ),
        ("2001:db8::1", "2001:db8::2"),
    ),
    "iban": PersonalDataKind(
        re.compile(iban_expression()), find_accounts, is_iban, ("GB82 WEST 1234 5698 7654 32",)
    ),
    "card": PersonalDataKind(re.compile(CARD), find_cards, is_card, ("4111 1111 1111 1111",)),
    "phone": PersonalDataKind(re.compile(PHONE), find_phones, is_phone, ("+1 202-555-0143",)),
}  # fmt: skip
MOST_BYTES = 4  # of a character
BYTES_OF_CHARACTER = b"\1" * 0xC0 + b"\2" * 0x20 + b"\3" * 0x10 + b"\4" * 0x10  # by its first byte
Place = tuple[int, int, int]  # a document, the first byte and the byte after the last


def find_matches(data: NDArray[np.uint8], ends: NDArray[np.int64], kind: PersonalDataKind) -> Iterator[Place]:
    """Yield the matches of a kind in order. data: has at least 64 bytes; ends: (n + 1,)."""
    view, last = memoryview(data.data), 0
    windows = windows_of(kind.find, data, ends)
    limits = (ends[windows[:, 0]], ends[windows[:, 0] + 1])
    for document, first, end, start, stop in np.column_stack((windows, *limits)).tolist():
        begin = max(first, last)  # the previous match has used the characters before
        low = max(start, begin - MOST_BYTES)
        high = end + BYTES_OF_CHARACTER[view[end]] if end < stop else end
        text = str(view[low:high], "utf-8", "ignore")  # from the first whole character
        is_ascii = len(text) == high - low
        character = begin - low if is_ascii else len(str(view[low:begin], "utf-8", "ignore"))
        last = begin
        for match in kind.expression.finditer(text, character):
            at, after = match.span()
            if is_ascii:
                at, last = low + at, low + after
            else:
                at = last + len(text[character:at].encode())
                last, character = at + len(match[0].encode()), after
            if kind.is_valid(match[0]):
                yield document, at, last


def replace_matches(
    texts: pa.LargeStringArray, kind: PersonalDataKind, replacement: str | None = None
) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Replace the matches of a kind; return the texts, and the number of matches in each, (n,) int64.

    replacement: without it, the replacements of the kind in turn, from the first in each text.
    """
    data, ends = roomy_buffers(texts)
    counts, changed = np.zeros(len(texts), np.int64), list[bytes]()
    wanted = kind.replacements if replacement is None else (replacement,)
    replacements = [text.encode() for text in wanted]
    ipv6 = [text.encode() for text in kind.ipv6_replacements] if replacement is None else []
    for document, places in groupby(find_matches(data, ends, kind), itemgetter(0)):
        document_matches = list(places)
        counts[document] = len(document_matches)
        turns: Iterator[bytes] = cycle(replacements)
        if ipv6:
            turns = ip_replacements(memoryview(data.data), document_matches, replacements, ipv6)
        limits = ends[document : document + 2].tolist()
        changed.append(with_replacements(memoryview(data.data), document_matches, turns, limits))
    if not changed:
        return texts, counts
    column = pa.array(changed, pa.large_string())
    return pc.replace_with_mask(texts, pa.array(counts > 0), column), counts


def ip_replacements(
    view: memoryview, places: Iterable[Place], ipv4: Sequence[bytes], ipv6: Sequence[bytes]
) -> Iterator[bytes]:
    """Yield the replacement of each IP address: of the same version, in turn."""
    turns = cycle(ipv4), cycle(ipv6)
    for _, begin, end in places:
        yield next(turns[b":" in view[begin:end].tobytes()])


def with_replacements(
    view: memoryview, places: Iterable[Place], replacements: Iterable[bytes], ends: Sequence[int]
) -> bytes:
    """Return the bytes of a document, from the first of `ends` to the other, with some places replaced."""
    start, stop = ends
    parts = list[bytes | memoryview]()
    for (_, begin, end), replacement in zip(places, replacements, strict=False):
        parts += [view[start:begin], replacement]
        start = end
    return b"".join([*parts, view[start:stop]])


def count_matches(texts: pa.LargeStringArray) -> dict[str, NDArray[np.int64]]:
    """Count each kind in each text, (n,) int64, as if all kinds were replaced."""
    counts = dict[str, NDArray[np.int64]]()
    for name, kind in KINDS.items():
        texts, counts[name] = replace_matches(texts, kind)
    return counts
