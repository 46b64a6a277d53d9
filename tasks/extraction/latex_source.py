r"""Divide the source of a LaTeX file at its inputs, and remove its comments.

In code and addresses, `%` does not begin a comment and `\input` does not read a file.
"""

import re
from collections.abc import Iterator

# Code, addresses, inputs, ends of a file, escaped characters (so that `\%` is not a comment), comments.
TOKEN = re.compile(
    r"\\begin\s*+\{(?P<code>verbatim\*?|[BL]?Verbatim\*?|lstlisting|minted|alltt|comment)\}"
    r"|\\(?:verb\*?|lstinline)(?P<mark>[^A-Za-z\s*{\[])"
    r"|\\(?:url|path|href)\s*+\{[^{}\n]*+\}"
    r"|\\string\s*+\\(?P<name>[A-Za-z]++)"
    r"|\\(?:input|include|subfile(?:include)?|InputIfFileExists|@input)\s*+\{(?P<input>[^{}]++)\}"
    r"|\\(?P<import>sub(?:import|inputfrom|includefrom)|import|inputfrom|includefrom)\*?+\s*+"
    r"\{(?P<folder>[^{}]*+)\}\s*+\{(?P<imported>[^{}]++)\}"
    r"|\\input\s++(?P<bare>[^\s{}\\]++)"
    r"|\\(?P<begin>begin)\s*+\{document\}|\\(?P<end>end)\s*+\{document\}|\\(?P<endinput>endinput)(?![A-Za-z])"
    r"|\\[^A-Za-z]|(?P<comment>%.*)"
)
MARKS = {
    "input",
    "imported",
    "bare",
    "begin",
    "end",
    "endinput",
}  # the last groups of tokens that end a piece
MAX_INLINE = 1000  # characters of inline code
INDENT = re.compile(r"[ \t]*")


def pieces_of(text: str, *, keeps_percent: bool = True) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Yield the pieces of a source, each with the mark that ends it: an input, or a begin or end of the document.

    keeps_percent: whether the `%` of a comment is kept. If not, the line end and the indentation of the next line
    are removed with the comment, as in TeX.
    """
    parts, position, endless = list[str](), 0, set[str]()
    while match := TOKEN.search(text, position):
        parts.append(text[position : match.start()])
        position = match.end()
        if match.lastgroup in MARKS:
            yield "".join(parts), match
            parts.clear()
        elif match["comment"]:
            replacement, position = ("%", position) if keeps_percent else skip_comment(text, position)
            parts.append(replacement)
        elif match["name"]:
            parts.append(f"\\textbackslash{{}}{match['name']}")
        else:
            position = end_of_code(text, match, endless)
            parts.append(text[match.start() : position])
    yield "".join([*parts, text[position:]]), None


def end_of_code(text: str, match: re.Match[str], endless: set[str]) -> int:
    """Return where the code after a token ends, or the end of a token that begins no code.

    endless: names of environments without an end, to which this function adds.
    """
    name, position = match["code"], match.end()
    if match["mark"]:
        line_end = text.find("\n", position, position + MAX_INLINE)
        return (
            1 + text.find(match["mark"], position, line_end if line_end >= 0 else position + MAX_INLINE)
            or position
        )
    if not name or name in endless:
        return position
    end = text.find(f"\\end{{{name}}}", position)
    if end < 0:  # in the definition of a macro that begins code, for example
        endless.add(name)
    return max(end, position)


def skip_comment(text: str, position: int) -> tuple[str, int]:
    """Return the replacement of a comment that ends at `position`, and where the text continues."""
    if position >= len(text):
        return "", position
    position = INDENT.match(text, position + 1).end()  # type: ignore[union-attr]
    is_paragraph = text[position : position + 1] == "\n"
    return "\n" if is_paragraph else "", position


def without_comments(text: str) -> str:
    """Return a source without comments and inputs."""
    if not any(sign in text for sign in ("%", "put", "clude", "file", "\\string")):
        return text
    return "".join(
        piece + (match[0] if match and match.lastgroup in {"begin", "end"} else "")
        for piece, match in pieces_of(text, keeps_percent=False)
    )
