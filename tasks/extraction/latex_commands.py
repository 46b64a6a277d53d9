"""Write the text of LaTeX's commands."""

import re
from abc import abstractmethod
from collections.abc import Callable

from zyda_flows.tasks.extraction.latex_letters import accented, greek
from zyda_flows.tasks.extraction.latex_reader import Reader, group_at
from zyda_flows.tasks.extraction.latex_text import (
    ITEM,
    OPTION,
    REMOVED,
    SPACE,
    SPACES,
    markdown_formula,
    restore_space,
    skip_options,
)
from zyda_flows.tasks.extraction.latex_units import COMMANDS as QUANTITIES
from zyda_flows.tasks.extraction.latex_units import quantity
from zyda_flows.tasks.extraction.latex_words import (
    ACCENT_WORDS,
    ARGUMENTS,
    BEFORE_TEXT,
    HEADINGS,
    LETTERS,
    WORDS,
)

# Lengths after commands of TeX: \vskip 1cm, \parindent=0pt.
LENGTH = re.compile(
    r"\s*+=?\s*+[-+]?\s*+(?:[0-9.]+\s*+(?:true)?(?:pt|em|ex|cm|mm|in|bp|pc|sp|dd|cc|mu|fil+)\b"
    r"|[0-9.]*+\\(?:baselineskip|[a-z]*(?:width|height|sep|skip|indent))\b)"
    r"(?:\s*+(?:plus|minus)\s*+[-0-9.]+\s*+(?:pt|em|ex|cm|mm|in|fil+)\b)*+"
)
LENGTH_COMMAND = re.compile(
    r"(?:.*(?:skip|indent|width|height|sep|margin|size|depth|penalty)|[hvm]?kern|[hv]skip)\Z"
)
POWER = re.compile(r"[-+\u2212]?[0-9]{1,3}")
NUMERALS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
ROMAN = {str(number): numeral for number, numeral in enumerate(NUMERALS, 1)}
MAX_INLINE = 1000  # characters of inline code


class Commands(Reader):
    """Writes the text of commands.

    The methods for single commands take the LaTeX, the name of the command, the position after the name, and the
    depth of nesting. They return the position after the arguments, and the text.

    units: the symbols of the author's units of siunitx, by command.
    """

    units: dict[str, str]

    @abstractmethod
    def inner(self, latex: str, depth: int) -> str:
        """Return the text of the content of an argument or an environment."""

    def command(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        """Return where a command with its arguments ends, and its text."""
        if name in LETTERS:
            return position, LETTERS[name]
        if name in WORDS:
            return restore_space(latex, position), WORDS[name]
        if name in ACCENT_WORDS:
            return accented(latex, position, ACCENT_WORDS[name])
        if method := COMMAND_METHODS.get(name):
            return method(self, latex, name, position, depth)
        if name in ARGUMENTS or "cite" in name:
            return self.without_text(latex, name, position, depth)
        if match := LENGTH_COMMAND.match(name) and LENGTH.match(latex, position):
            return match.end(), " "
        return skip_options(latex, position), ""

    def without_text(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        """Skip a command whose arguments are not text."""
        count = ARGUMENTS.get(name, 1)
        position = self.skip_arguments(latex, position, count) if count else skip_options(latex, position)
        return position, "" if name in BEFORE_TEXT else REMOVED

    def heading(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        position, text = self.argument_text(latex, skip_options(latex, position), depth)
        mark = HEADINGS[name]
        return position, f"\n\n{mark}{SPACES.sub(' ', text).strip()}\n\n" if text.strip() else ""

    def item(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        option = OPTION.match(latex, position)
        words = self.inner(option[0].strip()[1:-1], depth) if option else ""
        return (option.end() if option else position), f"{ITEM}{words}{': ' if words else ''}"

    def inline_code(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        position = position if name == "verb" else skip_options(latex, position)
        if name == "mintinline":
            position = self.skip_arguments(latex, position, 1)
        if name != "verb" and (group := self.braces(latex, position)):
            return group[0], f"`{group[1]}`"
        end = (
            latex.find(latex[position], position + 1, position + MAX_INLINE) if position < len(latex) else -1
        )
        return (end + 1, f"`{latex[position + 1 : end]}`") if end >= 0 else (position, "")

    def address(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        return self.braces(latex, position) or (position, "")

    def footnote(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        position, text = self.argument_text(latex, skip_options(latex, position), depth)
        return position, f" ({text.strip()})"

    def caption(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        return skip_options(latex, position), "\n\n"

    def first(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        r"""Return the first of two arguments, of \texorpdfstring for example."""
        position, text = self.argument_text(latex, position, depth)
        return self.skip_arguments(latex, position, 1), text

    def initial(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        r"""Return the arguments of \IEEEPARstart and \lettrine, which are one word."""
        position, text = self.argument_text(latex, skip_options(latex, position), depth)
        position, rest = self.argument_text(latex, position, depth)
        return position, text.strip() + rest.strip()

    def formula_in_text(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        position, inside = self.braces(latex, position) or (position, "")
        return position, markdown_formula(inside, is_display=False)

    def power(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        """Return superscript text, with `^` before a power: 10^6 is not 106."""
        before = latex[: position - len(name) - 1][-1:]
        position, text = self.argument_text(latex, position, depth)
        return position, f"^{text}" if POWER.fullmatch(text) and (before.isdigit() or before == ")") else text

    def ion(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        r"""Return an ion of AASTeX: `\ion{H}{2}` is H II."""
        position, element = self.argument_text(latex, position, depth)
        position, state = self.argument_text(latex, position, depth)
        return position, f"{element} {ROMAN.get(state.strip(), state.strip().upper())}"

    def greek(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        position, text = self.argument_text(latex, position, depth)
        return position, greek(text)

    def quantity(self, latex: str, name: str, position: int, depth: int) -> tuple[int, str]:
        arguments = list[str]()
        position = skip_options(latex, position)
        for _ in QUANTITIES[name]:
            group = self.braces(latex, skip_options(latex, position))
            if group is None:
                return position, "".join(arguments)
            position = group[0]
            arguments.append(group[1])
        return position, quantity(name, arguments, self.units)

    def argument_text(self, latex: str, position: int, depth: int) -> tuple[int, str]:
        """Return where an argument in braces ends, and its text."""
        group = self.braces(latex, position)
        return (position, "") if group is None else (group[0], self.inner(group[1], depth))

    def skip_arguments(self, latex: str, position: int, count: int) -> int:
        """Return the position after a number of arguments in braces and the options before them."""
        for _ in range(count):
            group = self.braces(latex, skip_options(latex, position))
            if group is None:
                return position
            position = group[0]
        return position

    def braces(self, latex: str, position: int) -> tuple[int, str] | None:
        """Return the end and the content of the braces that open after `position`, or None if none do."""
        start = SPACE.match(latex, position).end()  # type: ignore[union-attr]
        inside = group_at(latex, start)
        if inside is None:
            self.spend(len(latex) - start if latex[start : start + 1] == "{" else 0)
            return None
        self.spend(len(inside))
        return start + len(inside) + 2, inside


Command = Callable[[Commands, str, str, int, int], tuple[int, str]]
COMMAND_METHODS: dict[str, Command] = {
    **dict.fromkeys(HEADINGS, Commands.heading),
    **dict.fromkeys(("verb", "lstinline", "mintinline"), Commands.inline_code),
    **dict.fromkeys(("url", "path", "nolinkurl"), Commands.address),
    **dict.fromkeys(("footnote", "footnotetext", "tablenotetext", "blfootnote"), Commands.footnote),
    **dict.fromkeys(("IEEEPARstart", "lettrine", "PARstart"), Commands.initial),
    **dict.fromkeys(("textgreek", "foreigntextgreek"), Commands.greek),
    **dict.fromkeys(("textsuperscript", "up", "ts"), Commands.power),
    **dict.fromkeys(QUANTITIES, Commands.quantity),
    "caption": Commands.caption,
    "ensuremath": Commands.formula_in_text,
    "ion": Commands.ion,
    "item": Commands.item,
    "texorpdfstring": Commands.first,
}
