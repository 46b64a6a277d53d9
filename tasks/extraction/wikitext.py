"""Extract the readable text of MediaWiki's markup as Markdown."""

import re
from collections.abc import Collection

from zyda_flows.tasks.extraction.nesting import Bytes
from zyda_flows.tasks.extraction.wikitext_inline import unescape
from zyda_flows.tasks.extraction.wikitext_lines import BREAK, markdown_of_lines
from zyda_flows.tasks.extraction.wikitext_reader import EMPHASIS, WikitextReader

BACK_MATTER = frozenset({
    "references", "external links", "see also", "further reading", "notes", "footnotes", "sources", "citations",
    "notes and references", "bibliography",
})  # fmt: skip
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
REDIRECT = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)
OUTER_LINK = re.compile(r"\[(?:https?:|ftp:|mailto:|//)[^\s\[\]]+(?:[ \t]([^\[\]\n]*))?\]")


def without_control_characters(wikitext: str) -> str:
    """Remove the characters that are used as marks, and carriage returns."""
    for character in ("\0", BREAK, "\r"):
        wikitext = wikitext.replace(character, "")
    return wikitext


def wikitext_article(page: Bytes) -> str:
    """Return the text of an article in UTF-8 without its back matter, such as references and links."""
    return text_of_wikitext(str(page.data, "utf-8"), BACK_MATTER)


def text_of_wikitext(wikitext: str, dropped_sections: Collection[str] = ()) -> str:
    """Return the readable text of a page as Markdown, or "" for a redirect.

    Links become their labels. Pictures, categories, references, comments and most templates are removed; templates
    whose text is a part of a sentence are kept (`tasks.extraction.wikitext_templates`). Tables, code and formulas
    are kept.

    dropped_sections: titles, in small letters, of sections that are removed with their subsections.
    """
    if REDIRECT.match(wikitext):
        return ""
    reader = WikitextReader(COMMENT.sub("", without_control_characters(wikitext)))
    text = OUTER_LINK.sub(lambda link: (link[1] or "").strip(" \t"), reader.read())
    text = unescape(EMPHASIS.sub("", text))
    text = markdown_of_lines(text, dropped_sections)
    return reader.with_protected(text)
