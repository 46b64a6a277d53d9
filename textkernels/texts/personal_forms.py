"""The forms of personal data: regular expressions for mails, phones, cards and accounts, and checks of matches."""

import re

from zyda_flows.textkernels.rules.plain import written_as
from zyda_flows.textkernels.texts.ip_addresses import IPV4, OCTET

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
