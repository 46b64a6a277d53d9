"""The main content of a web page as plain text, as fast as it goes: what resiliparse takes for it."""

from resiliparse.extract.html2text import extract_plain_text

from tasks.extraction.lone_characters import with_lone
from tasks.extraction.nesting import Bytes, measured
from tasks.extraction.sentences import with_sentences


def main_content(html: str, data: Bytes | None = None) -> str:
    """Return the main content of a page as text; raise ValueError for a page that is not safe to parse.

    data: the page in UTF-8, where that is at hand.
    """
    page = with_sentences(measured(html, data))
    return with_lone(page.html, text_of, page.data, page.lone)


def text_of(page: str) -> str:
    return extract_plain_text(page, main_content=True)
