"""Test that the words of a text are equal in each format (CSV, JSON, HTML, LaTeX) and each Unicode form."""

import html
import json
import random
import unicodedata
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from growth import grows_linearly
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.tasks.documents.item_words import letters, texts_of, word_hashes, word_places
from zyda_flows.textkernels.item_words import ALONE, END, JOIN, MARK, MOST_WORDS, NUMBER, SEVERAL


def hashes(text):
    return word_hashes(texts_of([text]))[0].tolist()


# Each entry: a text, and its words separated by blanks.
SAME = {
    "capitals": ("What IS Straße", "what is strasse"),
    "punctuation": ('"question":"What,is(it)?","answer":"x"', "question What is it answer x"),
    "underscores": ("what_is__it", "what is it"),
    "tags": ("<p>What<b>is</b><br/>it</p><a href='x y'>z</a>", "What is it z"),
    "escaped tags": ("&lt;p&gt;What&lt;b class=&quot;a b&quot;&gt;is \\u003cbr\\u003eit", "What is it"),
    "angle brackets without tags": ("a <b and c d e f g h> 1<2 i < j> <k\nl\nm\nn\no\np\nq>", "a b and c d e f g h 1 2 i j k l m n o p q"),
    "an item in an attribute": ('<row q="one two three four five six seven"/>', "row q one two three four five six seven"),
    "entities": ("don&apos;t&nbsp;caf&eacute; &#65;&#x42;&amp;quot;c&shy;d&unknown;", "don t café AB cd unknown"),
    "escapes of JSON": ("what\\nis\\r\\n\\tit\\u00e9\\u00AD \\ud835\\udd38 \\\\n\\\\nx", "what is ité A x"),
    "commands of LaTeX": ("\\textbf{What} \\emph{is}~it\\\\ \\alpha 5\\% hy\\-phen", "What is it alpha 5 hyphen"),
    "hyphens at line ends": ("hy-\nphen hy-  \r\n\t phen hy\u2010\nphen hy\u00ad\nphen hy-\\n  phen", " ".join(["hyphen"] * 5)),
    "other hyphens": ("well-known a -\nb c--\nd e-\n\nf 1990-\n1995", "well known a b c d e f 1990 1995"),
    "soft hyphens, zero width": ("so\u00adft ze\u200bro\u2060w\ufeffi\u200ddth", "soft zerowidth"),
    "full width": ("Ｗｈａｔ，ｉｓ\u3000ｉｔ１２", "what is it12"),
    "compatibility": ("ﬁne x² ½ Ⅷ ℌ", "fine x2 1 2 viii h"),
    "marks": ("e\u0323\u0302 \u1ec7 \u00ea\u0323 \u0301a", "ệ ệ ệ a"),
    "Chinese": ("漢字，漢", "漢 字 漢"),
    "Japanese": ("ｶﾞはabc。カ\u3099", "ガ は abc ガ"),
    "Thai": ("กินข้าว", "กิ น ข้ า ว"),
    "Korean": ("한국어 \u1112\u1161\u11ab", "한국어 한"),
    "Hindi": ("हिन्दी में", "हिन्दी में"),
    "control characters": ("a\x00b\x07c\x1fd\x85e", "a b c d e"),
    "no words but an escape": (" <>&;\\-\n&#0;&#;\\u\u00ad", "u"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SAME)
def test_words_of_a_text_are_equal_in_each_format(kind):
    text, words = SAME[kind]
    word_hashes_of_text = hashes(text)
    assert word_hashes_of_text == [word_hash for word in words.split(" ") for word_hash in hashes(word)]
    assert len(word_hashes_of_text) == len(words.split(" "))


CHARACTERS = st.sampled_from(
    [*"aZ1 \n\r\t-_<>/!?&;#\\x\"'", "&lt;", "&amp;", "\\n", "\\u0041", "\u00ad", "漢", "㌖", "\ufdfa", "é"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(CHARACTERS, st.characters(exclude_categories=["Cs"])), max_size=150).map("".join))
def test_each_word_hash_has_a_place_in_the_text(text):
    """The text is read as part of a block, after another text and more than 64 bytes (the unit of reading)."""
    words, ends = word_hashes(texts_of(["x", text, "y " * 40 + "." + text, "z"]))
    places, hashes_of_text = word_places(text), words[ends[1] : ends[2]].tolist()
    assert len(places) == len(hashes_of_text)
    assert words[ends[2] : ends[3]].tolist() == hashes("y") * 40 + hashes_of_text
    assert all(0 <= start < stop <= len(text) for start, stop in places)
    assert [start for start, _ in places] == sorted(start for start, _ in places)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(categories=["L", "Nd", "Zs"], max_codepoint=0x4FF), max_size=90))
def test_words_are_equal_in_each_unicode_form_and_in_json_and_html(text):
    expected = hashes(text)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert hashes(unicodedata.normalize(form, text)) == expected
    if "\\" not in text:
        assert hashes(json.dumps(text)) == hashes(html.escape(text)) == expected


def test_no_character_gives_more_words_than_the_limit():
    table = letters()
    codes = np.flatnonzero(table.entries & SEVERAL)
    assert len(codes) > 10_000
    for code in codes:
        number = table.entries[code] & NUMBER
        entries = table.several[table.first[number] : table.first[number + 1]]
        words = sum(1 for entry in entries if entry not in {END, JOIN} and not entry & MARK)
        if not (entries & ALONE).any():
            words = sum(1 for entry in entries if entry == END) + 1
        assert words <= min(MOST_WORDS, 2 * len(chr(code).encode()))


BAD = {
    "tags": "<a".__mul__,
    "ends of tags": lambda n: "<a" + ">" * n,
    "entities": "&amp;".__mul__,
    "half entities": "&a".__mul__,
    "numbers": lambda n: "&#" + "1" * n,
    "backslashes": (80 * "\\" + "u12 ").__mul__,
    "escapes": "\\u3316".__mul__,
    "numbers of squares": "&#x3316;".__mul__,
    "commands": "\\a".__mul__,
    "hyphens": "a-".__mul__,
    "blanks after hyphens": "a- ".__mul__,
    "blanks": lambda n: "a-" + " " * n,
    "marks": "\u0301".__mul__,
    "ideographs": "漢".__mul__,
    "squares": "㌖".__mul__,
    "a tag without an end": lambda n: "<a" + "x" * n,
}


@pytest.mark.parametrize("kind", BAD)
def test_words_are_read_in_linear_time(kind):
    assert grows_linearly(lambda text: (hashes(text), word_places(text)), BAD[kind], 2_000)


def test_words_of_a_block_equal_the_words_of_its_texts():
    chance = random.Random(0)
    texts = ["".join(chance.choices("ab -\n<>&;\\n漢é\u00ad", k=chance.randrange(300))) for _ in range(300)]
    words, ends = word_hashes(pa.array([None, *texts], pa.large_string()).slice(1))
    assert [words[a:b].tolist() for a, b in pairwise(ends)] == [*map(hashes, texts)]
