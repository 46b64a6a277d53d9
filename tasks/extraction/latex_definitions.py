"""Read the definitions of a LaTeX document: macros, environments, conditions, theorems and units."""

import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from zyda_flows.tasks.extraction.latex_macros import (
    Argument,
    Macro,
    newcommand_arguments,
    read_def,
    read_newcommand,
    read_xparse,
    xparse_arguments,
)
from zyda_flows.tasks.extraction.latex_reader import Reader
from zyda_flows.tasks.extraction.latex_words import BUILT_IN_COMMANDS, ENVIRONMENTS

THEOREM_TITLE = re.compile(r"(?:name|title|heading)\s*+=\s*+(\{[^{}]*+\}|[^,{}]++)")
Handler = Callable[[re.Match[str]], None]


@dataclass
class ExpandedDocument:
    """A document with expanded macros.

    theorem_titles: titles of theorems, by environment. units: symbols of the author's units of siunitx, by command.
    """

    preamble: str = ""
    body: str = ""
    theorem_titles: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


class Definitions(Reader):
    """Reads definitions, and removes them from the document."""

    def __init__(self, latex: str) -> None:
        super().__init__(latex, 10 * len(latex) + 1_000_000)
        self.macros = dict[str, Macro]()
        self.ends = dict[str, str]()  # the ends of the author's environments, by name
        self.flags = dict[str, bool]()  # the author's conditionals, by name
        self.hidden = {"comment", "filecontents", "filecontents*"}  # environments
        self.out = list[str]()
        self.document = ExpandedDocument()
        self.handlers = dict[str, Handler]()  # methods that read the arguments of a command, by its name
        self.builtin = set[str]()  # commands that cannot be redefined

    @abstractmethod
    def macro(self, match: re.Match[str]) -> None:
        """Expand a macro."""

    def define(self, name: str, macro: Macro, *, is_new: bool = False) -> None:
        """Store a macro, except one that redefines a built-in command or uses itself.

        is_new: whether an existing macro of the same name is kept.
        """
        if (
            name in BUILT_IN_COMMANDS
            or name in self.builtin
            or "cite" in name
            or (is_new and name in self.macros)
        ):
            return
        if name.isalpha() or "@" in name:
            if not macro.is_final and has_command(macro.body, name):
                return
            self.macros[name] = macro
            self.handlers[name] = self.macro

    def newcommand(self, match: re.Match[str]) -> None:
        kind, position = match[1], self.positions[-1]
        reader = read_xparse if "Document" in kind else read_def if kind.endswith("def") else read_newcommand
        definition = reader(self)
        if definition is None:
            self.positions[-1] = position
            self.out.append(match[0])
            return
        name, macro = definition
        body = macro.body.replace("\\xspace", "")
        self.define(name, Macro(body, macro.arguments), is_new=kind.lower().startswith("provide"))

    def operator(self, match: re.Match[str]) -> None:
        star = "*" if self.skip("*") else ""
        name, body = self.control(), self.group()
        if name and body is not None:
            self.define(name, Macro(f"\\operatorname{star}{{{body}}}", is_final=True))

    def delimiter(self, match: re.Match[str]) -> None:
        r"""Read `\DeclarePairedDelimiter{\abs}{\lvert}{\rvert}`."""
        name, left, right = self.control(), self.argument(), self.argument()
        if name:
            arguments = (Argument("s"), Argument("o", ""), Argument("m"))
            self.define(name, Macro(f"{left} #3 {right}", arguments))

    def let(self, match: re.Match[str]) -> None:
        name = self.control()
        self.skip_space()
        if self.skip("="):
            self.skip(" ")
        meaning = self.argument()
        if name is None:
            return
        if name.startswith("if") and meaning in {"\\iftrue", "\\iffalse"}:
            self.flags[name] = meaning == "\\iftrue"
            return
        empty = meaning in {"\\relax", "\\undefined", "\\@undefined", "\\empty", "\\@empty"}
        known = self.macros.get(meaning[1:])
        self.define(name, known or Macro("" if empty else meaning, is_final=True))

    def newif(self, match: re.Match[str]) -> None:
        name = self.control()
        if name and name.startswith("if"):
            self.flag(name, is_set=False)

    def flag(self, name: str, *, is_set: bool) -> None:
        self.flags[name] = is_set
        for end in ("true", "false"):
            self.handlers[name[2:] + end] = self.set_flag

    def set_flag(self, match: re.Match[str]) -> None:
        name = match[1]
        is_true = name.endswith("true")
        self.flags["if" + name[: -4 if is_true else -5]] = is_true

    def boolean(self, match: re.Match[str]) -> None:
        r"""Read `\setboolean{name}{true}`, `\toggletrue{name}` and similar commands."""
        name = self.argument()
        is_set = match[1].startswith("set") and self.argument().strip() == "true"
        self.flag(f"if{name.strip()}", is_set=is_set or match[1].endswith("true"))

    def environment(self, match: re.Match[str]) -> None:
        r"""Read `\newenvironment`, `\NewDocumentEnvironment` and similar commands."""
        self.skip("*")
        name = (self.group() or "").strip()
        if "Document" in match[1]:
            arguments = xparse_arguments(self.group() or "")
        else:
            arguments = newcommand_arguments(self.option(), self.option())
        begin, end = self.group(), self.group()
        if begin is None or end is None or name in ENVIRONMENTS or f"\\begin{{{name}}}" in begin or not name:
            return
        self.macros[f"begin {name}"] = Macro(begin, arguments)
        self.ends[name] = end

    def theorem(self, match: re.Match[str]) -> None:
        r"""Read `\newtheorem{name}[counter]{Title}` and similar commands."""
        self.skip("*")
        options = self.option() or ""
        name = self.group() or ""
        options += self.option() or ""
        title = None if match[1] == "declaretheorem" else self.group()
        self.option()
        if match[1] == "spnewtheorem":
            self.group(), self.group()
        if title is None and (option := THEOREM_TITLE.search(options)):
            title = option[1].strip("{}")
        for environment in map(str.strip, name.split(",")):
            self.document.theorem_titles[environment] = environment.capitalize() if title is None else title

    def unit(self, match: re.Match[str]) -> None:
        r"""Read `\DeclareSIUnit\name{symbol}`."""
        self.option()
        name, symbol = self.control(), self.group()
        if name and symbol is not None:
            self.document.units[name] = symbol

    def comments(self, match: re.Match[str]) -> None:
        (self.hidden.add if match[1] == "excludecomment" else self.hidden.discard)(self.argument().strip())


def has_command(latex: str, name: str) -> bool:
    """Return whether LaTeX contains a command."""
    position = -1
    while (position := latex.find(f"\\{name}", position + 1)) >= 0:
        following = latex[position + len(name) + 1 : position + len(name) + 2]
        if not (following.isalpha() or following == "@"):
            return True
    return False
