r"""Formulas of a page as LaTeX: of MathML, KaTeX, MathJax and of images that have their source as text.

The source is what the page itself says: an annotation, a script, the text of an image. MathML without one is
converted. `\(...\)` and `$...$` that stand in the text are LaTeX already and stay as they are.
"""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from zyda_flows.tasks.extraction.mathml import latex_of_mathml
from zyda_flows.tasks.limits import limits

WITHIN = (".mwe-math-element", ".katex-display", ".katex", "mjx-container", "math")  # outer ones first
SCRIPTS = 'script[type^="math/tex"], script[type^="math/mml"]'
DRAWN = ".MathJax_Preview, .MathJax, .MathJax_Display, .MathJax_SVG, .MathJax_CHTML, .mjx-chtml"
IMAGE_CLASS = re.compile(r"(?:^|[\s_-])(?:tex|latex|math|ql-img|mwe-math|imgmath|equation)", re.IGNORECASE)
IMAGES = 'img[class*="tex"], img[class*="math"], img[class*="ql-img"], img[class*="equation"]'
SOURCES = frozenset({"application/x-tex", "text/x-tex", "application/x-latex", "tex", "latex", "text/latex"})
IN_DOLLARS = re.compile(r"^(?:\$\$(.*)\$\$|\$(.*)\$|\\\((.*)\\\)|\\\[(.*)\\\])$", re.DOTALL)
IN_STYLE = re.compile(r"^\{\s*\\(?:displaystyle|textstyle)\b(.*)\}$", re.DOTALL)
ROOTS = frozenset({"html", "head", "body"})  # which stay, whatever their classes say


def formulas_of(tree: LexborHTMLParser) -> list[tuple[LexborNode, str, bool]]:
    """Return the elements that are formulas, none within another, their LaTeX, and whether each is displayed."""
    taken, found = set[int](), list[tuple[LexborNode, str, bool]]()
    for selector in (*WITHIN, SCRIPTS, IMAGES):
        for node in tree.css(selector):
            if node.tag in ROOTS or is_within(node, taken):
                continue
            if latex := source_of(node):
                taken.add(node.mem_id)
                found.append((node, latex, is_displayed(node)))
    return found


def is_within(node: LexborNode, taken: set[int]) -> bool:
    around: LexborNode | None = node
    while around is not None:
        if around.mem_id in taken:
            return True
        around = around.parent
    return False


def source_of(node: LexborNode) -> str:
    """Return the LaTeX of an element, or "" where it has none."""
    if node.tag == "img":
        is_formula = IMAGE_CLASS.search(node.attributes.get("class") or "")
        return clean(node.attributes.get("alt") or "") if is_formula else ""
    if node.tag == "script":
        return source_of_script(node)
    math = node if node.tag == "math" else node.css_first("math")
    if math is None:
        image = node.css_first("img")
        return clean(image.attributes.get("alt") or "") if image is not None and node.tag != "math" else ""
    return source_of_math(math)


def source_of_script(node: LexborNode) -> str:
    text = node.text() or ""
    if "mml" not in (node.attributes.get("type") or ""):
        return clean(text)
    math = LexborHTMLParser(text).css_first("math")
    return source_of_math(math) if math is not None else ""


def source_of_math(math: LexborNode) -> str:
    for annotation in math.css("annotation"):
        if (annotation.attributes.get("encoding") or "").lower() in SOURCES:
            return clean(annotation.text() or "")
    if said := clean(math.attributes.get("alttext") or ""):
        return said
    try:
        return clean(latex_of_mathml(math))
    except ValueError:  # a formula that nobody made: its text stays
        return ""


def is_displayed(node: LexborNode) -> bool:
    """Say whether a formula stands on a line of its own."""
    attributes = node.attributes
    kind, classes = attributes.get("type") or "", attributes.get("class") or ""
    if node.tag == "script":
        return "mode=display" in kind.replace(" ", "")
    if node.tag == "img":
        around = node.parent
        return "display" in classes or (
            around is not None and around.tag == "div" and "math" in (around.attributes.get("class") or "")
        )
    if "katex-display" in classes or attributes.get("display") in {"true", "block"}:
        return True
    math = node if node.tag == "math" else node.css_first("math")
    return math is not None and (
        math.attributes.get("display") == "block" or math.attributes.get("mode") == "display"
    )


def clean(latex: str) -> str:
    """Return LaTeX without what stands around it."""
    latex = " ".join(line.strip() for line in latex.strip().splitlines() if line.strip())
    if match := IN_DOLLARS.match(latex):
        latex = next(part for part in match.groups() if part is not None).strip()
    if match := IN_STYLE.match(latex):
        latex = match[1].strip()
    return latex if len(latex) <= limits().formula_characters else ""


def in_dollars(latex: str, *, is_displayed: bool) -> str:
    return f"$${latex}$$" if is_displayed else f"${latex}$"
