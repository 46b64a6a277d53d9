"""The text of a page's bytes, in the encoding that they, the server or the page say.

In the order of the HTML standard: a byte order mark, then the header of the answer, then `<meta>`, then what the
bytes look like. Names are those of the Encoding Standard, by which latin1 means windows-1252.
"""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from contextlib import suppress

import numpy as np
import pyarrow as pa
from resiliparse.parse.encoding import bytes_to_str, detect_encoding, map_encoding_to_html5

MARKS = {BOM_UTF8: "utf-8", BOM_UTF16_BE: "utf-16-be", BOM_UTF16_LE: "utf-16-le"}
LONGEST_NAME = 40
META, META_WITHIN = re.compile(rb"<meta\b", re.IGNORECASE), 1024


def decoded(content: bytes, charset: str | None) -> str:
    """Return the text of a page, with U+FFFD where bytes are no text. charset: of the header; it may be wrong."""
    encoding = encoding_of(content, charset)
    try:
        return bytes_to_str(content, encoding, errors="replace", fallback_encodings=())
    except (LookupError, UnicodeError):  # an encoding that Python has not
        return content.decode("utf-8", "replace")


def as_utf8(content: bytes, charset: str | None) -> bytes:
    """Return the text of a page in UTF-8: its own bytes, if they are."""
    if encoding_of(content, charset) == "utf-8" and not content.startswith(BOM_UTF8):
        with suppress(pa.ArrowInvalid):
            ends = np.array([0, len(content)], np.int64)
            text = pa.LargeStringArray.from_buffers(1, pa.py_buffer(ends), pa.py_buffer(content))
            text.validate(full=True)  # a quarter of the time of decoding it
            return content
    return decoded(content, charset).encode()


def encoding_of(content: bytes, charset: str | None) -> str:
    for mark, encoding in MARKS.items():
        if content.startswith(mark):
            return encoding
    if named := named_encoding(charset):
        return named
    said = detect_encoding(content, from_html_meta=True) or "utf-8"
    # What could be read as far as `<meta>` is in no encoding of two bytes, as the standard has it.
    return "utf-8" if said.startswith("utf-16") and META.search(content, 0, META_WITHIN) else said


def named_encoding(charset: str | None) -> str | None:
    """Return Python's name of the encoding that a label stands for; None where it stands for none."""
    label = (charset or "").strip(" \t\r\n\f\"'").lower()
    if not label or len(label) > LONGEST_NAME or not label.isascii():
        return None
    return map_encoding_to_html5(label, fallback_utf8=False)
