r"""Write algorithms of algorithmic, algpseudocode and algorithm2e as LaTeX with a line for each statement.

`\If{$x$}` becomes the line "if $x$ then". A block of algorithm2e, which is in braces, becomes several lines.
"""

import re
from collections.abc import Callable

from zyda_flows.tasks.extraction.latex_reader import Reader

COMMAND = re.compile(r"\\([A-Za-z]+)\*?[ \t]*|\\.|\$[^$]*+\$", re.DOTALL)
LINE_END = "\\\\ "
# The words before and after the condition of a statement, which is its argument.
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
COMMENTS = ("comment", "tcp", "tcc", "tcpas", "tccas")
# Settings, and the number of their arguments.
SETTINGS = {
    "DontPrintSemicolon": 0, "SetAlgoLined": 0, "SetAlgoNoLine": 0, "SetAlgoVlined": 0, "LinesNumbered": 0,
    "SetNlSty": 3, "PrintSemicolon": 0, "SetAlgoNoEnd": 0, "BlankLine": 0, "RestyleAlgo": 1, "algsetup": 1,
    "LinesNumberedHidden": 0, "SetKwProg": 4, "SetKwComment": 3, "SetAlgoSkip": 1, "SetKwRepeat": 3,
}  # fmt: skip
# Commands that declare a keyword of the author, and the text after the keyword.
DECLARATIONS = {"SetKwInOut": ": ", "SetKwInput": ": ", "SetKw": " ", "SetKwData": "", "SetKwFunction": "()"}
# Blocks of algorithm2e, and blocks of it that begin with a condition.
BLOCKS_WITH_CONDITION = {
    "if", "elseif", "for", "forall", "foreach", "while", "switch", "case", "eif", "repeat",
}  # fmt: skip
BLOCKS = BLOCKS_WITH_CONDITION | {"else", "begin"}
PREFIX = re.compile(r"\A(?:[ul](?=[A-Z]))")


class Algorithm(Reader):
    """Reads an algorithm statement by statement. has_blocks: whether it is written for algorithm2e."""

    def __init__(self, latex: str, budget: int, *, has_blocks: bool) -> None:
        super().__init__(latex, budget)
        self.has_blocks = has_blocks
        self.keywords = dict[str, str]()  # of the author, by their commands

    def lines(self) -> str:
        r"""Return LaTeX with `\\` between the lines."""
        parts = list[str]()
        while self.texts:
            text, position = self.texts[-1], self.positions[-1]
            match = COMMAND.search(text, position)
            parts.append(text[position : match.start()] if match else text[position:])
            if match is None:
                self.texts.pop()
                self.positions.pop()
                continue
            self.positions[-1] = match.end()
            parts.append(self.statement(match))
        return "".join(parts)

    def statement(self, match: re.Match[str]) -> str:
        """Read the arguments of a command and return its line. The content of a block is read next."""
        name = match[1] or ""
        if not name:
            return LINE_END if match[0] == "\\;" else match[0]
        if name in SETTINGS:
            return self.skip_setting(name)
        if name in DECLARATIONS:
            return self.declare_keyword(name)
        if name in self.keywords:
            return self.keyword(self.keywords[name])
        statement = PREFIX.sub("", name).lower() if self.has_blocks else name.lower()
        methods = BLOCK_STATEMENT_METHODS if self.has_blocks else STATEMENT_METHODS
        return methods[statement](self, statement) if statement in methods else match[0]

    def skip_setting(self, name: str) -> str:
        for _ in range(SETTINGS[name]):
            self.argument()
        return ""

    def declare_keyword(self, name: str) -> str:
        """Read the declaration of a keyword: its command, then its text."""
        command = self.argument().lstrip("\\")
        self.keywords[command] = self.argument() + DECLARATIONS[name]
        return ""

    def keyword(self, text: str) -> str:
        """Return a keyword that the author declared, with its argument."""
        argument = self.group() or ""
        if text.endswith("()"):
            return f"{text[:-2]}({argument})"
        return f"{LINE_END if text.endswith(': ') else ''}{text}{argument}"

    def comment(self, name: str) -> str:
        return f" // {self.argument()}"

    def call(self, name: str) -> str:
        return f"{self.argument()}({self.argument()})"

    def condition(self, name: str) -> str:
        """Return the end of the line before a statement with a condition; the statement is read next."""
        before, after = CONDITIONS[name]
        condition = self.argument()
        parameters = f"({self.group() or ''})" if name in {"procedure", "function"} else ""
        self.push(f"{before}{condition}{parameters}{after}")
        return LINE_END

    def line(self, name: str) -> str:
        """Return the words of a statement without a condition; its argument in algorithm2e is read next."""
        argument = self.group() if self.has_blocks else None
        if argument is not None:
            self.push(f"{argument}{LINE_END}")
        return f"{LINE_END}{LINES[name]}"

    def word(self, name: str) -> str:
        return WORDS[name]

    def block(self, name: str) -> str:
        """Read a block of algorithm2e: its condition, and its lines in braces."""
        self.option()
        condition = self.argument() if name in BLOCKS_WITH_CONDITION else ""
        body, else_body = self.group() or "", self.group() if name == "eif" else None
        if name == "repeat":
            self.push(f"repeat{LINE_END}{body}{LINE_END}until {condition} ")
            return LINE_END
        before, after = CONDITIONS.get("if" if name == "eif" else name, (name, ""))
        end = "" if name in {"case", "else"} else f"{LINE_END}end"
        else_part = "" if else_body is None else f"{LINE_END}else{LINE_END}{else_body}"
        self.push(f"{before}{condition}{after}{LINE_END}{body}{else_part}{end}{LINE_END}")
        return LINE_END

    def push(self, text: str) -> None:
        """Read a text before the rest."""
        self.texts.append(text)
        self.positions.append(0)


STATEMENT_METHODS: dict[str, Callable[[Algorithm, str], str]] = {
    **dict.fromkeys(WORDS, Algorithm.word),
    **dict.fromkeys(LINES, Algorithm.line),
    **dict.fromkeys(CONDITIONS, Algorithm.condition),
    "call": Algorithm.call,
    **dict.fromkeys(COMMENTS, Algorithm.comment),
}
BLOCK_STATEMENT_METHODS = {**STATEMENT_METHODS, **dict.fromkeys(BLOCKS, Algorithm.block)}  # of algorithm2e
