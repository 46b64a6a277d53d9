"""Word shingles: their words are in NFC and lower case, without punctuation, and separated by white space.

Lower case is Unicode's simple mapping of one character to one. Punctuation is ASCII's (`string.punctuation`, with
its symbols) and Unicode's categories P. All depend on the Unicode version of this Python, which is part of the key
of everything computed from it.
"""

import string
import unicodedata
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.textkernels import sketch
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.sets import distinct
from zyda_flows.textkernels.words import DROPPED, SPACE, UNSAFE, fold, hash_words, may_change

CODE_POINTS = 0x110000
SPARSE = 0x40000  # from here on nearly all code points are unassigned or private
SURROGATES = range(0xD800, 0xE000)


@lru_cache(maxsize=1)
def folded_characters() -> NDArray[np.uint32]:
    """Return the table of folded characters for `textkernels.words`: (0x110000,) uint32."""
    folded = np.arange(2, CODE_POINTS + 2, dtype=np.uint32)
    for code in range(SPARSE):
        character = chr(code)
        if character.isspace():
            folded[code] = SPACE
        elif character in string.punctuation or unicodedata.category(character).startswith("P"):
            folded[code] = DROPPED
        else:
            folded[code] = ord(character.lower()[0]) + 2
    folded[changed_by_nfc()] |= UNSAFE
    return folded


def changed_by_nfc() -> NDArray[np.bool_]:
    """Mark every code point that NFC may change, alone or with its neighbours: (0x110000,) bool.

    These are characters that change alone, characters that combine with the character before them, characters that
    may be reordered, and characters that Python's Unicode data do not know, which may be any of these.
    """
    unsafe = np.zeros(CODE_POINTS, np.bool_)
    unsafe[SPARSE:] = True
    for code in (*range(0x80, SURROGATES.start), *range(SURROGATES.stop, SPARSE)):
        character = chr(code)
        if unicodedata.combining(character) or unicodedata.category(character) == "Cn":
            unsafe[code] = True
        decomposed = unicodedata.decomposition(character)
        if decomposed and not decomposed.startswith("<"):
            unsafe[[int(part, 16) for part in decomposed.split(" ")[1:]]] = True
        if unicodedata.normalize("NFC", character) != character:
            unsafe[code] = True
    unsafe[0x1100:0x1200] = True  # Hangul letters, which combine to syllables
    return unsafe


def word_hashes(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hash the words of each text: (w,), and (n + 1,) ends; see `textkernels.words.hash_words`."""
    return hash_words(*text_buffers(to_nfc(texts)), folded_characters())


def words_of(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Fold the words of each text: (c,) code points, and (n + 1,) ends; see `textkernels.words.fold`."""
    return fold(*text_buffers(to_nfc(texts)), folded_characters())


def to_nfc(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return texts in NFC."""
    folded = folded_characters()
    is_unsafe = may_change(*text_buffers(texts), folded)
    if is_unsafe.any():
        mask = pa.array(is_unsafe)
        normalised = [unicodedata.normalize("NFC", text) for text in texts.filter(mask).to_pylist()]
        texts = pc.replace_with_mask(texts, mask, pa.array(normalised, pa.large_string()))
    return texts


def shingle_sets(
    texts: pa.LargeStringArray, dedup: MinHashRound
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct shingles of each text: hashes, uint64, and (n + 1,) ends; see `textkernels.sets`."""
    if dedup.shingle == "words":
        return distinct(*sketch.word_shingle_hashes(*word_hashes(texts), width=dedup.width))
    return distinct(*sketch.shingle_hashes(*text_buffers(texts), width=dedup.width))
