"""Extract the main content of a web page as Markdown with its code, tables, formulas, headings and lists.

resiliparse finds the main content, as in `main_content`. Before that, code, tables and formulas, which resiliparse
would flatten, are written as Markdown from lexbor's tree and marked in the page. Pages with such elements are
parsed twice, which is several times faster than a walk over the whole tree in Python.
"""

import re

from resiliparse.extract.html2text import extract_plain_text
from selectolax.lexbor import LexborHTMLParser, LexborNode

from zyda_flows.tasks.extraction.code_blocks import CODE_CELLS, block_language, code_text, fence_code
from zyda_flows.tasks.extraction.formulas import IMAGES, RENDERED, ROOTS, SCRIPTS, formulas_of, in_dollars
from zyda_flows.tasks.extraction.lists import with_numbers
from zyda_flows.tasks.extraction.lone_characters import with_lone
from zyda_flows.tasks.extraction.marks import (
    CODE,
    NO_CODE,
    Piece,
    closing,
    opening,
    with_pieces,
    without_marks,
)
from zyda_flows.tasks.extraction.nesting import Bytes, measure_page, with_sentences
from zyda_flows.tasks.extraction.nodes import ancestors, is_inside
from zyda_flows.tasks.extraction.rendering import markdown
from zyda_flows.tasks.extraction.tables import table_markdown

# Superscript digits after a number or a unit: 10<sup>6</sup> becomes 10^6, not 106.
POWER = re.compile(r"<sup(?: [^<>]*)?>\s*((?:[-+\u2212]|&minus;)?[0-9]{1,3})\s*</sup>")
BASE = re.compile(r"(?:[0-9)\]]|(?<![A-Za-z])[A-Za-z]{1,2})(?:</(?:i|em|b|strong|var)>)?$")
LONGEST_BASE = 12  # characters
BODY = re.compile(r"<body\b[^>]*", re.IGNORECASE)
# resiliparse removes lists near the root as navigation. In pages without a layout they are content.
NESTING = "<div>" * 3
ANCHORS = "a.headerlink, a.anchor-link, a.anchorjs-link, a.anchor[aria-hidden], .mw-editsection, .copybtn"
MAX_ANCHOR_TEXT = 12  # characters of a sign or of "[edit]"
TYPE_CLASS = "classifier"  # the class of the type of a parameter in Docutils
INLINE = "code, tt, kbd, samp"
IN_BLOCKS = "pre code, pre tt, pre kbd, pre samp, code code, dt.sig code"
STRUCTURE = f"pre, table, math, mjx-container, {INLINE}, {SCRIPTS}, {IMAGES}, {CODE_CELLS}"
# Elements around the content of which resiliparse does not remove all.
CHROME = [
    ".mw-editsection",
    ".editsection",
    "footer",
    ".footer",
    "#footer",
    ".breadcrumb",
    ".breadcrumbs",
    ".pagination",
]
NAVIGATION = ("navheader", "navfooter")  # classes of DocBook's tables for navigation
PLACEHOLDER = "x"  # replaces a formula, because resiliparse removes elements without text


def structured_text(html: str | Bytes) -> str:
    """Return the main content of a page as Markdown.

    Args:
        html: the page, as text or as bytes in UTF-8; bytes are faster.

    Raises:
        ValueError: the page is not safe to parse.
    """
    safe_page, pieces = measure_page(html), list[Piece]()
    page = without_marks(with_sentences(safe_page), safe_page.data)
    if "<sup" in page:
        page = POWER.sub(mark_power, page)
    if safe_page.has_structure:
        page = with_marks(page, pieces)
    page = nest_body_deeper(with_numbers(page) if safe_page.has_numbers else page)
    return markdown(with_lone(page, main_html) if len(safe_page.lone) else main_html(page), pieces)


def main_html(page: str) -> str:
    """Return the main content of a page as HTML with the few elements that resiliparse keeps."""
    return extract_plain_text(
        page, main_content=True, preserve_formatting="minimal_html", skip_elements=CHROME
    )


def mark_power(match: re.Match[str]) -> str:
    """Return superscript digits after a number or a unit as a power."""
    before = match.string[max(0, match.start() - LONGEST_BASE) : match.start()]
    return f"^{match[1]}" if BASE.search(before) else match[0]


def nest_body_deeper(page: str) -> str:
    """Return a page with its body in three more `<div>`."""
    place = page.find("<body")
    match = BODY.search(page, max(0, place))
    if match is None or match.end() == len(page):
        return page
    return f"{page[: match.end() + 1]}{NESTING}{page[match.end() + 1 :]}"


def with_marks(html: str, pieces: list[Piece]) -> str:
    """Return a page with marks around formulas, code and tables, and append their Markdown to `pieces`.

    Formulas and code are marked before tables, which can contain them.
    """
    tree = LexborHTMLParser(html)
    tags = {node.tag for node in tree.css(STRUCTURE)}
    if not tags:
        return html
    if tags & {"pre", "code", "math"}:
        remove_anchors(tree)
    for node in tree.css(f"dt > .{TYPE_CLASS}") if TYPE_CLASS in html else ():
        node.insert_before(" : ")
    if tags & {"math", "mjx-container", "script", "img"}:
        mark_formulas(tree, pieces)
    mark_inline_code(tree)
    if tags & {"pre", "code", "td"}:
        mark_code(tree, pieces)
    if "table" in tags:
        mark_tables(tree, pieces)
    return tree.html or ""


def remove_anchors(tree: LexborHTMLParser) -> None:
    """Remove links of headings to themselves, and buttons."""
    for node in tree.css(ANCHORS):
        if node.tag not in ROOTS and len(node.text()) <= MAX_ANCHOR_TEXT:
            node.insert_before(" ")
            node.remove()


def mark_formulas(tree: LexborHTMLParser, pieces: list[Piece]) -> None:
    """Replace formulas by marked placeholders."""
    if tree.css_first(SCRIPTS) is not None:
        for node in outermost(tree.css(RENDERED)):
            if node.tag not in ROOTS:
                node.remove()
    for node, latex, is_displayed in formulas_of(tree):
        pieces.append(Piece(in_dollars(latex, is_displayed=is_displayed), is_displayed))
        number = len(pieces) - 1
        node.insert_before(f"{opening(number)}{PLACEHOLDER}{closing(number)}")
        node.remove()


def outermost(nodes: list[LexborNode]) -> list[LexborNode]:
    """Return the elements that are not inside another element of the list."""
    ids = {node.mem_id for node in nodes}
    return [node for node in nodes if not is_inside(node, ids)]


def mark_inline_code(tree: LexborHTMLParser) -> None:
    in_blocks = {node.mem_id for node in tree.css(IN_BLOCKS)}
    for node in tree.css(INLINE):
        if node.mem_id not in in_blocks and node.css_first("pre, table, br, p, div") is None:
            node.insert_before(CODE)
            node.insert_after(NO_CODE)


def mark_code(tree: LexborHTMLParser, pieces: list[Piece]) -> None:
    """Mark blocks of code: tables with line numbers, `<pre>`, and `<code>` of several lines."""
    tables = [table for cell in tree.css(CODE_CELLS) if (table := table_around(cell)) is not None]
    blocks = [*{table.mem_id: table for table in tables}.values(), *tree.css("pre")]
    blocks += [node for node in tree.css("code") if node.css_first("br") is not None]
    for block in outermost(blocks):
        cells = block.css(CODE_CELLS) if block.tag == "table" else []
        code = "\n".join(filter(None, map(code_text, cells))) if cells else code_text(block)
        if code:
            mark(
                block, Piece(fence_code(unmarked(code, pieces), block_language(block)), is_block=True), pieces
            )


def table_around(node: LexborNode) -> LexborNode | None:
    return next((ancestor for ancestor in ancestors(node) if ancestor.tag == "table"), None)


def mark_tables(tree: LexborHTMLParser, pieces: list[Piece]) -> None:
    """Mark tables of data, and remove tables of navigation."""
    for table in tree.css("table"):
        parent = table.parent
        if parent is not None and parent.attributes.get("class") in NAVIGATION:
            table.remove()
        elif len(table.css("table")) <= 1 and table.css_first(CODE_CELLS) is None:
            text = table_markdown(table, lambda text: unmarked(text, pieces, "\n"))
            if text:
                mark(table, Piece(text, is_block=True), pieces)


def mark(node: LexborNode, piece: Piece, pieces: list[Piece]) -> None:
    pieces.append(piece)
    node.insert_before(opening(len(pieces) - 1))
    node.insert_after(closing(len(pieces) - 1))


def unmarked(text: str, pieces: list[Piece], around: str = "") -> str:
    """Return a text in which pieces replace their marks. around: text before and after blocks."""

    def put(number: int) -> str:
        piece = pieces[number]
        return f"{around}{piece.text}{around}" if piece.is_block else piece.text

    return with_pieces(text, put)
