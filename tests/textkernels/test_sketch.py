"""The compiled sketch equals a plain twin, and estimates exact similarities."""

import random
import string
import unicodedata
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import band_keys, signatures
from zyda_flows.tasks.signatures.shingles import word_hashes
from zyda_flows.textkernels import sketch as cpu

M64 = 2**64 - 1
EMPTY = M64


def mix(x):
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & M64
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & M64
    return x ^ x >> 33


def shingle_hashes(text, width):
    """Hash each run of `width` code points: a polynomial in the code points, modulo 2**64."""
    shingles = {text[i : i + width] for i in range(max(1, len(text) - width + 1))}
    hashes = set()
    for shingle in shingles - {""}:
        h = 0
        for character in shingle:
            h = (h * 0x9E6C63D0876A9A35 + (ord(character) + 1) * 0xD6E8FEB86659FD93) & M64
        hashes.add(h)
    return hashes


def words_of(text):
    """Fold a text and cut it into words: NFC, simple lower case, no punctuation."""
    text = unicodedata.normalize("NFC", text)
    text = "".join(character.lower()[0] for character in text)
    return "".join(
        c for c in text if c not in string.punctuation and unicodedata.category(c)[0] != "P"
    ).split()


def word_hash(word):
    h = 0
    for character in word:
        h = (h * 0xB492B66FBE98F273 + ord(character) + 2) & M64
    return mix(h)


def word_shingle_hashes(text, width):
    """Hash each run of `width` words: a polynomial in their hashes, modulo 2**64."""
    hashes = [word_hash(word) for word in words_of(text)]
    runs = {tuple(hashes[i : i + width]) for i in range(max(1, len(hashes) - width + 1)) if hashes}
    found = set()
    for run in runs:
        h = 0
        for word in run:
            h = (h * 0x9E6C63D0876A9A35 + (word + 1) * 0xD6E8FEB86659FD93) & M64
        found.add(h)
    return found


def plain_signature(hashes, values):
    """Sketch the hashes of some shingles as in the paper, round by round."""
    signature, bits = [EMPTY] * values, 54 if values <= 512 else 53
    for round_ in range(2 * values if hashes else 0):
        for h in hashes:
            x = mix((h + round_ * 0x9E3779B97F4A7C15) & M64)
            slot = (x >> 32) * values >> 32 if round_ < values else round_ - values
            if round_ < values or signature[slot] == EMPTY or signature[slot] >> bits == round_:
                signature[slot] = min(signature[slot], round_ << bits | x & (1 << bits) - 1)
        if EMPTY not in signature:
            break
    return signature


def compiled(texts, width=25, values=128):
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    data = np.frombuffer(b"".join(encoded) or b" ", np.uint8)
    return cpu.signatures(data, offsets, width=width, values=values)


SIZES = st.sampled_from([2, 8, 9, 32, 117, 286, 512, 513, 1024])  # powers of two and other numbers


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=80), max_size=4), st.sampled_from([1, 3, 25]), SIZES)
def test_sketch_equals_the_plain_twin(texts, width, values):
    assert compiled(texts, width, values).tolist() == [
        plain_signature(shingle_hashes(t, width), values) for t in texts
    ]


def test_sketch_of_a_long_repetitive_document_equals_the_plain_twin():
    text = "abcdefghij" * 20_000  # 200,000 characters, more than the scratch array; 10 distinct shingles
    assert compiled([text])[0].tolist() == plain_signature(shingle_hashes(text, 25), 128)


SPOKEN = st.text(
    st.sampled_from("aàbßΣ.!$,«\u0301\u0327漢가\u1100\u1161İ🙂\u00a0\u2003\t\n\x1c  ")
    | st.characters(categories=["L", "M", "N", "P", "S", "Z"]),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SPOKEN, max_size=4), st.sampled_from([1, 2, 13]), st.sampled_from([32, 117]))
def test_sketch_of_words_equals_the_plain_twin(texts, width, values):
    dedup = MinHashRound(shingle="words", width=width, values=values, bands=1)
    assert signatures(pa.array(texts, pa.large_string()), dedup).tolist() == [
        plain_signature(word_shingle_hashes(t, width), values) for t in texts
    ]


@pytest.mark.slow
def test_folded_characters_equal_the_plain_twin():
    characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts = [f"{a}x{b}" for a, b in zip(characters[::2], characters[1::2], strict=True)]
    hashes, ends = word_hashes(pa.array(texts, pa.large_string()))
    found = [hashes[a:b].tolist() for a, b in pairwise(ends.tolist())]
    assert found == [[word_hash(word) for word in words_of(text)] for text in texts]


def test_sketch_of_long_repetitive_words_equals_the_plain_twin():
    text = "One two, three! " * 40_000
    found = signatures(pa.array([text], pa.large_string()), MinHashRound(shingle="words"))[0]
    assert found.tolist() == plain_signature(word_shingle_hashes(text, 13), 128)


def test_word_shingles_ignore_case_punctuation_white_space_and_composition():
    texts = ["Où est l'été, demain?", "où  est\nle\u0301te\u0301\u00a0DEMAIN", "… !?"]
    found = signatures(pa.array(texts, pa.large_string()), MinHashRound(shingle="words"))
    assert found[0].tolist() == found[1].tolist()
    assert set(found[2].tolist()) == {EMPTY}


def test_empty_document_has_no_values_and_a_short_document_one_shingle():
    empty, short, same = compiled(["", "abc", "abc"])
    assert set(empty.tolist()) == {EMPTY}
    assert EMPTY not in short.tolist()
    assert short.tolist() == same.tolist()


@pytest.mark.parametrize("values", [128, 117, 286, 1000])
@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8, 0.95])
def test_values_agree_at_the_rate_of_the_jaccard_similarity(similarity, values):
    """Over 300 pairs of 128 values the mean error has a standard error of at most sqrt(J(1-J)/38,400).

    The values of a pair are not independent if they are more than its shingles: 1,000 values have the information
    of 400 independent values.
    """
    chance = random.Random(7)
    pairs = 300
    agreement = 0.0
    for _ in range(pairs):
        n = 400
        both = int(n * similarity)
        alphabet = [chr(c) for c in chance.sample(range(0x4E00, 0x9FFF), 2 * n - both)]
        first, second = alphabet[:n], alphabet[n - both :]
        a, b = compiled(["".join(first), "".join(second)], width=1, values=values)
        agreement += float(np.mean(a == b)) / pairs
    exact = both / (2 * n - both)
    standard_error = (exact * (1 - exact) / (min(values, 400) * pairs)) ** 0.5
    assert abs(agreement - exact) < 4 * standard_error


def test_band_keys_of_a_slice_equal_those_of_a_copy():
    texts = pa.array(["first", "", "naïve 漢字 🙂", "last one"], pa.large_string())
    whole, has_shingle = band_keys(texts, MinHashRound())
    assert has_shingle.tolist() == [True, False, True, True]
    assert whole.shape == (4, 8)
    assert band_keys(texts.slice(2, 2), MinHashRound())[0].tolist() == whole[2:].tolist()
    assert len({tuple(row) for row in whole.tolist()}) == 4


def test_word_signatures_equal_the_golden_bits():
    texts = pa.array(["The quick brown fox jumps over the lazy dog."], pa.large_string())
    assert band_keys(texts, MinHashRound(shingle="words"))[0][0, :2].tolist() == [
        9067031982405747633,
        4984272146498732663,
    ]


def test_signatures_equal_the_golden_bits():
    """Change these numbers only with tasks.signatures.minhash.VERSION: band keys on storage depend on them."""
    key, _ = band_keys(
        pa.array(["The quick brown fox jumps over the lazy dog."], pa.large_string()), MinHashRound()
    )
    assert key[0, :2].tolist() == [577495479004995186, 9691204451888525647]
