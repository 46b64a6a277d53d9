"""Macros of a document: their definitions, and their expansions with arguments."""

import re
from dataclasses import dataclass

from zyda_flows.tasks.extraction.latex_reader import Reader

PARAMETER = re.compile(r"(\\[A-Za-z@]+)?#([1-9#])")
PARAMETERS = re.compile(r"[^{}\\]*+(?:\\[^{}\\][^{}\\]*+)*+(?=\{)")
MAX_PARAMETERS = 500  # characters of the parameters of \\def
SPLIT = re.compile(r"#[1-9]")
XPARSE = re.compile(r"([+!>]*)([a-zA-Z])")
MISSING = "\\NoValue"
PAIRS = {"r": 2, "d": 2, "R": 2, "D": 2}


@dataclass(frozen=True)
class Argument:
    """An argument of a macro.

    kind: m in braces, o in brackets, s a star, u up to a mark, t a mark that has to be there.
    """

    kind: str
    default: str = MISSING


@dataclass(frozen=True)
class Macro:
    """A macro. is_final: its body is not expanded further."""

    body: str
    arguments: tuple[Argument, ...] = ()
    is_final: bool = False

    def filled(self, reader: Reader) -> str:
        """Return the expansion of the macro, with arguments from the reader."""
        if not self.arguments:
            return self.body
        values = [
            read(reader, one) for one in self.arguments if one.kind != "t" or not reader.passed(one.default)
        ]
        return PARAMETER.sub(lambda found: behind(found[1], value_at(values, found[2])), self.body)


def read(reader: Reader, argument: Argument) -> str:
    """Read one argument."""
    if argument.kind == "o":
        option = reader.option()
        return argument.default if option is None else option
    if argument.kind == "s":
        return "\\BooleanTrue" if reader.passed("*") else "\\BooleanFalse"
    if argument.kind == "u":
        return reader.until(argument.default)
    return "" if argument.kind == "t" else reader.argument()


def behind(command: str | None, value: str) -> str:
    """Return an optional command and the value behind it, with a space where both would be one name."""
    return f"{command or ''}{' ' if command and value[:1].isalpha() else ''}{value}"


def value_at(values: list[str], number: str) -> str:
    if number == "#":
        return "#"
    return values[int(number) - 1] if int(number) <= len(values) else ""


def by_newcommand(reader: Reader) -> tuple[str, Macro] | None:
    r"""Read the rest of `\newcommand`: the name, the arguments, the body."""
    reader.passed("*")
    name = reader.control()
    count = reader.option()
    default = reader.option() if count is not None else None
    body = reader.group()
    if name is None or body is None:
        return None
    return name, Macro(body, declared_arguments(count, default))


def declared_arguments(count: str | None, default: str | None) -> tuple[Argument, ...]:
    r"""Return so many arguments as `\newcommand` declares, of which the first may have a default."""
    number = int(count) if count and count.strip() in set("0123456789") else 0
    first = (Argument("o", default),) if default is not None and number else ()
    return (*first, *[Argument("m")] * (number - len(first)))


def by_def(reader: Reader) -> tuple[str, Macro] | None:
    r"""Read the rest of `\def`: the name, the arguments with the marks between them, the body."""
    name, place = reader.control(), reader.places[-1]
    found = PARAMETERS.match(reader.texts[-1], place, place + MAX_PARAMETERS)
    if name is None or found is None:
        return None
    reader.places[-1] = found.end()
    body = reader.group()
    if body is None:
        return None
    before, *marks = SPLIT.split(found[0].strip())
    first = [Argument("t", before)] if before else []
    return name, Macro(body, (*first, *(Argument("u", mark) if mark else Argument("m") for mark in marks)))


def by_xparse(reader: Reader) -> tuple[str, Macro] | None:
    r"""Read the rest of `\NewDocumentCommand`: the name, the kinds of arguments, the body."""
    name, kinds, body = reader.control(), reader.group(), reader.group()
    return None if name is None or kinds is None or body is None else (name, Macro(body, xparse(kinds)))


def xparse(kinds: str) -> tuple[Argument, ...]:
    """Return the arguments that xparse's letters declare."""
    arguments, reader = list[Argument](), Reader(kinds, 10 * len(kinds) + 100)
    while reader.peek():
        reader.pass_space()
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
