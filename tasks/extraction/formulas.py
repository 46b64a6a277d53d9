r"""Find the formulas of a page and their LaTeX: of MathML, KaTeX, MathJax and images.

The LaTeX is taken from an annotation, a script or the alternative text of an image. MathML without such a source is
converted. `\(...\)` and `$...$` in the text of the page are LaTeX already and are kept.
"""

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from zyda_flows.tasks.extraction.mathml import latex_of_mathml
from zyda_flows.tasks.extraction.nodes import attribute, is_inside
from zyda_flows.tasks.limits import limits

ELEMENTS = (".mwe-math-element", ".katex-display", ".katex", "mjx-container", "math")  # outer before inner
SCRIPTS = 'script[type^="math/tex"], script[type^="math/mml"]'
RENDERED = ".MathJax_Preview, .MathJax, .MathJax_Display, .MathJax_SVG, .MathJax_CHTML, .mjx-chtml"
IMAGE_CLASS = re.compile(r"(?:^|[\s_-])(?:tex|latex|math|ql-img|mwe-math|imgmath|equation)", re.IGNORECASE)
IMAGES = 'img[class*="tex"], img[class*="math"], img[class*="ql-img"], img[class*="equation"]'
SOURCES = frozenset({"application/x-tex", "text/x-tex", "application/x-latex", "tex", "latex", "text/latex"})
IN_DOLLARS = re.compile(r"^(?:\$\$(.*)\$\$|\$(.*)\$|\\\((.*)\\\)|\\\[(.*)\\\])$", re.DOTALL)
IN_STYLE = re.compile(r"^\{\s*\\(?:displaystyle|textstyle)\b(.*)\}$", re.DOTALL)
ROOTS = frozenset({"html", "head", "body"})  # elements that are never formulas, even with a class of formulas


def formulas_of(tree: LexborHTMLParser) -> list[tuple[LexborNode, str, bool]]:
    """Return the outermost elements that are formulas, each with its LaTeX and whether it is a display formula."""
    formulas, ids = list[tuple[LexborNode, str, bool]](), set[int]()
    for selector in (*ELEMENTS, SCRIPTS, IMAGES):
        for node in tree.css(selector):
            if node.tag in ROOTS or node.mem_id in ids or is_inside(node, ids):
                continue
            if latex := formula_source(node):
                ids.add(node.mem_id)
                formulas.append((node, latex, is_displayed(node)))
    return formulas


def formula_source(node: LexborNode) -> str:
    """Return the LaTeX of an element, or "" if it has none."""
    if node.tag == "img":
        return clean(attribute(node, "alt")) if IMAGE_CLASS.search(attribute(node, "class")) else ""
    if node.tag == "script":
        return script_source(node)
    if (math := math_element(node)) is not None:
        return math_source(math)
    image = node.css_first("img")
    return clean(attribute(image, "alt")) if image is not None else ""


def math_element(node: LexborNode) -> LexborNode | None:
    """Return the element itself if it is `<math>`, or else the first `<math>` in it."""
    return node if node.tag == "math" else node.css_first("math")


def script_source(node: LexborNode) -> str:
    """Return the LaTeX of a script of MathJax, which contains LaTeX or MathML."""
    text = node.text() or ""
    if "mml" not in attribute(node, "type"):
        return clean(text)
    math = LexborHTMLParser(text).css_first("math")
    return math_source(math) if math is not None else ""


def math_source(math: LexborNode) -> str:
    """Return the LaTeX of MathML: its annotation, its alternative text, or a conversion."""
    for annotation in math.css("annotation"):
        if attribute(annotation, "encoding").lower() in SOURCES:
            return clean(annotation.text() or "")
    if alternative := clean(attribute(math, "alttext")):
        return alternative
    try:
        return clean(latex_of_mathml(math))
    except ValueError:  # nested deeper than real formulas: the element is kept as text
        return ""


def is_displayed(node: LexborNode) -> bool:
    """Return whether a formula is displayed on a separate line."""
    if node.tag == "script":
        return "mode=display" in attribute(node, "type").replace(" ", "")
    if node.tag == "img":
        return is_displayed_image(node)
    if "katex-display" in attribute(node, "class") or attribute(node, "display") in {"true", "block"}:
        return True
    math = math_element(node)
    return math is not None and (
        attribute(math, "display") == "block" or attribute(math, "mode") == "display"
    )


def is_displayed_image(image: LexborNode) -> bool:
    if "display" in attribute(image, "class"):
        return True
    parent = image.parent
    return parent is not None and parent.tag == "div" and "math" in attribute(parent, "class")


def clean(latex: str) -> str:
    """Return LaTeX on one line, without dollars or a style command around it; "" if it is too long."""
    latex = " ".join(line.strip() for line in latex.strip().splitlines() if line.strip())
    if match := IN_DOLLARS.match(latex):
        latex = next(part for part in match.groups() if part is not None).strip()
    if match := IN_STYLE.match(latex):
        latex = match[1].strip()
    return latex if len(latex) <= limits().formula_characters else ""


def in_dollars(latex: str, *, is_displayed: bool) -> str:
    return f"$${latex}$$" if is_displayed else f"${latex}$"
