"""The encoding of a page: a byte order mark precedes the header, which precedes the page's declaration."""

import codecs

import numpy as np
import pyarrow as pa
import pytest

from zyda_flows.tasks.documents.extraction import extract_texts
from zyda_flows.tasks.extraction.decoding import as_utf8, decode_page

RUSSIAN = "Все люди рождаются свободными и равными в своём достоинстве и правах. " * 4


@pytest.mark.parametrize(
    ("content", "charset", "text"),
    [
        (codecs.BOM_UTF8 + "é".encode(), "windows-1251", "é"),
        (codecs.BOM_UTF16_LE + "é".encode("utf-16-le"), None, "é"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "utf-8", "é"),
    ],
)
def test_byte_order_mark_precedes_the_header(content, charset, text):
    assert decode_page(content, charset) == text


def test_header_precedes_the_declaration_of_the_page():
    page = "<meta charset=utf-8>" + RUSSIAN
    assert decode_page(page.encode("koi8-r"), "KOI8-R") == page


def test_declaration_of_the_page_precedes_detection():
    page = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1253">æ'
    assert decode_page(page.encode("latin1"), None) == page.replace("æ", "ζ")


def test_encoding_is_detected_without_a_declaration():
    assert decode_page(RUSSIAN.encode("cp1251"), None) == RUSSIAN
    assert decode_page(RUSSIAN.encode(), None) == RUSSIAN


@pytest.mark.parametrize("charset", ["latin1", "ISO-8859-1", "ascii", ' "iso-8859-1" '])
def test_names_follow_the_encoding_standard(charset):
    assert decode_page(b"\x93a\x94", charset) == "“a”"


@pytest.mark.parametrize(
    "charset",
    [
        "nonsense",
        "",
        "utf-8; foo",
        "rot13",
        "hex",
        "zip",
        "idna",
        "utf\0008",
        "é" * 3,
        "x" * 10_000,
        "undefined",
    ],
)
def test_unknown_encoding_in_the_header_is_ignored(charset):
    assert decode_page("Grüße aus Köln, schöne Straße".encode(), charset) == "Grüße aus Köln, schöne Straße"


def test_declared_utf_16_of_a_readable_page_is_utf_8():
    page = "<meta charset=utf-16>Grüße"
    assert decode_page(page.encode(), None) == page


@pytest.mark.parametrize(
    "charset", [None, "utf-8", "utf-16", "shift_jis", "gb18030", "iso-2022-jp", "big5", "euc-kr", "nonsense"]
)
@pytest.mark.parametrize(
    "content", [b"", b"\0", b"\xff\xfe\x00", bytes(range(256)) * 3, b"\x1b$B\xff", b"\xed\xa0\x80" * 9]
)
def test_any_bytes_are_decoded_equally_by_both_functions(content, charset):
    assert as_utf8(content, charset).decode() == decode_page(content, charset)


def test_valid_utf_8_is_unchanged():
    rng, characters = np.random.default_rng(3), [*"aé€😀", "a" * 70]
    for number in range(400):
        content = bytearray("".join(rng.choice(characters, rng.integers(1, 9))).encode())
        if number % 2:
            content[rng.integers(len(content))] = rng.integers(256)
        page = bytes(content)
        assert as_utf8(page, "utf-8").decode() == page.decode("utf-8", "replace").removeprefix("\ufeff")


def test_invalid_bytes_are_replaced():
    assert decode_page(b"a\xffb", "utf-8") == "a\ufffdb"


@pytest.mark.parametrize("name", ["fast", "structured"])
def test_page_with_a_wrong_header_is_removed_with_a_reason(name):
    pages = [
        decode_page(f"<p>{RUSSIAN}".encode("cp1251"), "utf-8"),
        decode_page(f"<p>{RUSSIAN}".encode("cp1251"), "windows-1251"),
        f"<p>{'Good words. ' * 20}\ufffd",
    ]
    extracted_texts = extract_texts(pa.array(pages, pa.large_string()), name)
    texts, reasons = extracted_texts.texts.to_pylist(), extracted_texts.reasons.to_pylist()
    assert texts == ["", RUSSIAN.strip(), f"{'Good words. ' * 20}\ufffd"]
    assert reasons[1:] == [None, None]
    assert "characters are U+FFFD" in reasons[0]
