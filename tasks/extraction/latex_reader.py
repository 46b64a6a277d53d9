"""Read LaTeX from left to right; the expansion of a macro is read before the rest."""

import re

BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
SPACE = re.compile(r"\s*+")
OPTION = re.compile(r"\s*+\[")
OPTION_END = re.compile(r"\\.|[{}\]]", re.DOTALL)
MAX_OPTION = 10_000  # characters of an optional argument
CONTROL = re.compile(r"\\(?:[A-Za-z@]+|.)", re.DOTALL)
CSNAME = re.compile(r"\s*+([^\\{}]{1,200})\\endcsname")
CONTROL_IN_BRACES = re.compile(r"\s*+(\{\s*+)?\\([A-Za-z@]+|.)(?(1)\s*+\})", re.DOTALL)


def group_at(text: str, start: int) -> str | None:
    """Return the content of the braces that open at a place; None where they do not close."""
    if text[start : start + 1] != "{":
        return None
    end = text.find("}", start)
    if end < 0:
        return None
    if text.find("{", start + 1, end) < 0 and text[end - 1] != "\\":
        return text[start + 1 : end]
    depth = 0
    for found in BRACE.finditer(text, start):
        mark = found[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : found.start()]
    return None


class Reader:
    """Texts to be read, the last of them first, each with the place where it is read on.

    budget: the characters that may be looked through for the ends of arguments.
    """

    def __init__(self, text: str, budget: int) -> None:
        self.texts, self.places, self.budget = [text], [0], budget

    def spend(self, size: int) -> None:
        """Count characters that were looked through. Raises ValueError where many things have no end."""
        self.budget -= size
        if self.budget < 0:
            raise ValueError("its braces and environments do not close")

    def pass_space(self) -> None:
        """Skip spaces, and the ends of expansions."""
        is_end = True
        while is_end:
            self.places[-1] = SPACE.match(self.texts[-1], self.places[-1]).end()  # type: ignore[union-attr]
            is_end = self.pass_end()

    def pass_end(self) -> bool:
        """Leave an expansion that has been read; return whether there was one."""
        if self.places[-1] < len(self.texts[-1]) or len(self.texts) == 1:
            return False
        self.texts.pop()
        self.places.pop()
        return True

    def peek(self, size: int = 1) -> str:
        return self.texts[-1][self.places[-1] : self.places[-1] + size]

    def group(self) -> str | None:
        """Read an argument in braces, or pass nothing and return None."""
        self.pass_space()
        text, place = self.texts[-1], self.places[-1]
        inside = group_at(text, place)
        if inside is None:
            self.spend(len(text) - place if text[place : place + 1] == "{" else 0)
            return None
        self.spend(len(inside))
        self.places[-1] = place + len(inside) + 2
        return inside

    def argument(self) -> str:
        """Read an argument: in braces, or the next command or character."""
        if (inside := self.group()) is not None:
            return inside
        text, place = self.texts[-1], self.places[-1]
        found = CONTROL.match(text, place)
        end = found.end() if found else place + 1
        self.places[-1] = min(end, len(text))
        return text[place:end]

    def option(self) -> str | None:
        """Read an optional argument in brackets, or pass nothing and return None."""
        text = self.texts[-1]
        opened = OPTION.match(text, self.places[-1])
        if not opened or text.count("\n", opened.start(), opened.end()) > 1:
            return None
        depth = 0
        for found in OPTION_END.finditer(text, opened.end(), opened.end() + MAX_OPTION):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if found[0] == "]" and depth <= 0:
                self.places[-1] = found.end()
                return text[opened.end() : found.start()]
        self.spend(MAX_OPTION)
        return None

    def control(self) -> str | None:
        r"""Read the name of a command, which may be in braces: `\name` or `{\name}`."""
        found = CONTROL_IN_BRACES.match(self.texts[-1], self.places[-1])
        if found is None:
            return None
        self.places[-1] = found.end()
        built = CSNAME.match(self.texts[-1], found.end()) if found[2] == "csname" else None
        if built is None:
            return found[2]
        self.places[-1] = built.end()
        return built[1].strip()

    def passed(self, mark: str) -> bool:
        """Pass some characters if they are next, and return whether they were."""
        text, place = self.texts[-1], self.places[-1]
        if not text.startswith(mark, place):
            return False
        self.places[-1] = place + len(mark)
        return True

    def until(self, mark: str) -> str:
        """Read up to a mark outside braces, and skip the mark; read an argument if the mark is missing."""
        text, place = self.texts[-1], self.places[-1]
        inside = group_at(text, place)
        end = text.find(mark, place + (len(inside) + 2 if inside is not None else 0))
        self.spend((end if end >= 0 else len(text)) - place)
        if end < 0:
            return self.argument()
        self.places[-1] = end + len(mark)
        return inside if inside is not None and end == place + len(inside) + 2 else text[place:end]
