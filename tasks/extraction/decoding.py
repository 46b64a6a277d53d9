"""Decode the bytes of a web page as browsers do.

The encoding follows, in the order of the HTML standard, from a byte order mark, the HTTP header, `<meta>`, an XML
declaration, or a guess from the bytes. Names and tables are those of the WHATWG Encoding Standard, in which latin1
is another name of windows-1252.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress

import numpy as np
import pyarrow as pa
from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

from zyda_flows.tasks.extraction.code_pages import text_in
from zyda_flows.tasks.limits import limits

BYTE_ORDER_MARKS = {BOM_UTF8: "utf-8", BOM_UTF16_BE: "utf-16-be", BOM_UTF16_LE: "utf-16-le"}
MAX_LABEL = 40  # characters of the name of an encoding
PRESCANNED = 1024  # bytes in which nearly all pages name their encoding
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
# Comments, scripts and styles are alternatives, so that a `<meta>` in them does not match.
META = re.compile(
    rb"<!--(?:.*?-->|.*)|<(script|style)\b(?:.*?</\1|.*)|<meta[\s/]([^>]*)", re.IGNORECASE | re.DOTALL
)
ATTRIBUTE = re.compile(rb"([^\s=/>\"']+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")
IN_CONTENT = re.compile(rb"charset\s*=\s*[\"']?\s*([^\s;\"']+)", re.IGNORECASE)
XML = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"'>]*)[\"']")


def decode_page(content: bytes, charset: str | None) -> str:
    """Return the text of a page, with U+FFFD for invalid bytes. charset: of the HTTP header; it may be wrong."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return text_in(content[len(mark) :], encoding)
    return text_in(content, encoding_of(content, charset))


def as_utf8(content: bytes, charset: str | None) -> bytes:
    """Return the text of a page in UTF-8; a page in valid UTF-8 is returned as it is."""
    if not content.startswith((*BYTE_ORDER_MARKS,)) and encoding_of(content, charset) == "utf-8":
        with suppress(pa.ArrowInvalid):
            ends = np.array([0, len(content)], np.int64)
            text = pa.LargeStringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(content))
            text.validate(full=True)  # four times as fast as decoding
            return content
    return decode_page(content, charset).encode()


def encoding_of(content: bytes, charset: str | None) -> str:
    """Return the encoding of a page without a byte order mark."""
    if named := named_encoding(charset) or encoding_in_page(content):
        return named
    guess = detect_encoding(content, from_html_meta=False) or "utf-8"
    # A page with "<" and without NUL has no two bytes for each character.
    head = content[:PRESCANNED]
    return "utf-8" if guess.startswith("utf-16") and b"<" in head and b"\0" not in head else guess


def encoding_in_page(content: bytes) -> str | None:
    """Return the encoding that the page itself declares, or None."""
    named = named_by_meta(content[:PRESCANNED]) or named_by_meta(content[: limits().html_head])
    if named is None and (declared := XML.match(content, 0, PRESCANNED)):
        named = named_encoding(declared[1].decode("latin-1"))
    if named is None:
        return None
    # The declaration was found as ASCII, so the page is not in UTF-16 (HTML standard, "prescan a byte stream").
    return "utf-8" if named.startswith("utf-16") else {"x-user-defined": "cp1252"}.get(named, named)


def named_by_meta(head: bytes) -> str | None:
    """Return the encoding of the first `<meta>` that names a known one, or None."""
    if b"charset" not in head.lower():
        return None
    return next((name for tag in META.finditer(head) if tag[2] and (name := named_in_meta(tag[2]))), None)


def named_in_meta(attributes: bytes) -> str | None:
    """Return the encoding in the `charset` of a `<meta>`, or in its `content` if it has `http-equiv`; or None."""
    # The first of several attributes with the same name counts.
    values = {
        match[1].lower(): match[2] or match[3] or match[4] or b""
        for match in reversed([*ATTRIBUTE.finditer(attributes)])
    }
    name = values.get(b"charset")
    if name is None and values.get(b"http-equiv", b"").strip().lower() == b"content-type":
        match = IN_CONTENT.search(values.get(b"content", b""))
        name = match[1] if match else None
    return named_encoding(name.decode("latin-1")) if name else None


def named_encoding(charset: str | None) -> str | None:
    """Return the encoding of a label, under the name that `text_in` takes; None for an unknown label."""
    label = (charset or "").strip(" \t\r\n\f\"'").lower()
    if not label or len(label) > MAX_LABEL or not label.isascii():
        return None
    return LABELS.get(label) or map_encoding_to_html5(label, fallback_utf8=False)
