"""Convert presentation MathML to LaTeX, for formulas without a LaTeX source.

Elements have their meaning in MathML 3 (W3C). An element without a counterpart in LaTeX is written as its content.
"""

import re
import unicodedata
from collections.abc import Callable

from selectolax.lexbor import LexborNode

from zyda_flows.tasks.extraction.nodes import attribute, children_backwards
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
    """Return a formula as LaTeX. Raises ValueError if it is nested too deep."""
    return convert_node(node, limits().formula_depth)


def convert_node(node: LexborNode, max_depth: int) -> str:
    """Return an element as LaTeX. Raises ValueError if elements are nested deeper than `max_depth`."""
    if not max_depth:
        raise ValueError(f"a formula is nested deeper than {limits().formula_depth} elements")
    tag = node.tag or ""
    if tag in TOKEN_WRITERS:
        return TOKEN_WRITERS[tag](node)
    if tag in IGNORED:
        return ""
    children = elements(node)
    if tag == "mtable":
        return matrix(children, max_depth - 1)
    if tag == "semantics":
        children = children[:1]  # the others are annotations
    parts = [convert_node(child, max_depth - 1) for child in children]
    if tag == "semantics":
        return "".join(parts)
    min_parts, convert = LAYOUT_WRITERS.get(tag, (0, join_row))
    return convert(node, parts) if len(parts) >= min_parts else join_parts(parts)


def elements(node: LexborNode) -> list[LexborNode]:
    return [child for child in reversed(children_backwards(node)) if child.is_element_node]


def join_row(node: LexborNode, parts: list[str]) -> str:
    return join_parts(parts)


def join_parts(parts: list[str]) -> str:
    """Join parts of a row, with a space where the name of a command would continue with the next letters."""
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
    return join_parts([symbol(character) for character in text])


def element_text(node: LexborNode) -> str:
    return " ".join((node.text() or "").split())


def is_word(text: str) -> bool:
    return text.isascii() and text.isalpha() and len(text) > 1


def identifier(node: LexborNode) -> str:
    """Return an `<mi>`: a function, a word in upright letters, or symbols in the font of `mathvariant`."""
    original, variant = element_text(node), attribute(node, "mathvariant")
    text = unicodedata.normalize("NFKC", original) if len(original) == 1 else original
    if text in FUNCTIONS:
        return "\\" + text
    if is_word(text) and not variant:
        return rf"\mathrm{{{text}}}"
    latex = symbols(original if original in SYMBOLS else text)
    has_font = variant in LETTERS and (variant != "normal" or text.isalnum())
    return rf"\{LETTERS[variant]}{{{latex}}}" if latex and has_font else latex


def operator(node: LexborNode) -> str:
    text = element_text(node)
    if text in FUNCTIONS:
        return "\\" + text
    return rf"\operatorname{{{text}}}" if is_word(text) else symbols(text)


def text_in_formula(node: LexborNode) -> str:
    text = (node.text() or "").replace("\n", " ")
    if not text.strip(SPACES):
        return symbols(text.replace(" ", "\xa0"))
    return rf"\text{{{text.replace(chr(0xA0), ' ')}}}"


def space(node: LexborNode) -> str:
    if attribute(node, "linebreak") == "newline":
        return r"\\"
    match = WIDTH.match(attribute(node, "width"))
    width = float(match[1]) if match else 0
    return r"\quad" if width >= 1 else r"\," if width > 0 else ""


TOKEN_WRITERS: dict[str, Callable[[LexborNode], str]] = {
    "mi": identifier, "mn": lambda node: symbols(element_text(node)), "mo": operator, "mtext": text_in_formula,
    "ms": text_in_formula, "mspace": space, "-text": lambda node: "",
}  # fmt: skip
IGNORED = {"annotation", "annotation-xml", "mprescripts", "none", "malignmark"}


def in_braces(part: str) -> str:
    return f"{{{part}}}"


def base(part: str) -> str:
    """Return the base of an index, in braces if it has several parts."""
    is_single = len(part) <= 1 or (
        part[0] == "\\" and (part[1:].isalpha() or (part.count("{") <= 1 and part[-1] == "}"))
    )
    return part if is_single else in_braces(part)


def fraction(node: LexborNode, parts: list[str]) -> str:
    if attribute(node, "linethickness")[:1] == "0":
        return rf"{{{parts[0]} \atop {parts[1]}}}"
    return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"


def over(node: LexborNode, parts: list[str]) -> str:
    mark = element_text(elements(node)[1])
    if mark in OVER:
        return rf"\{OVER[mark]}{{{parts[0]}}}"
    if parts[0].startswith((*LIMITED, r"\overbrace")):
        return f"{parts[0]}^{{{parts[1]}}}"
    return rf"\overset{{{parts[1]}}}{{{parts[0]}}}"


def under(node: LexborNode, parts: list[str]) -> str:
    mark = element_text(elements(node)[1])
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


def indices(node: LexborNode, parts: list[str]) -> str:
    upper = parts[2] if parts[2] in {"'", "''"} else f"^{{{parts[2]}}}"
    return f"{base(parts[0])}_{{{parts[1]}}}{upper}"


def fenced(node: LexborNode, parts: list[str]) -> str:
    attributes = node.attributes
    begin, end = (
        symbol(attributes.get(name) or default) for name, default in (("open", "("), ("close", ")"))
    )
    separator = (attributes.get("separators") if "separators" in attributes else ",") or ""
    return rf"\left{begin or '.'}{separator[:1].strip().join(parts)}\right{end or '.'}"


def matrix(rows: list[LexborNode], max_depth: int) -> str:
    lines = []
    for row in rows:
        cells = [cell for cell in elements(row) if cell.tag == "mtd"]
        lines.append(" & ".join(convert_node(cell, max_depth - 1) if max_depth > 1 else "" for cell in cells))
    return r"\begin{matrix} " + r" \\ ".join(lines) + r" \end{matrix}"


# The least number of children of elements, and the functions that write the elements from their converted children.
LAYOUT_WRITERS: dict[str, tuple[int, Callable[[LexborNode, list[str]], str]]] = {
    "mfrac": (2, fraction), "mover": (2, over), "munder": (2, under), "munderover": (3, under_over),
    "msqrt": (0, lambda _, parts: rf"\sqrt{{{join_parts(parts)}}}"),
    "mroot": (2, lambda _, parts: rf"\sqrt[{parts[1]}]{{{parts[0]}}}"),
    "msub": (2, lambda _, parts: f"{base(parts[0])}_{{{parts[1]}}}"),
    "msup": (2, power),
    "msubsup": (3, indices),
    "mmultiscripts": (3, lambda _, parts: f"{base(parts[0])}_{{{parts[1]}}}^{{{parts[2]}}}"),
    "mfenced": (0, fenced),
    "mphantom": (0, lambda _, parts: ""),
}  # fmt: skip
