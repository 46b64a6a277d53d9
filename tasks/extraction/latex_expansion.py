"""LaTeX with the author's macros in their places, in formulas, too, and without what conditionals hide."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tasks.extraction.latex_conditionals import Branches, condition, paired
from tasks.extraction.latex_macros import Argument, Macro, by_def, by_newcommand, by_xparse, xparse
from tasks.extraction.latex_reader import Reader
from tasks.extraction.latex_words import CODE, OF_WRITER, TAKES_ARGUMENT
from tasks.limits import limits

TOKEN = re.compile(r"\\([A-Za-z@]+)|\\.", re.DOTALL)
NAME = re.compile(r"\s*+\{([^{}\n]*+)\}")
THEOREM_TITLE = re.compile(r"(?:name|title|heading)\s*+=\s*+(\{[^{}]*+\}|[^,{}]++)")
CSNAME = re.compile(r"\s*+([^\\{}]{1,200})\\endcsname")
EXPANSION_COST = 16  # characters that each use of a macro counts beside what it stands for
Handler = Callable[[re.Match[str]], None]


@dataclass
class Expanded:
    """A document with its macros in place. statements: what theorems are called; units: siunitx's, by name."""

    preamble: str = ""
    body: str = ""
    statements: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)


class Expander(Reader):
    """Puts macros in their places. What defines them is no text, nor what a condition hides."""

    def __init__(self, latex: str) -> None:
        super().__init__(latex, 10 * len(latex) + 1_000_000)
        self.macros = dict[str, Macro]()
        self.ends = dict[str, str]()  # of the author's environments
        self.flags = dict[str, bool]()
        self.hidden = {"comment"}  # environments
        self.endless = set[str]()  # environments of code without an end
        self.pairs = list[tuple[str, dict[int, Branches]]]()
        self.out = list[str]()
        self.found = Expanded()
        self.preamble: list[str] | None = None
        self.added = 0
        self.handlers: dict[str, Handler] = {
            name: getattr(self, method) for method, names in HANDLERS.items() for name in names.split()
        }

    def expanded(self) -> Expanded:
        """Return the document. Raises ValueError if macros add too much or are nested too deep."""
        while self.texts:
            text, place = self.texts[-1], self.places[-1]
            for found in TOKEN.finditer(text, place):
                name = found[1]
                if name is None or not (name in self.handlers or name[:2] == "if"):
                    continue
                self.out.append(text[place : found.start()])
                self.places[-1] = found.end()
                self.handlers.get(name, self.conditional)(found)
                break
            else:
                self.out.append(text[place:])
                self.texts.pop()
                self.places.pop()
        if self.preamble is not None:
            self.found.preamble = "".join(self.preamble)
        self.found.body = "".join(self.out)
        return self.found

    def push(self, text: str) -> None:
        """Read a text next."""
        bounds = limits()
        self.added += len(text) + EXPANSION_COST
        if self.added > bounds.latex_macro_characters:
            raise ValueError(f"its macros add more than {bounds.latex_macro_characters:,} characters")
        if len(self.texts) > bounds.latex_depth:
            raise ValueError(f"it is nested deeper than {bounds.latex_depth}")
        self.texts.append(text)
        self.places.append(0)

    def macro(self, found: re.Match[str]) -> None:
        """Put a macro in its place."""
        macro = self.macros[found[1]]
        if macro.is_final:
            self.out.append(macro.body)
            return
        text = macro.filled(self)
        if is_argument(self.out[-1]) and len(text) > 1 and not ENVIRONMENT.search(text):
            text = f"{{{text}}}"
        elif text[text.rfind("\\") + 1 :].isalpha() and "\\" in text and self.peek().isalpha():
            text += " "
        self.push(text)

    def define(self, name: str, macro: Macro, *, is_new: bool = False) -> None:
        """Remember a macro, if it is not a command whose text is known better, or made of itself."""
        if name in OF_WRITER or "cite" in name or (is_new and name in self.macros):
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

    def futurelet(self, found: re.Match[str]) -> None:
        name, command = self.control(), self.control()
        following = next(
            (t[p] for t, p in zip(reversed(self.texts), reversed(self.places)) if p < len(t)), " "
        )
        if name and command:
            self.define(name, Macro(following, is_final=True))
            self.push(f"\\{command} ")

    def ifnextchar(self, found: re.Match[str]) -> None:
        mark, then, otherwise = self.argument(), self.argument(), self.argument()
        self.pass_space()
        self.push(then if self.peek() == mark else otherwise)

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

    def conditional(self, found: re.Match[str]) -> None:
        name, text = found[1], self.texts[-1]
        branches = self.paired(text).get(found.start())
        if branches is None:
            if name in {"fi", "else"} or name in self.flags or name in {"iftrue", "iffalse"}:
                return
            self.out.append(found[0])
        elif name in {"else", "or"}:
            self.places[-1] = branches.end
        else:
            number, place = condition(name, text, found.end(), self.macros, self.flags)
            self.places[-1] = place
            others = len(branches.begins) - branches.has_else
            if not 0 <= number <= others:
                self.places[-1] = branches.begins[-1] if branches.has_else else branches.end
            elif number:
                self.places[-1] = branches.begins[number - 1]

    def paired(self, text: str) -> dict[int, Branches]:
        """Return the branches of the conditionals of a text that is being read."""
        level = len(self.texts)
        del self.pairs[level:]
        while len(self.pairs) < level:
            self.pairs.append(("", {}))
        if self.pairs[level - 1][0] is not text:
            self.pairs[level - 1] = (text, paired(text))
        return self.pairs[level - 1][1]

    def ifthenelse(self, found: re.Match[str]) -> None:
        r"""Read `\ifthenelse{test}{...}{...}` and its like."""
        test, then = self.argument().strip(), self.argument()
        otherwise = self.group() or ""
        self.push(then if self.holds(found[1], test) else otherwise)

    def holds(self, kind: str, test: str) -> bool:
        """Return whether a test holds that stands in braces; one that is not known does."""
        if kind.startswith("IfNoValue"):
            return test == "\\NoValue"
        if kind.startswith("IfValue"):
            return test != "\\NoValue"
        if kind.startswith("IfBoolean"):
            return test == "\\BooleanTrue"
        if kind in {"iftoggle", "ifbool"}:
            return self.flags.get(f"if{test}", False)
        inner = Reader(test, 10 * len(test) + 1000)
        name = inner.control()
        if name == "boolean":
            return self.flags.get(f"if{inner.argument().strip()}", False)
        if name == "equal":
            return inner.argument().strip() == inner.argument().strip()
        return condition("ifnum", test, 0, self.macros, self.flags)[0] == 0

    def environment(self, found: re.Match[str]) -> None:
        r"""Read `\newenvironment` and xparse's."""
        self.passed("*")
        name = (self.group() or "").strip()
        if "Document" in found[1]:
            arguments = xparse(self.group() or "")
        else:
            count, default = self.option(), self.option()
            number = int(count) if count and count.strip() in set("0123456789") else 0
            first = (Argument("o", default),) if default is not None and number else ()
            arguments = (*first, *[Argument("m")] * (number - len(first)))
        begin, end = self.group(), self.group()
        if begin is None or end is None or name in OF_WRITER or f"\\begin{{{name}}}" in begin or not name:
            return
        self.macros[f"begin {name}"] = Macro(begin, arguments)
        self.ends[name] = end

    def begin(self, found: re.Match[str]) -> None:
        name = self.name()
        if name is None:
            self.out.append(found[0])
        elif name == "document":
            if self.preamble is None:
                self.preamble, self.out = self.out, []
        elif name in CODE or name in self.hidden:
            self.code(name)
        elif macro := self.macros.get(f"begin {name}"):
            self.push(macro.filled(self))
        else:
            self.out.append(f"\\begin{{{name}}}")

    def end(self, found: re.Match[str]) -> None:
        name = self.name()
        if name is None:
            self.out.append(found[0])
        elif name == "document":
            self.texts.clear()
            self.places.clear()
        elif name in self.ends:
            self.push(self.ends[name])
        else:
            self.out.append(f"\\end{{{name}}}")

    def name(self) -> str | None:
        """Read the name of an environment."""
        found = NAME.match(self.texts[-1], self.places[-1])
        if found is None:
            return None
        self.places[-1] = found.end()
        return found[1].strip()

    def code(self, name: str) -> None:
        """Write code as it stands, and nothing of a hidden environment."""
        text, place, end = self.texts[-1], self.places[-1], f"\\end{{{name}}}"
        found = -1 if name in self.endless else text.find(end, place)
        if found < 0:
            self.endless.add(name)
            return
        self.places[-1] = found + len(end)
        if name not in self.hidden:
            self.out.append(f"\\begin{{{name}}}{text[place : found + len(end)]}")

    def inline_code(self, found: re.Match[str]) -> None:
        """Write inline code and addresses as they stand."""
        self.out.append(found[0])
        name, text, place = found[1], self.texts[-1], self.places[-1]
        if name not in {"verb", "lstinline"}:
            inside = self.group()
            self.out.append("" if inside is None else f"{{{inside}}}")
            return
        star = text[place : place + 1] == "*"
        mark = text[place + star : place + star + 1]
        end = text.find(mark, place + star + 1, place + 1000) if mark and mark not in "{[ \n" else -1
        if end >= 0:
            self.out.append(text[place + star : end + 1])
            self.places[-1] = end + 1

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
            said = title if title is not None else named[1].strip("{}") if named else one.strip().capitalize()
            self.found.statements[one.strip()] = said

    def unit(self, found: re.Match[str]) -> None:
        r"""Read `\DeclareSIUnit\name{symbol}`."""
        self.option()
        name, symbol = self.control(), self.group()
        if name and symbol is not None:
            self.found.units[name] = symbol

    def comments(self, found: re.Match[str]) -> None:
        (self.hidden.add if found[1] == "excludecomment" else self.hidden.discard)(self.argument().strip())

    def csname(self, found: re.Match[str]) -> None:
        name = CSNAME.match(self.texts[-1], self.places[-1])
        if name:
            self.places[-1] = name.end()
            self.push(f"\\{name[1].strip()} ")

    def stop(self, found: re.Match[str]) -> None:
        if len(self.texts) == 1:
            self.texts.clear()
            self.places.clear()


ENVIRONMENT = re.compile(r"\\(?:begin|end|item|left|right|par)(?![A-Za-z@])")
LAST_COMMAND = re.compile(r"(?:\\([A-Za-z]+)\s*|[_^])\Z")
# What reads the rest of commands, by the names of these.
HANDLERS = {
    "newcommand": "newcommand renewcommand providecommand DeclareRobustCommand def gdef edef xdef"
    " NewDocumentCommand RenewDocumentCommand ProvideDocumentCommand DeclareDocumentCommand"
    " NewExpandableDocumentCommand",
    "operator": "DeclareMathOperator",
    "delimiter": "DeclarePairedDelimiter",
    "let": "let",
    "futurelet": "futurelet",
    "ifnextchar": "@ifnextchar",
    "newif": "newif",
    "boolean": "newboolean setboolean newtoggle toggletrue togglefalse settoggle newbool booltrue boolfalse setbool"
    " provideboolean providetoggle providebool",
    "conditional": "fi else or",
    "ifthenelse": "ifthenelse iftoggle ifbool IfNoValueTF IfValueTF IfBooleanTF",
    "environment": "newenvironment renewenvironment NewDocumentEnvironment RenewDocumentEnvironment",
    "begin": "begin",
    "end": "end",
    "inline_code": "verb lstinline url path nolinkurl href",
    "theorem": "newtheorem declaretheorem spnewtheorem newmdtheoremenv newtcbtheorem",
    "unit": "DeclareSIUnit",
    "comments": "excludecomment includecomment",
    "csname": "csname",
    "stop": "endinput",
}


def has_command(latex: str, name: str) -> bool:
    """Return whether a command is in some LaTeX."""
    place = -1
    while (place := latex.find(f"\\{name}", place + 1)) >= 0:
        following = latex[place + len(name) + 1 : place + len(name) + 2]
        if not (following.isalpha() or following == "@"):
            return True
    return False


def is_argument(before: str) -> bool:
    """Return whether what follows a piece of LaTeX is the argument of its last command."""
    found = LAST_COMMAND.search(before, max(0, len(before) - 30))
    return found is not None and (found[1] is None or found[1] in TAKES_ARGUMENT)
