"""Read LaTeX from left to right. The expansion of a macro is read before the rest of the text."""

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
    """Return the content of the braces that open at `start`; None if no braces open there or they do not close."""
    if text[start : start + 1] != "{":
        return None
    end = text.find("}", start)
    if end < 0:
        return None
    if text.find("{", start + 1, end) < 0 and text[end - 1] != "\\":
        return text[start + 1 : end]
    depth = 0
    for match in BRACE.finditer(text, start):
        mark = match[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : match.start()]
    return None


class Reader:
    """Reads a stack of texts: the last one first, each from its position on.

    budget: the number of characters that may be searched for the ends of arguments, to bound the time.
    """

    def __init__(self, text: str, budget: int) -> None:
        self.texts, self.positions, self.budget = [text], [0], budget

    def spend(self, size: int) -> None:
        """Count searched characters. Raises ValueError if the budget is spent: many arguments have no end."""
        self.budget -= size
        if self.budget < 0:
            raise ValueError("too many braces or environments do not close")

    def skip_space(self) -> None:
        """Skip spaces, and the ends of expansions."""
        is_end = True
        while is_end:
            self.positions[-1] = SPACE.match(self.texts[-1], self.positions[-1]).end()  # type: ignore[union-attr]
            is_end = self.skip_end()

    def skip_end(self) -> bool:
        """Leave an expansion at its end; return whether the reader was at the end of an expansion."""
        if self.positions[-1] < len(self.texts[-1]) or len(self.texts) == 1:
            return False
        self.texts.pop()
        self.positions.pop()
        return True

    def peek(self, size: int = 1) -> str:
        return self.texts[-1][self.positions[-1] : self.positions[-1] + size]

    def group(self) -> str | None:
        """Read an argument in braces. Return None if no braces follow."""
        self.skip_space()
        text, position = self.texts[-1], self.positions[-1]
        inside = group_at(text, position)
        if inside is None:
            self.spend(len(text) - position if text[position : position + 1] == "{" else 0)
            return None
        self.spend(len(inside))
        self.positions[-1] = position + len(inside) + 2
        return inside

    def argument(self) -> str:
        """Read an argument: in braces, or the next command or character."""
        if (inside := self.group()) is not None:
            return inside
        text, position = self.texts[-1], self.positions[-1]
        match = CONTROL.match(text, position)
        end = match.end() if match else position + 1
        self.positions[-1] = min(end, len(text))
        return text[position:end]

    def option(self) -> str | None:
        """Read an optional argument in brackets. Return None if no brackets follow."""
        text = self.texts[-1]
        opened = OPTION.match(text, self.positions[-1])
        if not opened or text.count("\n", opened.start(), opened.end()) > 1:
            return None
        depth = 0
        for match in OPTION_END.finditer(text, opened.end(), opened.end() + MAX_OPTION):
            depth += {"{": 1, "}": -1}.get(match[0], 0)
            if match[0] == "]" and depth <= 0:
                self.positions[-1] = match.end()
                return text[opened.end() : match.start()]
        self.spend(MAX_OPTION)
        return None

    def control(self) -> str | None:
        r"""Read the name of a command, `\name` or `{\name}`. Return None if no command follows."""
        match = CONTROL_IN_BRACES.match(self.texts[-1], self.positions[-1])
        if match is None:
            return None
        self.positions[-1] = match.end()
        built = CSNAME.match(self.texts[-1], match.end()) if match[2] == "csname" else None
        if built is None:
            return match[2]
        self.positions[-1] = built.end()
        return built[1].strip()

    def skip(self, mark: str) -> bool:
        """Skip a mark if it follows, and return whether it does."""
        text, position = self.texts[-1], self.positions[-1]
        if not text.startswith(mark, position):
            return False
        self.positions[-1] = position + len(mark)
        return True

    def until(self, mark: str) -> str:
        """Read up to a mark outside braces and skip the mark. If the mark is missing, read an argument."""
        text, position = self.texts[-1], self.positions[-1]
        inside = group_at(text, position)
        end = text.find(mark, position + (len(inside) + 2 if inside is not None else 0))
        self.spend((end if end >= 0 else len(text)) - position)
        if end < 0:
            return self.argument()
        self.positions[-1] = end + len(mark)
        return inside if inside is not None and end == position + len(inside) + 2 else text[position:end]
