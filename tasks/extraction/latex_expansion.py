"""Expand the macros of a LaTeX document, also in formulas, and remove the text that conditionals hide."""

import re

from zyda_flows.tasks.extraction.latex_conditionals import Branches, branches_in, condition, is_true
from zyda_flows.tasks.extraction.latex_definitions import Definitions, ExpandedDocument
from zyda_flows.tasks.extraction.latex_macros import Macro
from zyda_flows.tasks.extraction.latex_reader import CSNAME
from zyda_flows.tasks.extraction.latex_words import CODE, TAKES_ARGUMENT
from zyda_flows.tasks.limits import limits

TOKEN = re.compile(r"\\([A-Za-z@]+)|\\.", re.DOTALL)
NAME = re.compile(r"\s*+\{([^{}\n]*+)\}")
EXPANSION_COST = 16  # characters that are counted for each use of a macro in addition to its expansion
ENVIRONMENT = re.compile(r"\\(?:begin|end|item|left|right|par)(?![A-Za-z@])")
LAST_COMMAND = re.compile(r"(?:\\([A-Za-z]+)\s*|[_^])\Z")
# The methods of `Expander` that read the arguments of commands, each with the names of the commands.
HANDLERS = {
    "newcommand": "newcommand renewcommand providecommand DeclareRobustCommand def gdef edef xdef"
    " NewDocumentCommand RenewDocumentCommand ProvideDocumentCommand DeclareDocumentCommand"
    " NewExpandableDocumentCommand newrobustcmd renewrobustcmd providerobustcmd",
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
    "end_input": "endinput",
}


class Expander(Definitions):
    """Reads a document, expands its macros and evaluates its conditionals."""

    def __init__(self, latex: str) -> None:
        super().__init__(latex)
        self.endless = set[str]()  # environments of code without an end
        self.branches = list[tuple[str, dict[int, Branches]]]()  # of the texts that are being read
        self.preamble: list[str] | None = None
        self.added = 0  # characters that macros have added
        self.handlers.update(
            (name, getattr(self, method)) for method, names in HANDLERS.items() for name in names.split()
        )
        self.builtin = {*self.handlers} - {"path", "or"}

    def expanded(self) -> ExpandedDocument:
        """Return the expanded document. Raises ValueError if macros add too much or are nested too deep."""
        while self.texts:
            text, position = self.texts[-1], self.positions[-1]
            for match in TOKEN.finditer(text, position):
                name = match[1]
                if name is None or not (name in self.handlers or name[:2] == "if"):
                    continue
                self.write(text[position : match.start()])
                self.positions[-1] = match.end()
                self.handlers.get(name, self.conditional)(match)
                break
            else:
                self.write(text[position:])
                self.texts.pop()
                self.positions.pop()
        if self.preamble is not None:
            self.document.preamble = "".join(self.preamble)
        self.document.body = "".join(self.out)
        return self.document

    def write(self, text: str) -> None:
        """Add text to the document, with a space if it would continue the name of the command before it."""
        if text:
            if text[0].isalpha() and self.out and ends_in_command(self.out[-1]):
                self.out.append(" ")
            self.out.append(text)

    def push(self, text: str) -> None:
        """Read a text before the rest. Raises ValueError if macros add too much or are nested too deep."""
        bounds = limits()
        self.added += len(text) + EXPANSION_COST
        if self.added > bounds.latex_macro_characters:
            raise ValueError(f"the macros add more than {bounds.latex_macro_characters:,} characters")
        if len(self.texts) > bounds.latex_depth:
            raise ValueError(f"macros are nested deeper than {bounds.latex_depth} levels")
        self.texts.append(text)
        self.positions.append(0)

    def macro(self, match: re.Match[str]) -> None:
        """Expand a macro."""
        macro = self.macros[match[1]]
        if macro.is_final:
            self.write(macro.body)
            return
        text = macro.expansion(self)
        if self.out and is_argument(self.out[-1]) and len(text) > 1 and not ENVIRONMENT.search(text):
            text = f"{{{text}}}"
        self.push(text)

    def futurelet(self, match: re.Match[str]) -> None:
        name, command = self.control(), self.control()
        while self.skip_end():
            pass
        if name and command:
            following = self.peek() or " "
            self.define(name, Macro(following, is_final=True))
            self.push(f"\\{command}")

    def ifnextchar(self, match: re.Match[str]) -> None:
        mark, then, otherwise = self.argument(), self.argument(), self.argument()
        self.skip_space()
        self.push(then if self.peek() == mark else otherwise)

    def conditional(self, match: re.Match[str]) -> None:
        name, text = match[1], self.texts[-1]
        branches = self.current_branches().get(match.start())
        if branches is None:
            if name in {"fi", "else"} or name in self.flags or name in {"iftrue", "iffalse"}:
                return
            self.out.append(match[0])
        elif name in {"else", "or"}:
            self.positions[-1] = branches.end
        else:
            number, position = condition(name, text, match.end(), self.macros, self.flags)
            self.positions[-1] = position
            others = len(branches.begins) - branches.has_else
            if not 0 <= number <= others:
                self.positions[-1] = branches.begins[-1] if branches.has_else else branches.end
            elif number:
                self.positions[-1] = branches.begins[number - 1]

    def current_branches(self) -> dict[int, Branches]:
        """Return the branches of the conditionals of the text that is being read."""
        text, level = self.texts[-1], len(self.texts)
        del self.branches[level:]
        while len(self.branches) < level:
            self.branches.append(("", {}))
        if self.branches[level - 1][0] is not text:
            self.branches[level - 1] = (text, branches_in(text))
        return self.branches[level - 1][1]

    def ifthenelse(self, match: re.Match[str]) -> None:
        r"""Read `\ifthenelse{test}{...}{...}` and similar commands."""
        test, then = self.argument().strip(), self.argument()
        otherwise = self.group() or ""
        self.push(then if is_true(match[1], test, self.macros, self.flags) else otherwise)

    def begin(self, match: re.Match[str]) -> None:
        name = self.name()
        if name is None:
            self.out.append(match[0])
        elif name == "document":
            if self.preamble is None:
                self.preamble, self.out = self.out, []
        elif name in CODE or name in self.hidden:
            self.code(name)
        elif macro := self.macros.get(f"begin {name}"):
            self.push(macro.expansion(self))
        else:
            self.out.append(f"\\begin{{{name}}}")

    def end(self, match: re.Match[str]) -> None:
        name = self.name()
        if name is None:
            self.out.append(match[0])
        elif name == "document":
            self.texts.clear()
            self.positions.clear()
        elif name in self.ends:
            self.push(self.ends[name])
        else:
            self.out.append(f"\\end{{{name}}}")

    def name(self) -> str | None:
        """Read the name of an environment."""
        match = NAME.match(self.texts[-1], self.positions[-1])
        if match is None:
            return None
        self.positions[-1] = match.end()
        return match[1].strip()

    def code(self, name: str) -> None:
        """Copy an environment of code unchanged, and skip a hidden environment."""
        text, position, end = self.texts[-1], self.positions[-1], f"\\end{{{name}}}"
        start_of_end = -1 if name in self.endless else text.find(end, position)
        if start_of_end < 0:
            self.endless.add(name)
            return
        self.positions[-1] = start_of_end + len(end)
        if name not in self.hidden:
            self.out.append(f"\\begin{{{name}}}{text[position : start_of_end + len(end)]}")

    def inline_code(self, match: re.Match[str]) -> None:
        """Copy inline code and addresses unchanged."""
        self.out.append(match[0])
        name, text, position = match[1], self.texts[-1], self.positions[-1]
        if name not in {"verb", "lstinline"}:
            inside = self.group()
            self.out.append("" if inside is None else f"{{{inside}}}")
            return
        star = text[position : position + 1] == "*"
        mark = text[position + star : position + star + 1]
        end = text.find(mark, position + star + 1, position + 1000) if mark and mark not in "{[ \n" else -1
        if end >= 0:
            self.out.append(text[position + star : end + 1])
            self.positions[-1] = end + 1

    def csname(self, match: re.Match[str]) -> None:
        name = CSNAME.match(self.texts[-1], self.positions[-1])
        if name:
            self.positions[-1] = name.end()
            self.push(f"\\{name[1].strip()} ")

    def end_input(self, match: re.Match[str]) -> None:
        if len(self.texts) == 1:
            self.texts.clear()
            self.positions.clear()


def ends_in_command(text: str) -> bool:
    """Return whether LaTeX ends in the name of a command."""
    start = text.rfind("\\")
    return start >= 0 and text[start + 1 :].isalpha() and (start == 0 or text[start - 1] != "\\")


def is_argument(before: str) -> bool:
    """Return whether the text after this LaTeX is the argument of its last command."""
    match = LAST_COMMAND.search(before, max(0, len(before) - 30))
    return match is not None and (match[1] is None or match[1] in TAKES_ARGUMENT)
