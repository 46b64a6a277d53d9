"""The main content of a web page as plain text, as fast as it goes: what resiliparse takes for it."""

from resiliparse.extract.html2text import extract_plain_text

from tasks.extraction.nesting import Bytes, checked


def main_content(html: str, data: Bytes | None = None) -> str:
    """Return the main content of a page as text; raise ValueError for a page that is not safe to parse.

    data: the page in UTF-8, where that is at hand.
    """
    return extract_plain_text(checked(html, data), main_content=True)
