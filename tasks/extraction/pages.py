"""The main content of a web page as plain text, as fast as it goes: what resiliparse takes for it."""

from resiliparse.extract.html2text import extract_plain_text

from tasks.extraction.lists import has_numbers, numbered, with_numbers
from tasks.extraction.lone_characters import with_lone
from tasks.extraction.marks import without_marks
from tasks.extraction.nesting import Bytes, measured
from tasks.extraction.sentences import with_sentences

EDIT_LINKS = [".mw-editsection", ".editsection"]  # of MediaWiki, in headings


def main_content(html: str, data: Bytes | None = None) -> str:
    """Return the main content of a page as text; raise ValueError for a page that is not safe to parse.

    data: the page in UTF-8, where that is at hand.
    """
    page = with_sentences(measured(html, data))
    if has_numbers(page.html):
        html = with_numbers(without_marks(page.html))
        return numbered(with_lone(html, text_of))
    return with_lone(page.html, text_of, page.data, page.lone)


def text_of(page: str) -> str:
    skipped = EDIT_LINKS if "editsection" in page else None
    return extract_plain_text(page, main_content=True, skip_elements=skipped)
