"""Presentation MathML as LaTeX, for formulas of which a page has no source.

Elements and their meaning are those of MathML 3 (W3C). What has no counterpart is written as its content.
"""

import re
import unicodedata
from collections.abc import Callable

from selectolax.lexbor import LexborNode

from zyda_flows.tasks.extraction.nodes import children_backwards
from zyda_flows.tasks.extraction.symbols import (
    FUNCTIONS,
    LETTERS,
    LIMITED,
    OVER,
    SPACED,
    SYMBOLS,
    UNDER,
    symbol,
)
from zyda_flows.tasks.limits import limits

SPACES = " \xa0\u2003\u2009\u200a\u2061\u2062\u2063\u2064"
LONGEST_COMMAND = 40  # characters
WIDTH = re.compile(r"(\d{0,3}\.?\d{1,9})em")


def latex_of_mathml(node: LexborNode) -> str:
    """Return a formula as LaTeX; raise ValueError where it is too deep."""
    return converted(node, limits().formula_depth)


def converted(node: LexborNode, left: int) -> str:
    if not left:
        raise ValueError(f"a formula is more than {limits().formula_depth} elements deep")
    tag = node.tag or ""
    if tag in TOKENS:
        return TOKENS[tag](node)
    children = elements(node)
    if tag == "semantics":
        return converted(children[0], left - 1) if children else ""
    if tag == "mtable":
        return matrix(children, left - 1)
    if tag in {"annotation", "annotation-xml", "mprescripts", "none", "malignmark"}:
        return ""
    parts = [converted(child, left - 1) for child in children]
    if tag in SCRIPTS and len(parts) >= SCRIPTS[tag][0]:
        return SCRIPTS[tag][1](node, parts)
    return joined(parts)


def elements(node: LexborNode) -> list[LexborNode]:
    return [child for child in reversed(children_backwards(node)) if child.is_element_node]


def joined(parts: list[str]) -> str:
    """Join what stands beside each other, with a space where a command would run into letters."""
    text = ""
    for part in filter(None, parts):
        if part in SPACED:
            text += f" {part} " if text else part
        elif text and part[0].isalpha() and ends_in_command(text):
            text += " " + part
        else:
            text += part
    return text.replace("  ", " ").strip() if text.strip() else text


def ends_in_command(text: str) -> bool:
    _, backslash, name = text[-LONGEST_COMMAND:].rpartition("\\")
    return bool(backslash) and name.isalpha()


def symbols(text: str) -> str:
    return joined([symbol(character) for character in text])


def text_of(node: LexborNode) -> str:
    return " ".join((node.text() or "").split())


def identifier(node: LexborNode) -> str:
    text = unicodedata.normalize("NFKC", text_of(node)) if len(text_of(node)) == 1 else text_of(node)
    variant = node.attributes.get("mathvariant") or ""
    if text in FUNCTIONS:
        return "\\" + text
    if text.isascii() and text.isalpha() and len(text) > 1 and not variant:
        return rf"\mathrm{{{text}}}"
    written = symbols(text_of(node) if text_of(node) in SYMBOLS else text)
    if variant in LETTERS and written and not (variant == "normal" and not text.isalnum()):
        return rf"\{LETTERS[variant]}{{{written}}}"
    return written


def operator(node: LexborNode) -> str:
    text = text_of(node)
    if text in FUNCTIONS:
        return "\\" + text
    if text.isascii() and text.isalpha() and len(text) > 1:
        return rf"\operatorname{{{text}}}"
    return symbols(text)


def words(node: LexborNode) -> str:
    text = (node.text() or "").replace("\n", " ")
    if not text.strip(SPACES):
        return joined([symbol(character) for character in text.replace(" ", "\xa0")])
    return rf"\text{{{text.replace(chr(0xA0), ' ')}}}"


def space(node: LexborNode) -> str:
    attributes = node.attributes
    if attributes.get("linebreak") == "newline":
        return r"\\"
    match = WIDTH.match(attributes.get("width") or "")
    width = float(match[1]) if match else 0
    return r"\quad" if width >= 1 else r"\," if width > 0 else ""


TOKENS: dict[str, Callable[[LexborNode], str]] = {
    "mi": identifier, "mn": lambda node: symbols(text_of(node)), "mo": operator, "mtext": words, "ms": words,
    "mspace": space, "-text": lambda node: "",
}  # fmt: skip


def in_braces(part: str) -> str:
    return f"{{{part}}}"


def base(part: str) -> str:
    """Return what an index is put to, in braces where it has several parts."""
    is_one = len(part) <= 1 or (
        part[0] == "\\" and (part[1:].isalpha() or (part.count("{") <= 1 and part[-1] == "}"))
    )
    return part if is_one else in_braces(part)


def fraction(node: LexborNode, parts: list[str]) -> str:
    if (node.attributes.get("linethickness") or "")[:1] == "0":
        return rf"{{{parts[0]} \atop {parts[1]}}}"
    return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"


def over(node: LexborNode, parts: list[str]) -> str:
    mark = text_of(elements(node)[1])
    if mark in OVER:
        return rf"\{OVER[mark]}{{{parts[0]}}}"
    if parts[0].startswith((*LIMITED, r"\overbrace")):
        return f"{parts[0]}^{{{parts[1]}}}"
    return rf"\overset{{{parts[1]}}}{{{parts[0]}}}"


def under(node: LexborNode, parts: list[str]) -> str:
    mark = text_of(elements(node)[1])
    if mark in UNDER:
        return rf"\{UNDER[mark]}{{{parts[0]}}}"
    if parts[0].startswith((*LIMITED, r"\underbrace")):
        return f"{parts[0]}_{{{parts[1]}}}"
    return rf"\underset{{{parts[1]}}}{{{parts[0]}}}"


def under_over(node: LexborNode, parts: list[str]) -> str:
    if parts[0].startswith(LIMITED):
        return f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}}"
    return rf"\overset{{{parts[2]}}}{{\underset{{{parts[1]}}}{{{parts[0]}}}}}"


def power(node: LexborNode, parts: list[str]) -> str:
    return base(parts[0]) + (parts[1] if parts[1] in {"'", "''"} else f"^{{{parts[1]}}}")


def both(node: LexborNode, parts: list[str]) -> str:
    upper = parts[2] if parts[2] in {"'", "''"} else f"^{{{parts[2]}}}"
    return f"{base(parts[0])}_{{{parts[1]}}}{upper}"


def fenced(node: LexborNode, parts: list[str]) -> str:
    attributes = node.attributes
    begin, end = (
        symbol(attributes.get(name) or default) for name, default in (("open", "("), ("close", ")"))
    )
    separator = (attributes.get("separators") if "separators" in attributes else ",") or ""
    return rf"\left{begin or '.'}{separator[:1].strip().join(parts)}\right{end or '.'}"


def matrix(rows: list[LexborNode], left: int) -> str:
    lines = []
    for row in rows:
        cells = [cell for cell in elements(row) if cell.tag == "mtd"]
        lines.append(" & ".join(converted(cell, left - 1) if left > 1 else "" for cell in cells))
    return r"\begin{matrix} " + r" \\ ".join(lines) + r" \end{matrix}"


SCRIPTS: dict[str, tuple[int, Callable[[LexborNode, list[str]], str]]] = {
    "mfrac": (2, fraction), "mover": (2, over), "munder": (2, under), "munderover": (3, under_over),
    "msqrt": (0, lambda _, parts: rf"\sqrt{{{joined(parts)}}}"),
    "mroot": (2, lambda _, parts: rf"\sqrt[{parts[1]}]{{{parts[0]}}}"),
    "msub": (2, lambda _, parts: f"{base(parts[0])}_{{{parts[1]}}}"),
    "msup": (2, power),
    "msubsup": (3, both),
    "mmultiscripts": (3, lambda _, parts: f"{base(parts[0])}_{{{parts[1]}}}^{{{parts[2]}}}"),
    "mfenced": (0, fenced),
    "mphantom": (0, lambda _, parts: ""),
}  # fmt: skip
