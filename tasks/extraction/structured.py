"""The main content of a web page as Markdown that keeps code, tables, formulas, headings and lists.

resiliparse finds the main content, and judges every element by its own text, so pages without structure read as
they do for `main_content`. What it would flatten is written as Markdown before, from lexbor's tree, and found
again by marks that come through its extraction: a second parse, but only of pages that have such elements, and no
walk over a whole tree in Python, which was several times slower than both together.
"""

import re

from resiliparse.extract.html2text import extract_plain_text
from selectolax.lexbor import LexborHTMLParser, LexborNode

from zyda_flows.tasks.extraction.code_blocks import CODE_CELLS, block_language, code_text, fenced
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
from zyda_flows.tasks.extraction.nesting import Bytes, measured, with_sentences
from zyda_flows.tasks.extraction.rendering import markdown
from zyda_flows.tasks.extraction.tables import table_markdown

# Digits set high behind a number or a unit, without a sign another number: 10<sup>6</sup> is not 106.
POWER = re.compile(r"<sup(?: [^<>]*)?>\s*((?:[-+\u2212]|&minus;)?[0-9]{1,3})\s*</sup>")
BASE = re.compile(r"(?:[0-9)\]]|(?<![A-Za-z])[A-Za-z]{1,2})(?:</(?:i|em|b|strong|var)>)?$")
LONGEST_BASE = 12  # characters
BODY = re.compile(r"<body\b[^>]*", re.IGNORECASE)
# resiliparse takes lists near the root for navigation, which they are not in pages without a layout.
ROOM = "<div>" * 3
ANCHORS = "a.headerlink, a.anchor-link, a.anchorjs-link, a.anchor[aria-hidden], .mw-editsection, .copybtn"
ANCHOR_TEXT = 12  # characters of a sign or of "[edit]"
TYPED = "classifier"  # the type of a parameter, which Docutils sets off by a style sheet
INLINE = "code, tt, kbd, samp"
IN_BLOCKS = "pre code, pre tt, pre kbd, pre samp, code code, dt.sig code"
OF_INTEREST = f"pre, table, math, mjx-container, {INLINE}, {SCRIPTS}, {IMAGES}, {CODE_CELLS}"
CHROME = [
    ".mw-editsection",
    ".editsection",
    "footer",
    ".footer",
    "#footer",
    ".breadcrumb",
    ".breadcrumbs",
    ".pagination",
]  # resiliparse leaves some
NAVIGATION = ("navheader", "navfooter")  # classes of DocBook's, in which navigation is a table
PLACEHOLDER = "x"  # text of a formula, for what judges elements by their text


def structured_text(html: str | Bytes) -> str:
    """Return the main content of a page as Markdown; raise ValueError for a page that is not safe to parse.

    html: in UTF-8, where that is at hand.
    """
    found, pieces = measured(html), list[Piece]()
    page = without_marks(with_sentences(found), found.data)
    if "<sup" in page:
        page = POWER.sub(power, page)
    if found.has_structure:
        page = with_marks(page, pieces)
    page = roomy(with_numbers(page) if found.has_numbers else page)
    return markdown(with_lone(page, reduced) if len(found.lone) else reduced(page), pieces)


def reduced(page: str) -> str:
    """Return the main content of a page in the few elements that resiliparse keeps."""
    return extract_plain_text(
        page, main_content=True, preserve_formatting="minimal_html", skip_elements=CHROME
    )


def power(found: re.Match[str]) -> str:
    """Write a number that is set high behind another one, or behind a unit, as a power."""
    before = found.string[max(0, found.start() - LONGEST_BASE) : found.start()]
    return f"^{found[1]}" if BASE.search(before) else found[0]


def roomy(page: str) -> str:
    """Return a page with its content deeper in."""
    place = page.find("<body")
    match = BODY.search(page, max(0, place))
    if match is None or match.end() == len(page):
        return page
    return f"{page[: match.end() + 1]}{ROOM}{page[match.end() + 1 :]}"


def with_marks(html: str, pieces: list[Piece]) -> str:
    """Return a page with marks around what becomes a piece, in the order in which pieces may hold each other."""
    tree = LexborHTMLParser(html)
    there_are = {node.tag for node in tree.css(OF_INTEREST)}
    for node in tree.css(ANCHORS) if there_are & {"pre", "code", "math"} else ():
        if node.tag not in ROOTS and len(node.text()) <= ANCHOR_TEXT:
            node.insert_before(" ")
            node.remove()
    if TYPED in html:
        for node in tree.css(f"dt > .{TYPED}"):
            node.insert_before(" : ")
    if there_are & {"math", "mjx-container", "script", "img"}:
        mark_formulas(tree, pieces)
    if there_are & {"code", "tt", "kbd", "samp"}:
        mark_inline_code(tree)
    if there_are & {"pre", "code", "td"}:
        mark_code(tree, pieces)
    if "table" in there_are:
        mark_tables(tree, pieces)
    return (tree.html or "") if there_are else html


def mark_formulas(tree: LexborHTMLParser, pieces: list[Piece]) -> None:
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
    """Return the elements that are in none of the others."""
    taken = {node.mem_id for node in nodes}
    return [node for node in nodes if not has_around(node, taken)]


def has_around(node: LexborNode, taken: set[int]) -> bool:
    around = node.parent
    while around is not None:
        if around.mem_id in taken:
            return True
        around = around.parent
    return False


def mark_inline_code(tree: LexborHTMLParser) -> None:
    in_blocks = {node.mem_id for node in tree.css(IN_BLOCKS)}
    for node in tree.css(INLINE):
        if node.mem_id not in in_blocks and node.css_first("pre, table, br, p, div") is None:
            node.insert_before(CODE)
            node.insert_after(NO_CODE)


def mark_code(tree: LexborHTMLParser, pieces: list[Piece]) -> None:
    """Mark blocks of code: tables that number lines, `<pre>`, and `<code>` of several lines."""
    tables = [table for cell in tree.css(CODE_CELLS) if (table := around_of(cell, "table")) is not None]
    blocks = [*{table.mem_id: table for table in tables}.values(), *tree.css("pre")]
    blocks += [node for node in tree.css("code") if node.css_first("br") is not None]
    for block in outermost(blocks):
        cells = block.css(CODE_CELLS) if block.tag == "table" else []
        code = "\n".join(filter(None, map(code_text, cells))) if cells else code_text(block)
        if code:
            mark(block, Piece(fenced(unmarked(code, pieces), block_language(block)), is_block=True), pieces)


def around_of(node: LexborNode, tag: str) -> LexborNode | None:
    around = node.parent
    while around is not None and around.tag != tag:
        around = around.parent
    return around


def mark_tables(tree: LexborHTMLParser, pieces: list[Piece]) -> None:
    for table in tree.css("table"):
        around = table.parent
        if around is not None and around.attributes.get("class") in NAVIGATION:
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
    """Return a text with pieces where their marks are. around: what comes before and behind blocks."""

    def put(number: int) -> str:
        piece = pieces[number]
        return f"{around}{piece.text}{around}" if piece.is_block else piece.text

    return with_pieces(text, put)
