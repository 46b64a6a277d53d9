r"""Algorithms of algorithmic, algpseudocode and algorithm2e as LaTeX with a line for each statement.

`\If{$x$}` is the line "if $x$ then"; a block of algorithm2e, which stands in braces, is lines between two others.
"""

import re

from zyda_flows.tasks.extraction.latex_reader import Reader

COMMAND = re.compile(r"\\([A-Za-z]+)\*?[ \t]*|\\.|\$[^$]*+\$", re.DOTALL)
# How a line begins and ends around its condition, which is in braces.
CONDITIONS = {
    "if": ("if ", " then"), "elsif": ("else if ", " then"), "elseif": ("else if ", " then"),
    "for": ("for ", " do"),
    "forall": ("for all ", " do"), "foreach": ("for each ", " do"), "while": ("while ", " do"),
    "until": ("until ", ""),
    "switch": ("switch ", ""), "case": ("case ", ""), "procedure": ("procedure ", ""),
    "function": ("function ", ""),
}  # fmt: skip
LINES = {
    "state": "", "statex": "", "else": "else", "endif": "end if", "endfor": "end for",
    "endwhile": "end while",
    "repeat": "repeat", "loop": "loop", "endloop": "end loop", "endprocedure": "end procedure",
    "endfunction": "end function", "require": "Require: ", "ensure": "Ensure: ", "input": "Input: ",
    "output": "Output: ", "print": "print ", "kwin": "Input: ", "kwout": "Output: ", "kwdata": "Data: ",
    "kwresult": "Result: ", "kwret": "return ", "return": "return ", "kwinput": "Input: ",
    "kwoutput": "Output: ",
    "requires": "Require: ", "ensures": "Ensure: ",
}  # fmt: skip
WORDS = {
    "to": "to ",
    "and": "and ",
    "or": "or ",
    "not": "not ",
    "xor": "xor ",
    "true": "true ",
    "false": "false ",
}
COMMENTS = {"comment", "tcp", "tcc", "tcpas", "tccas"}
# Settings, and how many arguments in braces they have.
SETTINGS = {
    "DontPrintSemicolon": 0, "SetAlgoLined": 0, "SetAlgoNoLine": 0, "SetAlgoVlined": 0, "LinesNumbered": 0,
    "SetNlSty": 3, "PrintSemicolon": 0, "SetAlgoNoEnd": 0, "BlankLine": 0, "RestyleAlgo": 1, "algsetup": 1,
    "LinesNumberedHidden": 0, "SetKwProg": 4, "SetKwComment": 3, "SetAlgoSkip": 1, "SetKwRepeat": 3,
}  # fmt: skip
DECLARED = {"SetKwInOut": ": ", "SetKwInput": ": ", "SetKw": " ", "SetKwData": "", "SetKwFunction": "()"}
BLOCKS = {"if", "elseif", "for", "forall", "foreach", "while", "switch", "case"}
PREFIX = re.compile(r"\A(?:[ul](?=[A-Z]))")


class Algorithm(Reader):
    """An algorithm that is read statement by statement. has_blocks: whether it is one of algorithm2e."""

    def __init__(self, latex: str, budget: int, *, has_blocks: bool) -> None:
        super().__init__(latex, budget)
        self.has_blocks = has_blocks
        self.declared = dict[str, str]()  # keywords and functions, by their commands

    def lines(self) -> str:
        r"""Return LaTeX with `\\` between the lines."""
        parts = list[str]()
        while self.texts:
            text, place = self.texts[-1], self.places[-1]
            found = COMMAND.search(text, place)
            parts.append(text[place : found.start()] if found else text[place:])
            if found is None:
                self.texts.pop()
                self.places.pop()
                continue
            self.places[-1] = found.end()
            parts.append(self.statement(found))
        return "".join(parts)

    def statement(self, found: re.Match[str]) -> str:
        """Read the arguments of a command and return its line. A block is read next."""
        name = found[1] or ""
        bare = PREFIX.sub("", name).lower() if self.has_blocks else name.lower()
        if not name or name in SETTINGS or name in DECLARED:
            return self.setting(name, found[0])
        if name in self.declared:
            return self.keyword(self.declared[name])
        if bare in COMMENTS:
            return f" // {self.argument()}"
        if bare == "call":
            return f"{self.argument()}({self.argument()})"
        if self.has_blocks and bare in {*BLOCKS, "eif", "else", "begin", "repeat"}:
            return self.block(bare)
        if bare in CONDITIONS:
            before, after = CONDITIONS[bare]
            condition = self.argument()
            parameters = f"({self.group() or ''})" if bare in {"procedure", "function"} else ""
            self.push(f"{before}{condition}{parameters}{after}")
            return "\\\\ "
        if bare in LINES:
            inside = self.group() if self.has_blocks else None
            if inside is not None:
                self.push(f"{inside}\\\\ ")
            return f"\\\\ {LINES[bare]}"
        return WORDS.get(bare, found[0])

    def setting(self, name: str, command: str) -> str:
        """Skip a setting, or remember the keyword that a command declares."""
        if not name:
            return "\\\\ " if command == "\\;" else command
        if name in DECLARED:
            self.declared[self.argument().lstrip("\\")] = self.argument() + DECLARED[name]
        for _ in range(SETTINGS.get(name, 0)):
            self.argument()
        return ""

    def keyword(self, text: str) -> str:
        """Return a keyword that the author declared, with its argument."""
        inside = self.group()
        if text.endswith("()"):
            return f"{text[:-2]}({inside or ''})"
        return f"\\\\ {text}{inside or ''}" if text.endswith(": ") else f"{text}{inside or ''}"

    def block(self, name: str) -> str:
        """Read a block of algorithm2e: its condition, and its lines in braces."""
        self.option()
        condition = self.argument() if name in {*BLOCKS, "eif", "repeat"} else ""
        body, otherwise = self.group() or "", self.group() if name == "eif" else None
        if name == "repeat":
            self.push(f"repeat\\\\ {body}\\\\ until {condition} ")
            return "\\\\ "
        before, after = CONDITIONS.get("if" if name == "eif" else name, (name, ""))
        end = "" if name in {"case", "else"} else "\\\\ end"
        other = "" if otherwise is None else f"\\\\ else\\\\ {otherwise}"
        self.push(f"{before}{condition}{after}\\\\ {body}{other}{end}\\\\ ")
        return "\\\\ "

    def push(self, text: str) -> None:
        """Read a text next."""
        self.texts.append(text)
        self.places.append(0)
