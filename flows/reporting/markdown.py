"""Markdown as Prefect's dashboard shows it: each line end in a paragraph is a break there."""

import html
import re
from collections.abc import Iterable, Sequence

SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>#|"})
LOST, MOST_LOSSES = "🔴", 20  # a mark that both dashboards show: they take the colours out of texts
LINK = re.compile(
    r"(\]\(\s*|\]:\s*)(<[^>]*>|[^)\s>]+)|(<[^>\s]+>)"
)  # what comes before a target, and the target
PAGES = ("http", "https")
FULL, EMPTY = "█", "░"


def table(names: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """Write a table, of which the first columns are texts and the others numbers, aligned to the right."""
    rule = ["---"] * left + ["---:"] * (len(names) - left)
    lines = [names, rule, *(list(map(in_cell, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def in_cell(text: str) -> str:
    """Write a text so that it stays in its cell."""
    return " ".join(text.split()).replace("|", "\\|")


def plain(text: str) -> str:
    """Write a text so that nothing in it means anything in Markdown."""
    return " ".join(text.split()).translate(SPECIAL)


def without_code(text: str) -> str:
    """Take the target out of each link that a browser would run: recipes can have some."""
    return LINK.sub(
        lambda link: link[0] if leads_to_a_page(link[2] or link[3]) else f"{link[1] or ''}#", text
    )


def leads_to_a_page(target: str) -> bool:
    """Say whether a link's target is a page, a place on this one, or a picture that is in it."""
    plain_target = "".join(
        c for c in html.unescape(target).lstrip("<") if c.isprintable() and not c.isspace()
    )
    scheme = re.match(r"([a-z][a-z0-9+.-]*):", plain_target, re.IGNORECASE)
    return not scheme or scheme[1].lower() in PAGES or plain_target.startswith("data:image/")


def bar(fraction: float, width: int = 10) -> str:
    """Draw a fraction as characters; it is full only where nothing is missing."""
    done = min(round(fraction * width), width - (fraction < 1))
    return FULL * done + EMPTY * (width - done)


def unwrap(text: str) -> str:
    """Join the lines of each paragraph and of each item of a list; tables, headings and blocks stay as they are."""
    out, in_block = list[str](), False
    for line in text.splitlines():
        in_block ^= line.startswith("```")
        goes_on = bool(out) and not in_block and is_prose(line) and (is_prose(out[-1]) or is_item(out[-1]))
        if goes_on:
            out[-1] = f"{out[-1]} {line.strip()}"
        else:
            out.append(line)
    return "\n".join(out) + "\n"


def is_prose(line: str) -> bool:
    return bool(line.strip()) and not re.match(r"\s*([#|>]|```|[-*] |\d+\. |!\[)", line)


def is_item(line: str) -> bool:
    return bool(re.match(r"\s*([-*] |\d+\. )", line))


def duration(seconds: float) -> str:
    """Write seconds as people say them: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    for size, name, lower, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // lower
            return f"{whole // size} {name}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"
