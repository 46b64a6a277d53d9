"""Repaired texts equal the results of ftfy, byte for byte."""

import re
import unicodedata
from itertools import pairwise, product

import ftfy
import numpy as np
import pyarrow as pa
import pytest
from ftfy.badness import BADNESS_RE, is_bad
from hypothesis import example, given, settings
from hypothesis import strategies as st

from zyda_flows.textkernels.texts.mojibake import read_neighbours
from zyda_flows.textkernels.texts.repair import check_options, not_alone, repair_texts

# Texts with and without each fault that ftfy repairs.
PIECES = [
    *"ab Z09_-<>&;#\n\n\t'\".,?!|+", "\r", "\r\n", "\x00", "\x0b", "\x0c", "\x1b", "\x1b[31m", "\x7f", "\x85", "\x92", "\xa0", "\u00ad",
    "é", "É", "ß", "à la", "À", "œ", "Œ", "Ã", "Â", "£", "€", "²", "°", "»", "«", "“", "”", "’", "‘", "–", "—", "…", "ʼ", "ŉ", "ﬁ", "Ĳ", "ǅ",
    "Ａ", "＆", "；", "＜", "，", "\u3000", "ｶ", "ﾞ", "￥", "漢字", "かな", "か\u3099", "\u3099", "\u0301", "e\u0301", "\u0323", "각", "\u1100",
    "\u1161", "\u11a8", "Å", "\u212b", "µ", "³", "\u0958", "\u0915\u093c", "\u2028", "\u2029", "\u200d", "\u206a", "\ufeff", "\ufffc", "\ufffd", "�",
    "&amp;", "&lt;", "&LT;", "&eacute;", "&EACUTE;", "&#233;", "&#xe9;", "&#0;", "&#x110000;", "&nosuch;", "&amp;amp;", "&amp", "& ;", "&#;",
    "&" + "a" * 24 + ";", "&" + "a" * 25 + ";", "＆amp;", "&#60;", "<p>", "🙂", "naïve café", "в Ђ", "Привет", "ВГ", "ΒΓ", "â€™", "Ã©", "â€œ",
    "Ã ", "Â ", "Ã\xa0", "Ð¿Ñ€", "ã‚\x82", "ðŸ™‚", "вЂ", "ГўВЂВ. ", "│┤", "├──", "═║", "√©", "‚Ä¶", "Ã¢â‚¬â„¢", "l’été", "cœur ", "SŒUR", "«\xa0où\xa0»",
]  # fmt: skip
FINE = [
    "l’été d’Éon",
    "café’s “naïve” cœur",
    "Привет, мир! Это",
    "「漢字」",
    "n°1",
    "Γειά σου",
    "Łódź, Škoda",
]
MOJIBAKE = st.tuples(
    st.sampled_from(
        ["é", "l’été", "漢字", "“Zoë”", "Привет", "Γειά", "🙂", "à la", "ž", "\xa0", "—", "مرحبا", "中文，ok"]
    ),
    st.sampled_from(
        ["latin-1", "windows-1252", "windows-1251", "windows-1250", "macroman", "cp437", "iso-8859-2"]
    ),
).map(lambda both: both[0].encode().decode(both[1], "replace"))
TEXT = st.lists(st.one_of(st.sampled_from(PIECES), MOJIBAKE), max_size=24).map("".join)
BOOLEANS = [
    name
    for name, value in ftfy.TextFixerConfig._field_defaults.items()
    if value is True and name != "explain"
]
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.booleans() for name in BOOLEANS},
        "unescape_html": st.sampled_from(["auto", True, False]),
        "normalization": st.sampled_from(["NFC", "NFD", "NFKC", "NFKD", None]),
        "max_decode_length": st.sampled_from([1, 2, 3, 5, 9, 1_000_000]),
    },
)
HOSTILE = [
    "", "\n", "a" * 3_000_000, "é" * 1_000_001, "\n" * 100_000, "“" * 1_000_001 + "\n", "x" * 999_999 + "’\n’", "x" * 999_998 + "&amp;",
    "&amp;\n<\n&amp;", "&lt;b&gt;\n&lt;", "<&amp;\n’", "\u0301a\n\u0301b", "a\n\u0301", "&amp;amp;amp;", "\r\x00\n", "\r\ufeff\n", "é\u206a£",
    "\x1b[\u206am", "Ａ＆ａｍｐ；", "＜&amp;\n&amp;", "ＴＨＥ &amp;", "\u1100\u1161\u11a8", "Ã\n ", "œ\n", "œ", "ŒŒ", "â€", "\u2028" * 3, "\ufeffa",
]  # fmt: skip


def column(*texts):
    return pa.array(texts, pa.large_string())


def plainly(texts, options):
    return [ftfy.fix_text(text, ftfy.TextFixerConfig(**options)) for text in texts]


def check(texts, options, skipped=0):
    given_texts = column(*texts)[skipped:]
    expected = plainly(texts[skipped:], options)
    found, is_changed = repair_texts(given_texts, options)
    assert found.to_pylist() == expected
    assert found.type == pa.large_string()
    assert is_changed.tolist() == [one != other for one, other in zip(texts[skipped:], expected, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text(text):
    check([text], {})


@settings(deadline=None, max_examples=500)
@given(st.lists(TEXT, max_size=6), st.integers(0, 3))
def test_any_text(texts, skipped):
    check(texts, {}, skipped)


@settings(deadline=None, max_examples=300)
@given(st.lists(TEXT, max_size=3), OPTIONS)
@example(["\x1b[31mé", "\x9b31m\x85"], {"remove_control_chars": False, "fix_encoding": False})
@example(["a&amp;b\nc"], {"max_decode_length": 3})
def test_any_options(texts, options):
    check(texts, options)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.text(), max_size=5), OPTIONS)
def test_any_characters(texts, options):
    check(texts, options)


@pytest.mark.slow
def test_every_character_alone_and_after_another():
    every = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    for form in ("NFC", "NFKD"):
        check(
            [f"a{one}\n{one}o{one}" for one in every[:: 7 if form == "NFKD" else 1]], {"normalization": form}
        )


def test_unchanged_texts_are_not_copied():
    texts = column("as it is\n\twith & and <b> &amp;", "naïve cœur, 漢字, Привет, 🙂: no mojibake — none")
    found, is_changed = repair_texts(texts, {})
    assert found is texts
    assert not is_changed.any()


def test_candidate_texts_without_changes_are_not_copied():
    texts = column("&nosuch; ││", "नमस्ते")
    assert repair_texts(texts, {})[0] is texts


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"uncurl": True}, "unknown option uncurl of ftfy; use unescape_html, "),
        ({"explain": False}, "unknown option explain"),
        ({"uncurl_quotes": 1}, "uncurl_quotes: expected true or false, got 1"),
        ({"unescape_html": "yes"}, "unescape_html: expected .* got 'yes'"),
        ({"normalization": "NFX"}, "NFC, NFD, NFKC, NFKD or null"),
        ({"normalization": ["NFC"]}, "NFC, NFD, NFKC, NFKD or null"),
        ({"max_decode_length": 0}, "a number of 1 or more"),
        ({"max_decode_length": True}, "a number of 1 or more"),
    ],
)
def test_invalid_options_raise(options, why):
    with pytest.raises(ValueError, match=why):
        repair_texts(column("a"), options)
    with pytest.raises(ValueError, match=why):
        check_options(options)


def test_mojibake_of_ftfy_has_known_neighbours():
    """Each mojibake of ftfy has a pair of neighbours that may be mojibake."""
    found = read_neighbours(BADNESS_RE)
    assert found.alone == set(range(0x80, 0xA0))
    assert min(found.firsts) > 0x7F
    assert len(found.follows) < 256

    def may_be(one, other):
        return ord(one) in found.firsts and found.follows[found.kinds[ord(one)], found.kinds[ord(other)]]

    assert not any(may_be(*pair) for text in FINE for pair in pairwise(text))
    named = sorted({one for one in BADNESS_RE.pattern if ord(one) > 0x9F})
    for one, other in product(named, [*named, *"aA1 .\n漢"]):
        if is_bad(one + other):
            assert may_be(one, other), one + other


@settings(deadline=None, max_examples=2000)
@given(st.text(st.sampled_from([*sorted(set(BADNESS_RE.pattern)), *"aA \n"]), max_size=12))
def test_scan_finds_all_mojibake(text):
    found = read_neighbours(BADNESS_RE)
    seen = [
        ord(one) in found.firsts and found.follows[found.kinds[ord(one)], found.kinds[ord(other)]]
        for one, other in pairwise(text)
    ]
    if is_bad(text):
        assert any(seen) or any(ord(one) in found.alone for one in text)


@pytest.mark.parametrize("expression", ["a.", r"\s\w", "é?", "[^a][^b]", "(?=é)"])
def test_unknown_mojibake_expression_raises(expression):
    with pytest.raises(ValueError, match="has an unknown form"):
        read_neighbours(re.compile(f"éé|{expression}"))


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_text_without_joining_characters_is_normalised(form):
    joining = set(not_alone(form).tolist())
    others = [chr(code) for code in range(0x110000) if code not in joining and not 0xD800 <= code < 0xE000]
    np.random.default_rng(7).shuffle(others)
    text = "".join(others)
    assert unicodedata.normalize(form, text) == text


def test_texts_of_the_shared_corpora(judged):
    texts = judged.texts.take(np.arange(0, len(judged.texts), 20))
    check(texts.to_pylist(), {})
