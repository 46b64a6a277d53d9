"""Write the lines of wikitext as Markdown: headings, lists and paragraphs."""

import re
from collections.abc import Collection

BREAK = "\1"  # stands for <br>
INDENTS = {"*": "  ", "#": "   ", ":": "", ";": ""}  # of lines below an item, by the sign of its list
PREFIX = re.compile(r"[*#:;]+")
SWITCH = re.compile(r"__[A-Z]{3,30}__")  # for example __NOTOC__
SPACES = re.compile(r"[ \t\xa0]+")
EMPTY_PARENTHESES = re.compile(r" ?\([ ;,]*\)")  # around removed templates
BEFORE_STOP = re.compile(r" ([,.;])(?=\s|$)")
EMPTY_BEGINNING = re.compile(r"\([ ;,]*[;,] ?")  # of parentheses
RULE = re.compile(r"-{4,}")
NO_LEVEL = 7  # headings have the levels 1 to 6


class Sections:
    """The headings that are not written yet, and the level of the removed section that is being read.

    dropped: titles, in small letters, of sections that are removed with their subsections.
    """

    def __init__(self, dropped: Collection[str]) -> None:
        self.dropped, self.dropped_level = dropped, NO_LEVEL
        self.pending = list[tuple[int, str]]()

    def begin(self, level: int, title: str) -> None:
        self.pending = [heading for heading in self.pending if heading[0] < level]
        if level <= self.dropped_level:
            self.dropped_level = level if title.lower() in self.dropped else NO_LEVEL
        if not self.is_dropped():
            self.pending.append((level, f"{'#' * level} {title}"))

    def is_dropped(self) -> bool:
        return self.dropped_level < NO_LEVEL

    def take_headings(self) -> list[str]:
        """Return the headings before the next line, and forget them."""
        headings, self.pending = [heading for _, heading in self.pending], []
        return headings


def markdown_of_lines(text: str, dropped: Collection[str] = ()) -> str:
    """Return the Markdown of lines in which only the beginnings of lines are markup.

    Sections without text are removed. dropped: titles, in small letters, of sections that are removed with their
    subsections.
    """
    lines, sections = list[str](), Sections(dropped)
    for raw in SWITCH.sub("", text).split("\n"):
        line = _tidied(raw)
        if level := _level(line):
            sections.begin(level, line[level:-level].replace(BREAK, " ").strip())
            continue
        line = "" if sections.is_dropped() or RULE.match(line) else _markdown_line(line)
        if not line:
            _separate(lines)
            continue
        for heading in sections.take_headings():
            _separate(lines)
            lines += [heading, ""]
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
        line = EMPTY_BEGINNING.sub("(", EMPTY_PARENTHESES.sub("", line))
    if " ." in line or " ," in line or " ;" in line:
        line = BEFORE_STOP.sub(r"\1", line)
    return line


def _level(line: str) -> int:
    """Return the level of a heading, or 0 for another line."""
    if len(line) < 3 or line[0] != "=" or line[-1] != "=":
        return 0
    size = len(line)
    return min(6, size - len(line.lstrip("=")), size - len(line.rstrip("=")), (size - 1) // 2)


def _markdown_line(line: str) -> str:
    """Return a line that is not a heading as Markdown, or "" for an item of a list without text."""
    prefix = PREFIX.match(line)
    if prefix is None:
        return "\n".join(filter(None, map(str.strip, line.split(BREAK))))
    text = line[prefix.end() :].replace(BREAK, " ").strip()
    return _list_item(prefix[0], text) if text else ""


def _list_item(signs: str, text: str) -> str:
    """Return an item of a list as Markdown, indented below the items around it. signs: keys of INDENTS."""
    lists = signs[:20].rstrip(":;")
    indent = "".join(INDENTS[sign] for sign in lists[:-1])
    if signs[-1] in "*#":
        return f"{indent}{'-' if signs[-1] == '*' else '1.'} {text}"
    if signs[-1] == ";":
        term, colon, definition = text.partition(" : ")
        return f"{indent}{term}\n{indent}: {definition.strip()}" if colon else f"{indent}{term}"
    return f"{indent}{INDENTS[lists[-1]]}{text}" if lists else text
