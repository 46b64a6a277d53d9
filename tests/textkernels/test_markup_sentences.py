"""The dates and form labels that are part of a sentence, compared with the same rule by regular expressions."""

import random
import re
import string
import sys
import unicodedata

import numpy as np
import pytest

from zyda_flows.textkernels.markup_names import HASHES, INLINE, KINDS, PROSE, name_hash
from zyda_flows.textkernels.markup_sentences import WINDOW, begins_word, is_in_sentence

TAG = re.compile(rb"</?([a-zA-Z][a-zA-Z0-9-]*)(?:[^<>a-zA-Z0-9-][^<>]*)?>")
PIECES = [
    "word ", " 7", " ", ", ", "、", "“", "…", "漢", "नम", "é", "<b>", "</b>", "<i class=x>", "<p>", "</p>", "<div id='a'>",
    "<li>", "<td>", "<br/>", "</SPAN>", "<H1>", "<my-tag>", "< 3", "<", ">", "<b", "&nbsp;", "<!-- x -->", "." * 90,
]  # fmt: skip


def is_word(character):
    data = np.frombuffer(f"{character}  ".encode(), np.uint8)
    return begins_word(data, 0, len(data))


def tags(html):
    return [(tag.start(), tag.end(), tag[1].decode().lower()) for tag in TAG.finditer(html)]


def blocks(html):
    return [tag for tag in tags(html) if tag[2] not in INLINE.split()]


def has_words(html):
    return any(map(str.isalnum, TAG.sub(b"", html).decode("utf-8", "ignore")))


def twin(before, inside, after, name):
    """Classify an element by the bytes before it, within it and after it."""
    before, after = before[-WINDOW:], after[:WINDOW]
    if blocks(inside):
        return False
    follows = blocks(after)
    is_followed = has_words(after[: follows[0][0]] if follows else after)
    around = None
    for place in reversed([i for i in range(len(before)) if before[i : i + 1] == b"<"]):
        tag = TAG.match(before, place)
        if tag and tag[1].decode().lower() not in INLINE.split():
            before, around = before[tag.end() :], tag[1].decode().lower()
            break
    is_preceded = has_words(before)
    return (is_preceded and is_followed) or (
        name == "time" and (is_preceded or is_followed) and around in PROSE.split()
    )


def test_sentences_equal_the_expressions():
    chance, seen = random.Random(3), [0, 0]
    for _ in range(3000):
        before, inside, after = (
            "".join(chance.choices(PIECES, k=chance.randrange(k))).encode() for k in (7, 4, 7)
        )
        name = chance.choice(["time", "label", "button"])
        start_tag, end_tag = f"<{name} a=b>".encode(), f"</{name}>".encode()
        page = before + start_tag + inside + end_tag + after
        start, end = len(before), len(before + start_tag + inside)
        found = is_in_sentence(
            np.frombuffer(page, np.uint8),
            start,
            end,
            end + len(end_tag),
            np.uint64(name_hash(name)),
            HASHES,
            KINDS,
        )
        assert found == twin(before, start_tag + inside, after, name), page
        seen[found] += 1
    assert min(seen) > 300


@pytest.mark.parametrize("category", ["L", "Nd"])
def test_words_begin_with_letters_and_digits(category):
    characters = [c for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c).startswith(category)]
    assert np.mean([*map(is_word, characters)]) > 0.98


def test_no_word_begins_with_a_sign():
    signs = [*string.punctuation, *"\u00a0\u2009\u3000«»©®°·–—‘’“”•…‰→∑■★⟨，。、；：？！「」『』【】（）🙂"]
    assert not any(map(is_word, signs))
