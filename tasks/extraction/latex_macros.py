"""Read the definitions of macros, and expand macros with their arguments."""

import re
from dataclasses import dataclass

from zyda_flows.tasks.extraction.latex_reader import Reader

PARAMETER = re.compile(r"(\\[A-Za-z@]+)?#([1-9#])")
PARAMETERS = re.compile(r"[^{}\\]*+(?:\\[^{}\\][^{}\\]*+)*+(?=\{)")
MAX_PARAMETERS = 500  # characters of the parameters of `\def`
SPLIT = re.compile(r"#[1-9]")
XPARSE = re.compile(r"([+!>]*)([a-zA-Z])")
MISSING = "\\NoValue"
PAIRS = {"r": 2, "d": 2, "R": 2, "D": 2}


@dataclass(frozen=True)
class Argument:
    """An argument of a macro.

    kind: m in braces, o in brackets, s a star, u up to a mark, t a required mark.
    default: the value of a missing argument of kind o, or the mark of kinds u and t.
    """

    kind: str
    default: str = MISSING


@dataclass(frozen=True)
class Macro:
    """A macro. is_final: whether its body is not expanded further."""

    body: str
    arguments: tuple[Argument, ...] = ()
    is_final: bool = False

    def expansion(self, reader: Reader) -> str:
        """Read the arguments of the macro and return its body with their values."""
        if not self.arguments:
            return self.body
        values = [
            read_argument(reader, argument)
            for argument in self.arguments
            if argument.kind != "t" or not reader.skip(argument.default)
        ]
        return PARAMETER.sub(lambda match: appended(match[1], value_at(values, match[2])), self.body)


def read_argument(reader: Reader, argument: Argument) -> str:
    """Read an argument and return its value."""
    if argument.kind == "o":
        option = reader.option()
        return argument.default if option is None else option
    if argument.kind == "s":
        return "\\BooleanTrue" if reader.skip("*") else "\\BooleanFalse"
    if argument.kind == "u":
        return reader.until(argument.default)
    return "" if argument.kind == "t" else reader.argument()


def appended(command: str | None, value: str) -> str:
    """Return a value after an optional command, with a space if the value would continue the command's name."""
    return f"{command or ''}{' ' if command and value[:1].isalpha() else ''}{value}"


def value_at(values: list[str], number: str) -> str:
    """Return the value of a parameter such as `#1`, or "" if there are fewer arguments; `##` is `#`."""
    if number == "#":
        return "#"
    return values[int(number) - 1] if int(number) <= len(values) else ""


def read_newcommand(reader: Reader) -> tuple[str, Macro] | None:
    r"""Read the arguments of `\newcommand`: a name, the number of arguments, a body; None if one is missing."""
    reader.skip("*")
    name = reader.control()
    count = reader.option()
    default = reader.option() if count is not None else None
    body = reader.group()
    if name is None or body is None:
        return None
    return name, Macro(body, newcommand_arguments(count, default))


def newcommand_arguments(count: str | None, default: str | None) -> tuple[Argument, ...]:
    r"""Return the arguments that `\newcommand` declares. default: of the first argument, if it is optional."""
    number = int(count) if count and count.strip() in set("0123456789") else 0
    first = (Argument("o", default),) if default is not None and number else ()
    return (*first, *[Argument("m")] * (number - len(first)))


def read_def(reader: Reader) -> tuple[str, Macro] | None:
    r"""Read the arguments of `\def`: a name, parameters with marks between them, a body; None if one is missing."""
    name, position = reader.control(), reader.positions[-1]
    match = PARAMETERS.match(reader.texts[-1], position, position + MAX_PARAMETERS)
    if name is None or match is None:
        return None
    reader.positions[-1] = match.end()
    body = reader.group()
    if body is None:
        return None
    before, *marks = SPLIT.split(match[0].strip())
    first = [Argument("t", before)] if before else []
    return name, Macro(body, (*first, *(Argument("u", mark) if mark else Argument("m") for mark in marks)))


def read_xparse(reader: Reader) -> tuple[str, Macro] | None:
    r"""Read the arguments of `\NewDocumentCommand`: a name, kinds of arguments, a body; None if one is missing."""
    name, kinds, body = reader.control(), reader.group(), reader.group()
    if name is None or kinds is None or body is None:
        return None
    return name, Macro(body, xparse_arguments(kinds))


def xparse_arguments(kinds: str) -> tuple[Argument, ...]:
    """Return the arguments that letters of the package xparse declare."""
    arguments, reader = list[Argument](), Reader(kinds, 10 * len(kinds) + 100)
    while reader.peek():
        reader.skip_space()
        kind = reader.argument()
        if kind in {"O", "o"}:
            arguments.append(Argument("o", reader.argument() if kind == "O" else MISSING))
        elif kind in {"m", "v", "s"}:
            arguments.append(Argument("m" if kind == "v" else kind))
        elif kind in PAIRS:
            pair = reader.argument() + reader.argument()
            default = reader.argument() if kind in "RD" else MISSING
            arguments.append(Argument("o" if pair == "[]" else "m", default))
    return tuple(arguments)
