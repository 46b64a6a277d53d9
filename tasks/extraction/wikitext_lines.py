"""Lines of wikitext as Markdown: headings, lists, paragraphs."""

import re
from collections.abc import Collection

BREAK = "\1"  # stands for <br>
LIST_SIGNS = "*#:;"
PREFIX = re.compile(r"[*#:;]+")
SWITCH = re.compile(r"__[A-Z]{3,30}__")  # __NOTOC__ and its like
SPACES = re.compile(r"[ \t\xa0]+")
HOLLOW = re.compile(r" ?\([ ;,]*\)")  # what is left of parentheses around a template that says nothing
BEFORE_STOP = re.compile(r" ([,.;])(?=\s|$)")
HALF_HOLLOW = re.compile(r"\([ ;,]*[;,] ?")
RULE = re.compile(r"-{4,}")


def markdown_of_lines(text: str, dropped: Collection[str] = ()) -> str:
    """Return Markdown of lines in which only line starts still mean something.

    dropped: titles of sections, in small letters, which go with all below them. A heading over nothing goes, too.
    """
    lines, headings, dropped_level = list[str](), list[tuple[int, str]](), 7
    for raw in SWITCH.sub("", text).split("\n"):
        line = _tidied(raw)
        level = _level(line)
        if level:
            title = line[level:-level].replace(BREAK, " ").strip()
            headings = [one for one in headings if one[0] < level]
            if level <= dropped_level:
                dropped_level = level if title.lower() in dropped else 7
            if dropped_level == 7:
                headings.append((level, f"{'#' * level} {title}"))
            continue
        line = "" if dropped_level < 7 or RULE.match(line) else _written(line)
        if not line:
            _separate(lines)
            continue
        for _, heading in headings:
            _separate(lines)
            lines += [heading, ""]
        headings = []
        lines.append(line)
    return "\n".join(lines).strip("\n")


def _separate(lines: list[str]) -> None:
    if lines and lines[-1]:
        lines.append("")


def _tidied(line: str) -> str:
    line = line.strip()
    if "  " in line or "\t" in line or "\xa0" in line:
        line = SPACES.sub(" ", line)
    if "(" in line:
        line = HALF_HOLLOW.sub("(", HOLLOW.sub("", line))
    if " ." in line or " ," in line or " ;" in line:
        line = BEFORE_STOP.sub(r"\1", line)
    return line


def _level(line: str) -> int:
    """Return the level of a heading, or 0 for another line."""
    if len(line) < 3 or line[0] != "=" or line[-1] != "=":
        return 0
    size = len(line)
    return min(6, size - len(line.lstrip("=")), size - len(line.rstrip("=")), (size - 1) // 2)


def _written(line: str) -> str:
    """Return a line that is no heading as Markdown, or nothing for an item of a list that says nothing."""
    if not line or line[0] not in LIST_SIGNS:
        return "\n".join(filter(None, map(str.strip, line.split(BREAK))))
    prefix = PREFIX.match(line)
    signs = prefix[0] if prefix else ""
    said = line[len(signs) :].replace(BREAK, " ").strip()
    if not said:
        return ""
    lists = signs[:20].rstrip(":;")
    indent = "".join("  " if sign == "*" else "   " for sign in lists[:-1] if sign in "*#")
    if signs[-1] in "*#":
        return f"{indent}{'-' if signs[-1] == '*' else '1.'} {said}"
    if signs[-1] == ";":
        term, colon, meaning = said.partition(" : ")
        return f"{indent}{term}\n{indent}: {meaning.strip()}" if colon else f"{indent}{term}"
    if lists:
        return f"{indent}{'  ' if lists[-1] == '*' else '   '}{said}"
    return said
