r"""Personal data in texts: mail addresses, IP addresses, numbers of phones, cards and bank accounts.

What is found is what Python's `re` finds in the whole text, and a check confirms. A kernel says where that may be
(`textkernels.rules.candidates`), and the expression is asked there alone.

    mail    an address by RFC 5322's rules for its characters, as datatrove's PIIFormatter has it
    ip      IPv4, as there, of no range that IANA keeps for private or special use
    iban    of the length that its country has, with the remainder 1 modulo 97, in groups of four or in one
    card    of a length that its issuer has, with Luhn's check digit, in groups as on the card or in one
    phone   `+` and the country, or (212) 555-0100, 212-555-0100, 212.555.0100, (020) 7946 0958

They are looked for in this order, each in what the ones before it left.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from itertools import cycle, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from textkernels.buffers import roomy_buffers
from textkernels.rules.candidates import (
    Find,
    find_accounts,
    find_addresses,
    find_cards,
    find_mails,
    find_phones,
    windows_of,
)

ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
OCTET = "(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)"
LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
LITERAL = rf"\[(?:{OCTET}\.){{3}}(?:{OCTET}|[A-Za-z0-9-]*[A-Za-z0-9]:)\]"
MAIL = rf"\b{ATOM}(?:\.{ATOM})*@(?:(?:{LABEL}\.)+{LABEL}|{LITERAL})"
IP = rf"(?:{OCTET}\.){{3}}{OCTET}"
# Not in longer numbers, names and paths; a number in groups does not stand beside another group either.
NOT_AFTER, NOT_BEFORE = r"(?<![\w+/#-])(?<![0-9][.)])", r"(?!\.?[0-9]|-?\w)"
NO_GROUP_BEFORE, NO_GROUP_AFTER = "(?<![0-9] )", "(?! [0-9])"
FOREIGN = (
    r"\+[1-9](?:[0-9]{9,14}|[0-9]{0,5}"
    r"(?:[ .-]?\([0-9]{1,4}\)[ .-]?[0-9]{2,8}|[ .-][0-9]{1,8})(?:[ .-][0-9]{2,8}){0,4})"
)
AMERICAN = (
    r"(?:1[ .-])?(?:\([2-9][0-9]{2}\)[ .-]?[2-9][0-9]{2}[ .-]|[2-9][0-9]{2}([.-])[2-9][0-9]{2}\1)[0-9]{4}"
)
WITH_TRUNK = r"\(0[1-9][0-9]{0,3}\)[ .-]?[0-9]{3,4}[ .-]?[0-9]{3,4}"
PHONE = rf"{NOT_AFTER}(?:{FOREIGN}|{NO_GROUP_BEFORE}(?:{AMERICAN}|{WITH_TRUNK})){NO_GROUP_AFTER}{NOT_BEFORE}"
IN_GROUPS = r"[2-6][0-9]{3}([ -])(?:[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?|[0-9]{6}\1[0-9]{4,5})"
CARD = rf"{NOT_AFTER}(?:[2-6][0-9]{{13,18}}|{NO_GROUP_BEFORE}{IN_GROUPS}{NO_GROUP_AFTER}){NOT_BEFORE}"
# Where the numbers of an issuer begin and end, in their first four digits, and how many digits they have.
ISSUERS = (
    (2200, 2204, (16, 17, 18, 19)), (2221, 2720, (16,)), (3000, 3059, (14,)), (3400, 3499, (15,)),
    (3528, 3589, (16,)), (3600, 3699, (14,)), (3700, 3799, (15,)), (3800, 3999, (14,)), (4000, 4999, (16,)),
    (5000, 5099, (16,)), (5100, 5599, (16,)), (5600, 5899, (16,)), (6011, 6011, (16, 19)),
    (6200, 6299, (16, 17, 18, 19)), (6304, 6304, (16,)), (6440, 6599, (16, 19)), (6759, 6763, (16,)),
)  # fmt: skip
COUNTRIES = {
    15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC",
    32: "LC", 33: "RU",
}  # fmt: skip
# IANA's registry of IPv4 addresses for special use, those that are not globally reachable.
SPECIAL = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
)  # fmt: skip
REACHABLE = ("192.0.0.9", "192.0.0.10")  # all the same
NETWORKS = [(int(one.network_address), int(one.netmask)) for one in map(IPv4Network, SPECIAL)]


def is_public(address: str) -> bool:
    """Say whether four numbers, none of them written with zeros before it, are an address that all can reach."""
    octets = address.split(".")
    if any(octet != str(int(octet)) for octet in octets):
        return False
    number = int(IPv4Address(address))
    return address in REACHABLE or all(number & mask != network for network, mask in NETWORKS)


def digits_of(found: str) -> str:
    return "".join(character for character in found if "0" <= character <= "9")


def is_card(found: str) -> bool:
    """Say whether an issuer has numbers of such a beginning and length, and Luhn's sum is a multiple of ten."""
    digits = digits_of(found)
    if not any(first <= int(digits[:4]) <= last and len(digits) in sizes for first, last, sizes in ISSUERS):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def is_iban(found: str) -> bool:
    """Say whether the remainder modulo 97 is 1, of the number that ISO 7064 makes of letters and digits."""
    characters = found.replace(" ", "")
    return int("".join(str(int(one, 36)) for one in characters[4:] + characters[:4])) % 97 == 1


def is_phone(found: str) -> bool:
    """Say whether there are as many digits as such a number has: 9 to 15, 11 of North America."""
    digits = digits_of(found)
    if digits.startswith("1"):
        return len(digits) == 11 and digits[1] >= "2" and digits[4] >= "2"
    return 9 <= len(digits) <= 15


def iban_expression() -> str:
    """Return the expression for two letters of a country, two digits and as many characters as are right there."""
    forms = list[str]()
    for size, countries in COUNTRIES.items():
        groups, rest = divmod(size - 8, 4)
        last = rf"\{len(forms) + 1}[A-Z0-9]{{{rest}}}" if rest else ""
        following = rf"(?:\{len(forms) + 1}[A-Z0-9]{{4}}){{{groups}}}{last}"
        forms.append(rf"(?:{countries.replace(' ', '|')})[0-9]{{2}}( ?)[A-Z0-9]{{4}}{following}")
    return rf"(?<!\w)(?:{'|'.join(forms)})(?!\w)"


class Kind(NamedTuple):
    """One kind of personal data. is_one: confirms what is found. stands_in: what is put there, in turn."""

    expression: re.Pattern[str]
    find: Find
    is_one: Callable[[str], bool]
    stands_in: tuple[str, ...]


KINDS = {
    "mail": Kind(
        re.compile(MAIL),
        find_mails,
        bool,
        ("email@example.com", "firstname.lastname@example.org"),
    ),
    "ip": Kind(
        re.compile(IP),
        find_addresses,
        is_public,
        (
            "22.214.171.124", "126.96.36.199", "188.8.131.52", "184.108.40.206", "220.127.116.11",
            "18.104.22.168",
        ),
    ),
    "iban": Kind(re.compile(iban_expression()), find_accounts, is_iban, ("GB82 WEST 1234 5698 7654 32",)),
    "card": Kind(re.compile(CARD), find_cards, is_card, ("4111 1111 1111 1111",)),
    "phone": Kind(re.compile(PHONE), find_phones, is_phone, ("+1 202-555-0143",)),
}  # fmt: skip
Place = tuple[int, int, int]  # of a document, and from which byte to which


def found(data: NDArray[np.uint8], ends: NDArray[np.int64], kind: Kind) -> Iterator[Place]:
    """Yield the places of one kind in their order. data: has 64 bytes or more; ends: (n + 1,)."""
    view, last = memoryview(data.data), 0
    for document, first, end in windows_of(kind.find, data, ends).tolist():
        begin = max(first, last)  # what was found before has taken its characters
        text, before = with_neighbours(view, begin, end, int(ends[document]), int(ends[document + 1]))
        for match in kind.expression.finditer(text, before):
            if kind.is_one(match[0]):
                yield document, begin + match.start() - before, begin + match.end() - before
            last = begin + match.end() - before


def with_neighbours(view: memoryview, begin: int, end: int, start: int, stop: int) -> tuple[str, int]:
    """Decode a window with a character on either side, where there is one; return how many stand before it."""
    before, after = begin, end
    while before > start:
        before -= 1
        if view[before] & 0xC0 != 0x80:
            break
    while after < stop:
        after += 1
        if after == stop or view[after] & 0xC0 != 0x80:
            break
    return str(view[before:after], "utf-8"), int(before < begin)


def replaced(
    texts: pa.LargeStringArray, kind: Kind, stands_in: Sequence[str]
) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Replace what is found of a kind; return the texts, and how many there were in each, (n,) int64.

    stands_in: what is put there, in turn, from the first one on in every text.
    """
    data, ends = roomy_buffers(texts)
    counts, changed = np.zeros(len(texts), np.int64), list[bytes]()
    encoded = [one.encode() for one in stands_in]
    for document, places in groupby(found(data, ends, kind), itemgetter(0)):
        of_document = list(places)
        counts[document] = len(of_document)
        changed.append(
            with_others(memoryview(data.data), of_document, encoded, ends[document : document + 2].tolist())
        )
    if not changed:
        return texts, counts
    column = pa.array(changed, pa.large_string())
    return pc.replace_with_mask(texts, pa.array(counts > 0), column), counts


def with_others(
    view: memoryview, places: Iterable[Place], stands_in: Sequence[bytes], ends: Sequence[int]
) -> bytes:
    """Return the bytes of a document, from the first of `ends` to the other, with others in some places."""
    start, stop = ends
    parts = list[bytes | memoryview]()
    for (_, begin, end), instead in zip(places, cycle(stands_in), strict=False):
        parts += [view[start:begin], instead]
        start = end
    return b"".join([*parts, view[start:stop]])


def counted(texts: pa.LargeStringArray) -> dict[str, NDArray[np.int64]]:
    """Count each kind in each text, (n,) int64, as many as are replaced where all kinds are."""
    counts = dict[str, NDArray[np.int64]]()
    for name, kind in KINDS.items():
        texts, counts[name] = replaced(texts, kind, kind.stands_in)
    return counts
