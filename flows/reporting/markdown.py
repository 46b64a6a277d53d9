"""Markdown for Prefect's dashboard, which shows each line end in a paragraph as a break."""

import html
import re
from collections.abc import Iterable, Sequence

SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>#|"})
LOST, MOST_LOSSES = "🔴", 20  # a mark for both dashboards, which remove the colours of texts
LINK = re.compile(
    r"(\]\(\s*|\]:\s*)(<[^>]*>|[^)\s>]+)|(<[^>\s]+>)"
)  # the text before a target, and the target
PAGES = ("http", "https")
FULL, EMPTY = "█", "░"


def table(names: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Return a table: the first `left` columns are texts, the others are numbers, aligned to the right."""
    rule = ["---"] * left + ["---:"] * (len(names) - left)
    lines = [names, rule, *(list(map(in_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def in_cell(text: str) -> str:
    """Return a text in one line, with its pipes escaped, for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def plain(text: str) -> str:
    """Return a text in one line, with all special characters of Markdown escaped."""
    return " ".join(text.split()).translate(SPECIAL)


def without_code(text: str) -> str:
    """Replace link targets that a browser would execute, such as `javascript:`, which recipes can contain."""
    return LINK.sub(
        lambda link: link[0] if leads_to_a_page(link[2] or link[3]) else f"{link[1] or ''}#", text
    )


def leads_to_a_page(target: str) -> bool:
    """Return whether a link's target is a web page, a place on the same page, or an embedded image."""
    plain_target = "".join(
        c for c in html.unescape(target).lstrip("<") if c.isprintable() and not c.isspace()
    )
    scheme = re.match(r"([a-z][a-z0-9+.-]*):", plain_target, re.IGNORECASE)
    return not scheme or scheme[1].lower() in PAGES or plain_target.startswith("data:image/")


def bar(fraction: float, width: int = 10) -> str:
    """Return a bar of characters for a fraction; only the fraction 1 has a full bar."""
    done = min(round(fraction * width), width - (fraction < 1))
    return FULL * done + EMPTY * (width - done)


def unwrap(text: str) -> str:
    """Join the lines of each paragraph and of each list item; tables, headings and code blocks do not change."""
    out, in_block = list[str](), False
    for line in text.splitlines():
        in_block ^= line.startswith("```")
        continues = bool(out) and not in_block and is_prose(line) and (is_prose(out[-1]) or is_item(out[-1]))
        if continues:
            out[-1] = f"{out[-1]} {line.strip()}"
        else:
            out.append(line)
    return "\n".join(out) + "\n"


def is_prose(line: str) -> bool:
    return bool(line.strip()) and not re.match(r"\s*([#|>]|```|[-*] |\d+\. |!\[)", line)


def is_item(line: str) -> bool:
    return bool(re.match(r"\s*([-*] |\d+\. )", line))


def duration(seconds: float) -> str:
    """Return seconds in the two largest units: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    for size, name, lower, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // lower
            return f"{whole // size} {name}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"
