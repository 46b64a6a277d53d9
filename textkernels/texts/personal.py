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
from zyda_flows.textkernels.rules.plain import written_as
from zyda_flows.textkernels.texts.ip_addresses import IP, IPV4, OCTET, is_public

ACCENTED = "\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f"  # accented Latin letters
ATOM = rf"[A-Za-z0-9{ACCENTED}!#$%&'*+/=?^_`{{|}}~-]+"
LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
LITERAL = rf"\[(?:{OCTET}\.){{3}}(?:{OCTET}|[A-Za-z0-9-]*[A-Za-z0-9]:)\]"
AT = f"[{written_as('@')}]"
NAME_BEGINS = rf"(?:(?a:\b)|(?<![A-Za-z0-9_{ACCENTED}])(?=[{ACCENTED}]))"
MAIL = rf"{NAME_BEGINS}{ATOM}(?:\.{ATOM})*{AT}(?:(?:{LABEL}\.)+{LABEL}|{LITERAL})"
# Not domains: versions (lodash@4.17.21, name@1.0rc1, name@2.x, name@v1.2.3-beta.1), and images by their scale.
NO_DOMAIN = re.compile(
    rf"{AT}(?!{IPV4}$)(?:v?[0-9]+\.(?:x|[0-9]+(?:(?:a|b|c|rc|alpha|beta|dev|post|pre)[0-9]*)?)(?![A-Za-z0-9])"
    r"|[0-9.]+x\.(?:png|jpe?g|gif|webp|svg)$)",
    re.IGNORECASE,
)
# The characters of numbers: the plain characters and their substitutes in Unicode.
DIGIT, SPACE, DASH, PLUS, OPEN, CLOSE = (
    f"[{written_as(plain)}]" for plain in ("0123456789", " ", "-", "+", "(", ")")
)
GAP = f"[{written_as(' .-')}]"  # between the groups of a phone
# Not in longer numbers, names and paths; a number in groups has no further group beside it.
NOT_AFTER = rf"(?<![A-Za-z_\d/#\u2010\u2011{written_as('+')}-])(?<!{DIGIT}[{written_as('.)')}])"
NOT_BEFORE = r"(?!\.?\d|[\u2010\u2011-]?[A-Za-z_\d])"
NO_GROUP_BEFORE, NO_GROUP_AFTER = f"(?<!{DIGIT}{SPACE})", f"(?!{SPACE}{DIGIT})"


def digits(first: int, last: int) -> str:
    """Return the expression for a digit, plain or full-width, from the first to the last."""
    return f"[{first}-{last}{chr(0xFF10 + first)}-{chr(0xFF10 + last)}]"


FOREIGN = (
    rf"{PLUS}{digits(1, 9)}(?:{DIGIT}{{9,14}}|{DIGIT}{{0,5}}"
    rf"(?:{GAP}?{OPEN}{DIGIT}{{1,4}}{CLOSE}{GAP}?{DIGIT}{{2,8}}|{GAP}{DIGIT}{{1,8}})(?:{GAP}{DIGIT}{{2,8}}){{0,4}})"
)
AREA = f"{digits(2, 9)}{DIGIT}{{2}}"
AMERICAN = (
    rf"(?:{digits(1, 1)}{GAP})?(?:{OPEN}{AREA}{CLOSE}{GAP}?{AREA}{GAP}|{AREA}{DASH}{AREA}{DASH}"
    rf"|{AREA}\.{AREA}\.){DIGIT}{{4}}"
)
WITH_TRUNK = (
    rf"{OPEN}{digits(0, 0)}{digits(1, 9)}{DIGIT}{{0,3}}{CLOSE}{GAP}?{DIGIT}{{3,4}}{GAP}?{DIGIT}{{3,4}}"
)
PHONE = rf"{NOT_AFTER}(?:{FOREIGN}|{NO_GROUP_BEFORE}(?:{AMERICAN}|{WITH_TRUNK})){NO_GROUP_AFTER}{NOT_BEFORE}"
IN_GROUPS = "|".join(
    rf"{digits(2, 6)}{DIGIT}{{3}}{gap}"
    rf"(?:{DIGIT}{{4}}{gap}{DIGIT}{{4}}{gap}{DIGIT}{{4}}(?:{gap}{DIGIT}{{3}})?|{DIGIT}{{6}}{gap}{DIGIT}{{4,5}})"
    for gap in (SPACE, DASH)
)
GROUPS_ALONE = f"{NO_GROUP_BEFORE}(?:{IN_GROUPS}){NO_GROUP_AFTER}"
CARD = f"{NOT_AFTER}(?:{digits(2, 6)}{DIGIT}{{13,18}}|{GROUPS_ALONE}){NOT_BEFORE}"
# The first and last prefix of four digits of an issuer's numbers, and their possible lengths.
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


def is_mail(found: str) -> bool:
    """Return whether the domain of a match is a domain, and not a version or the name of an image."""
    return not NO_DOMAIN.search(found)


def digits_of(found: str) -> str:
    """Return the digits of a match, also full-width digits, as plain digits."""
    return "".join(str(int(character)) for character in found if character.isdecimal())


def is_card(found: str) -> bool:
    """Return whether an issuer has numbers of this prefix and length, and Luhn's sum is a multiple of ten."""
    digits = digits_of(found)
    if not any(first <= int(digits[:4]) <= last and len(digits) in sizes for first, last, sizes in ISSUERS):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def is_iban(found: str) -> bool:
    """Return whether the remainder modulo 97 is 1 for the number that ISO 7064 makes of letters and digits."""
    characters = "".join(character for character in found if character.isalnum())
    return int("".join(str(int(character, 36)) for character in characters[4:] + characters[:4])) % 97 == 1


def is_phone(found: str) -> bool:
    """Return whether the number of digits is valid for a phone: 9 to 15, 11 for North America."""
    digits = digits_of(found)
    if digits.startswith("1"):
        return len(digits) == 11 and digits[1] >= "2" and digits[4] >= "2"
    return 9 <= len(digits) <= 15


def iban_expression() -> str:
    """Return the expression for a country's two letters, two digits and as many characters as the country has."""
    forms = list[str]()
    for size, countries in COUNTRIES.items():
        groups, rest = divmod(size - 4, 4)
        written = [
            rf"(?:{gap}[A-Z0-9]{{4}}){{{groups}}}" + (rf"{gap}[A-Z0-9]{{{rest}}}" if rest else "")
            for gap in ("", SPACE, DASH)
        ]
        forms.append(rf"(?:{countries.replace(' ', '|')})[0-9]{{2}}(?:{'|'.join(written)})")
    return rf"(?<![A-Za-z_\d])(?:{'|'.join(forms)})(?![A-Za-z_\d])"


class Kind(NamedTuple):
    """A kind of personal data.

    is_valid: confirms a match. replacements: replacements, used in turn. ipv6_replacements: replacements for IPv6.
    """

    expression: re.Pattern[str]
    find: Find
    is_valid: Callable[[str], bool]
    replacements: tuple[str, ...]
    ipv6_replacements: tuple[str, ...] = ()


KINDS = {
    "mail": Kind(
        re.compile(MAIL), find_mails, is_mail, ("email@example.com", "firstname.lastname@example.org")
    ),
    "ip": Kind(
        IP,
        find_addresses,
        is_public,
        (
            "22.214.171.124", "126.96.36.199", "188.8.131.52", "184.108.40.206", "220.127.116.11",
            "18.104.22.168",
        ),
        ("2001:db8::1", "2001:db8::2"),
    ),
    "iban": Kind(re.compile(iban_expression()), find_accounts, is_iban, ("GB82 WEST 1234 5698 7654 32",)),
    "card": Kind(re.compile(CARD), find_cards, is_card, ("4111 1111 1111 1111",)),
    "phone": Kind(re.compile(PHONE), find_phones, is_phone, ("+1 202-555-0143",)),
}  # fmt: skip
MOST_BYTES = 4  # of a character
BYTES_OF_CHARACTER = b"\1" * 0xC0 + b"\2" * 0x20 + b"\3" * 0x10 + b"\4" * 0x10  # by its first byte
Place = tuple[int, int, int]  # a document, the first byte and the byte after the last


def find_matches(data: NDArray[np.uint8], ends: NDArray[np.int64], kind: Kind) -> Iterator[Place]:
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
    texts: pa.LargeStringArray, kind: Kind, replacement: str | None = None
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
