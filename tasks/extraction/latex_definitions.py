"""The definitions of a document: macros, environments, conditions, theorems and units."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from zyda_flows.tasks.extraction.latex_macros import (
    Argument,
    Macro,
    by_def,
    by_newcommand,
    by_xparse,
    declared_arguments,
    xparse,
)
from zyda_flows.tasks.extraction.latex_reader import Reader
from zyda_flows.tasks.extraction.latex_words import ENVIRONMENTS, OF_WRITER

THEOREM_TITLE = re.compile(r"(?:name|title|heading)\s*+=\s*+(\{[^{}]*+\}|[^,{}]++)")
Handler = Callable[[re.Match[str]], None]


@dataclass
class Expanded:
    """A document with its macros in place. statements: titles of theorems; units: symbols of siunitx's units."""

    preamble: str = ""
    body: str = ""
    statements: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


class Definitions(Reader):
    """Reads definitions. They leave no text."""

    def __init__(self, latex: str) -> None:
        super().__init__(latex, 10 * len(latex) + 1_000_000)
        self.macros = dict[str, Macro]()
        self.ends = dict[str, str]()  # of the author's environments
        self.flags = dict[str, bool]()
        self.hidden = {"comment", "filecontents", "filecontents*"}  # environments
        self.out = list[str]()
        self.found = Expanded()
        self.handlers = dict[str, Handler]()  # readers of the rest of a command, by its name
        self.builtin = set[str]()  # commands that are not redefined

    @abstractmethod
    def macro(self, found: re.Match[str]) -> None:
        """Put a macro in its place."""

    def define(self, name: str, macro: Macro, *, is_new: bool = False) -> None:
        """Remember a macro, if it is not a command whose text is known better, or made of itself."""
        if name in OF_WRITER or name in self.builtin or "cite" in name or (is_new and name in self.macros):
            return
        if name.isalpha() or "@" in name:
            if not macro.is_final and has_command(macro.body, name):
                return
            self.macros[name] = macro
            self.handlers[name] = self.macro

    def newcommand(self, found: re.Match[str]) -> None:
        kind, place = found[1], self.places[-1]
        reads = by_xparse if "Document" in kind else by_def if kind.endswith("def") else by_newcommand
        read = reads(self)
        if read is None:
            self.places[-1] = place
            self.out.append(found[0])
            return
        name, macro = read
        body = macro.body.replace("\\xspace", "")
        self.define(name, Macro(body, macro.arguments), is_new=kind.lower().startswith("provide"))

    def operator(self, found: re.Match[str]) -> None:
        star = "*" if self.passed("*") else ""
        name, body = self.control(), self.group()
        if name and body is not None:
            self.define(name, Macro(f"\\operatorname{star}{{{body}}}", is_final=True))

    def delimiter(self, found: re.Match[str]) -> None:
        r"""Read `\DeclarePairedDelimiter{\abs}{\lvert}{\rvert}`."""
        name, left, right = self.control(), self.argument(), self.argument()
        if name:
            arguments = (Argument("s"), Argument("o", ""), Argument("m"))
            self.define(name, Macro(f"{left} #3 {right}", arguments))

    def let(self, found: re.Match[str]) -> None:
        name = self.control()
        self.pass_space()
        if self.passed("="):
            self.passed(" ")
        meaning = self.argument()
        if name is None:
            return
        if name.startswith("if") and meaning in {"\\iftrue", "\\iffalse"}:
            self.flags[name] = meaning == "\\iftrue"
            return
        empty = meaning in {"\\relax", "\\undefined", "\\@undefined", "\\empty", "\\@empty"}
        known = self.macros.get(meaning[1:])
        self.define(name, known or Macro("" if empty else meaning, is_final=True))

    def newif(self, found: re.Match[str]) -> None:
        name = self.control()
        if name and name.startswith("if"):
            self.flag(name, is_set=False)

    def flag(self, name: str, *, is_set: bool) -> None:
        self.flags[name] = is_set
        for end in ("true", "false"):
            self.handlers[name[2:] + end] = self.set_flag

    def set_flag(self, found: re.Match[str]) -> None:
        name = found[1]
        is_true = name.endswith("true")
        self.flags["if" + name[: -4 if is_true else -5]] = is_true

    def boolean(self, found: re.Match[str]) -> None:
        r"""Read `\setboolean{name}{true}`, `\toggletrue{name}` and their like."""
        name = self.argument()
        is_set = found[1].startswith("set") and self.argument().strip() == "true"
        self.flag(f"if{name.strip()}", is_set=is_set or found[1].endswith("true"))

    def environment(self, found: re.Match[str]) -> None:
        r"""Read `\newenvironment` and xparse's."""
        self.passed("*")
        name = (self.group() or "").strip()
        if "Document" in found[1]:
            arguments = xparse(self.group() or "")
        else:
            arguments = declared_arguments(self.option(), self.option())
        begin, end = self.group(), self.group()
        if begin is None or end is None or name in ENVIRONMENTS or f"\\begin{{{name}}}" in begin or not name:
            return
        self.macros[f"begin {name}"] = Macro(begin, arguments)
        self.ends[name] = end

    def theorem(self, found: re.Match[str]) -> None:
        r"""Read `\newtheorem{name}{Title}`, with a counter that may be shared, and its like."""
        self.passed("*")
        options = self.option() or ""
        name = self.group() or ""
        options += self.option() or ""
        title = None if found[1] == "declaretheorem" else self.group()
        self.option()
        if found[1] == "spnewtheorem":
            self.group(), self.group()
        named = THEOREM_TITLE.search(options)
        for one in name.split(","):
            shown = (
                title if title is not None else named[1].strip("{}") if named else one.strip().capitalize()
            )
            self.found.statements[one.strip()] = shown

    def unit(self, found: re.Match[str]) -> None:
        r"""Read `\DeclareSIUnit\name{symbol}`."""
        self.option()
        name, symbol = self.control(), self.group()
        if name and symbol is not None:
            self.found.units[name] = symbol

    def comments(self, found: re.Match[str]) -> None:
        (self.hidden.add if found[1] == "excludecomment" else self.hidden.discard)(self.argument().strip())


def has_command(latex: str, name: str) -> bool:
    """Return whether a command is in some LaTeX."""
    place = -1
    while (place := latex.find(f"\\{name}", place + 1)) >= 0:
        following = latex[place + len(name) + 1 : place + len(name) + 2]
        if not (following.isalpha() or following == "@"):
            return True
    return False
