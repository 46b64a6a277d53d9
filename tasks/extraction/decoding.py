"""The text of a page's bytes, in the encoding that they, the server or the page name, as browsers read it.

In the order of the HTML standard: a byte order mark, then the header of the answer, then `<meta>`, then an XML
declaration, then what the bytes look like. Names and tables are those of the Encoding Standard, by which latin1
means windows-1252.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress

import numpy as np
import pyarrow as pa
from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from zyda_flows.tasks.extraction.code_pages import text_in
from zyda_flows.tasks.limits import limits

MARKS = {BOM_UTF8: "utf-8", BOM_UTF16_BE: "utf-16-be", BOM_UTF16_LE: "utf-16-le"}
LONGEST_NAME = 40
PRESCANNED = 1024  # bytes, in which nearly all pages name their encoding
# Labels that resiliparse does not know.
LABELS = {
    "x-mac-cyrillic": "mac-cyrillic",
    "x-mac-ukrainian": "mac-cyrillic",
    "x-user-defined": "x-user-defined",
    **dict.fromkeys(
        ["replacement", "csiso2022kr", "hz-gb-2312", "iso-2022-cn", "iso-2022-cn-ext", "iso-2022-kr"],
        "replacement",
    ),
}
# Comments and scripts come first, so that a tag in them is none.
META = re.compile(
    rb"<!--(?:.*?-->|.*)|<(script|style)\b(?:.*?</\1|.*)|<meta[\s/]([^>]*)", re.IGNORECASE | re.DOTALL
)
ATTRIBUTE = re.compile(rb"([^\s=/>\"']+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")
IN_CONTENT = re.compile(rb"charset\s*=\s*[\"']?\s*([^\s;\"']+)", re.IGNORECASE)
XML = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"'>]*)[\"']")


def decoded(content: bytes, charset: str | None) -> str:
    """Return the text of a page, with U+FFFD where bytes are no text. charset: of the header; it may be wrong."""
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return text_in(content[len(mark) :], encoding)
    return text_in(content, encoding_of(content, charset))


def as_utf8(content: bytes, charset: str | None) -> bytes:
    """Return the text of a page in UTF-8: its own bytes, if they are."""
    if not content.startswith((*MARKS,)) and encoding_of(content, charset) == "utf-8":
        with suppress(pa.ArrowInvalid):
            ends = np.array([0, len(content)], np.int64)
            text = pa.LargeStringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(content))
            text.validate(full=True)  # a quarter of the time of decoding it
            return content
    return decoded(content, charset).encode()


def encoding_of(content: bytes, charset: str | None) -> str:
    """Return the encoding of a page without a byte order mark."""
    if named := named_encoding(charset) or encoding_in_page(content):
        return named
    seen = detect_encoding(content, from_html_meta=False) or "utf-8"
    # Where ASCII could be searched for `<meta>`, the page has no two bytes for each character.
    return (
        "utf-8"
        if seen.startswith("utf-16") and b"<" in content[:1024] and b"\0" not in content[:1024]
        else seen
    )


def encoding_in_page(content: bytes) -> str | None:
    """Return the encoding that a page names itself."""
    named = named_by_meta(content[:PRESCANNED]) or named_by_meta(content[: limits().html_head])
    if named is None and (declared := XML.match(content, 0, PRESCANNED)):
        named = named_encoding(declared[1].decode("latin-1"))
    if named is None:
        return None
    # What could be read as far as here is in no encoding of two bytes, as the standard has it.
    return "utf-8" if named.startswith("utf-16") else {"x-user-defined": "cp1252"}.get(named, named)


def named_by_meta(head: bytes) -> str | None:
    """Return the encoding that the first `<meta>` with one names."""
    if b"charset" not in head.lower():
        return None
    return next((name for tag in META.finditer(head) if tag[2] and (name := named_in_meta(tag[2]))), None)


def named_in_meta(attributes: bytes) -> str | None:
    """Return the encoding that a `<meta>` names: in `charset`, or in `content` beside `http-equiv`."""
    found = {
        one[1].lower(): one[2] or one[3] or one[4] or b""
        for one in reversed([*ATTRIBUTE.finditer(attributes)])
    }
    name = found.get(b"charset")
    if name is None and found.get(b"http-equiv", b"").strip().lower() == b"content-type":
        within = IN_CONTENT.search(found.get(b"content", b""))
        name = within[1] if within else None
    return named_encoding(name.decode("latin-1")) if name else None


def named_encoding(charset: str | None) -> str | None:
    """Return the encoding that a label stands for, as `text_in` names it; None where it stands for none."""
    label = (charset or "").strip(" \t\r\n\f\"'").lower()
    if not label or len(label) > LONGEST_NAME or not label.isascii():
        return None
    return LABELS.get(label) or map_encoding_to_html5(label, fallback_utf8=False)
