"""Extract the main content of a web page as plain text with resiliparse, the fastest extractor."""

from resiliparse.extract.html2text import extract_plain_text

from zyda_flows.tasks.extraction.lists import restore_numbers, with_numbers
from zyda_flows.tasks.extraction.lone_characters import with_lone, with_marked
from zyda_flows.tasks.extraction.marks import without_marks
from zyda_flows.tasks.extraction.nesting import Bytes, measure_page, with_sentences

EDIT_LINKS = [".mw-editsection", ".editsection"]  # of MediaWiki, in headings


def main_content(html: str | Bytes) -> str:
    """Return the main content of a page as plain text.

    Args:
        html: the page, as text or as bytes in UTF-8; bytes are faster.

    Raises:
        ValueError: the page is not safe to parse.
    """
    page = measure_page(html)
    extract = text_without_links if page.has_bracket and b"editsection" in page.data.tobytes() else text_of
    if page.has_numbers:
        return restore_numbers(
            with_lone(with_numbers(without_marks(with_sentences(page), page.data)), extract)
        )
    return with_marked(page.data, page.lone, page.in_sentences, extract)


def text_of(page: str) -> str:
    return extract_plain_text(page, main_content=True)


def text_without_links(page: str) -> str:
    return extract_plain_text(page, main_content=True, skip_elements=EDIT_LINKS)
