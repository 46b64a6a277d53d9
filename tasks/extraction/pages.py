"""The main content of a web page as plain text, as fast as it goes: what resiliparse takes for it."""

from resiliparse.extract.html2text import extract_plain_text

from tasks.extraction.lone_characters import extracted_with_lone
from tasks.extraction.nesting import Bytes, measured


def main_content(html: str, data: Bytes | None = None) -> str:
    """Return the main content of a page as text; raise ValueError for a page that is not safe to parse.

    data: the page in UTF-8, where that is at hand.
    """
    page = measured(html, data)
    if page.has_lone:
        return extracted_with_lone(page.html, text_of, data if page.html is html else None)
    return text_of(page.html)


def text_of(page: str) -> str:
    return extract_plain_text(page, main_content=True)
