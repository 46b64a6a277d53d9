"""Measures of pages, which read 64 bytes together, equal byte-by-byte results at any position."""

import random
import re

import numpy as np
import pytest

from zyda_flows.tasks.extraction.nesting import splice
from zyda_flows.textkernels.markup import NO_PLACES, find, may_be_formula, nesting, references
from zyda_flows.textkernels.markup_names import HASHES, KINDS

WORDS = [b"math", b"tex", b"te", b"mat", b"<", b'"', b" ", b"x", b"TEX", b"tex/", b"\xff\x00", b"." * 40]


def as_array(page):
    return np.frombuffer(page, np.uint8)


def pages(count):
    """Return pages of some words, of up to four blocks, and pages of a single word."""
    rng = np.random.default_rng(5)
    for size in rng.integers(0, 80, count):
        some = rng.choice(len(WORDS), rng.integers(1, 5))
        yield b"".join(WORDS[i] for i in rng.choice(some, size))[: rng.integers(0, 260)]


def test_next_byte_is_found_at_any_position():
    for page in pages(300):
        for start in range(0, len(page) + 1, 7):
            for byte in b'<".':
                place = page.find(bytes([byte]), start)
                assert find(as_array(page), start, byte) == (place if place >= 0 else len(page))


def test_formulas_equal_the_expression():
    found = 0
    for page in pages(500):
        for begin, end in ((0, len(page)), (len(page) // 3, len(page) - len(page) // 4)):
            expected = re.search(rb"math|tex[^A-Za-z]", page[begin:end]) is not None
            assert may_be_formula(as_array(page), begin, end) == expected
            found += expected
    assert 100 < found < 900


@pytest.mark.parametrize("attribute", ['src="a<b>c"', "alt='<i>'", "title=x", 'alt=">'])
def test_measures_of_a_page_do_not_depend_on_its_offset(attribute):
    page = f'<!-- <i> --><div {attribute}><script>"<b>"</script><img {attribute}><p>text</div><b>'.encode()
    depth, tags, _, *others = nesting(as_array(page), HASHES, KINDS, 512, NO_PLACES)
    for before in range(130):
        padded = as_array(b" " * before + page + b" " * (130 - before))
        found = nesting(padded, HASHES, KINDS, 512, NO_PLACES)
        assert (*found[:2], *found[3:]) == (depth, tags, *others)


def test_numeric_character_references_are_found():
    page = b"&#65; &#x5a; &#X110 &#00029483; x&#; &# 66 &#x; &#70000; &amp;#67; &#68"
    found = references(np.frombuffer(page, np.uint8), HASHES, KINDS)
    assert {chr(value) for value in np.flatnonzero(found)} == set("AZĐ猫D")


@pytest.mark.parametrize("seed", range(20))
def test_text_is_inserted_into_a_page_at_byte_positions(seed):
    chance = random.Random(seed)
    page = "".join(chance.choice("aé漢😀<") for _ in range(60))
    ends = np.cumsum([len(character.encode()) for character in page])
    spans = np.array(sorted(chance.sample(ends.tolist(), 8))).reshape(-1, 2)
    expected = page.encode()
    for start, end in spans[::-1]:
        expected = expected[:start] + "é!".encode() + expected[end:]
    assert (
        splice(np.frombuffer(page.encode(), np.uint8), spans, ["é!".encode()] * len(spans))
        == expected.decode()
    )
