"""Write links, exponents and character references of wikitext as text."""

import html
import re

from zyda_flows.tasks.extraction.wikitext_namespaces import UNSHOWN

ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*:\S")
RAISED = str.maketrans("0123456789+-\u2212", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")


def unescape(text: str) -> str:
    """Return a text with its character references resolved. As in MediaWiki, they must end with a semicolon."""
    return ENTITY.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def text_of_exponent(text: str) -> str:
    """Return a number in superscript characters, and other superscript text, as in `1st`, unchanged."""
    number = unescape(text).strip()
    return number.translate(RAISED) if all(ord(character) in RAISED for character in number) else text


def text_of_link(parts: list[str]) -> str:
    """Return the label of a link, or "" for a picture, a category or the same page in another language.

    parts: the target and the parts of the label.
    """
    target = parts[0].strip()
    space, colon, _ = target.partition(":")
    if (colon and space.replace("_", " ").strip().lower() in UNSHOWN) or (
        len(parts) == 1 and LANGUAGE_LINK.match(target)
    ):
        return ""
    if len(parts) == 1:
        return target.removeprefix(":")
    # An empty label means the target without a namespace and parentheses.
    return "|".join(parts[1:]) or target.partition(":")[2].partition(" (")[0] or target.partition(" (")[0]
