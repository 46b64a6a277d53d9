"""Hashes of the words of texts, of which word shingles (n-grams) are made. Compiled by numba.

Words are separated by white space and folded: in lower case and without punctuation. A word's hash is a polynomial
in its characters, modulo 2**64, mixed. A table, made by `tasks.signatures.shingles`, has the folded form of each
code point.
"""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import check_buffers
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import code_point, mix

SPACE, DROPPED = (
    np.uint32(0),
    np.uint32(1),
)  # entries of the table; the entry of a character is its folded code + 2
UNSAFE = np.uint32(1 << 31)  # set in the entry of a character that NFC may change; of no ASCII character

BASE = np.uint64(0xB492B66FBE98F273)
STRETCH = np.uint64(16)  # bytes that are tested for ASCII together


@njit(cache=True, nogil=True, inline="always")
def add(entry, h, words, n):
    """Add one character: `h` is the hash of the word so far, `n` counts the words.

    Without a branch, because the end of a word cannot be predicted: each character writes the word so far, and the
    index is advanced when the word is complete.
    """
    words[n] = h
    is_space = entry == SPACE
    n += np.uint64(is_space & (h != 0))  # a hash of 0: no word has begun; characters are 2 and more
    longer = h if entry == DROPPED else h * BASE + np.uint64(entry)
    return np.uint64(0) if is_space else longer, n


@njit(cache=True, nogil=True)
def segment(data, start, end, folded, words, first):
    """Write the hashes of a document's words from index `first` on; return the index after the last."""
    # Indices are unsigned, so that none is tested for being negative.
    i, stop, n, h = np.uint64(start), np.uint64(end), np.uint64(first), np.uint64(0)
    while i < stop:
        while i + STRETCH <= stop:
            bits = np.uint8(0)
            for k in range(STRETCH):
                bits |= data[i + k]
            if bits >= 0x80:
                break
            for k in range(STRETCH):
                h, n = add(folded[data[i + k]], h, words, n)
            i += STRETCH
        for _ in range(STRETCH):
            if i >= stop:
                break
            code, size = code_point(data, i)
            h, n = add(folded[code] & ~UNSAFE, h, words, n)
            i += size
    words[n] = h
    n += np.uint64(h != 0)
    for place in range(np.uint64(first), n):
        words[place] = mix(words[place])
    return np.int64(n)


@njit(cache=True, nogil=True)
def _fold(data, offsets, folded, characters, ends):
    n = ends[0] = 0
    for d in range(offsets.size - 1):
        i, stop, start, is_between = np.uint64(offsets[d]), np.uint64(offsets[d + 1]), n, False
        while i < stop:
            code, size = code_point(data, i)
            entry = folded[code] & ~UNSAFE
            i += size
            if entry == SPACE:
                is_between = n > start
            elif entry != DROPPED:
                if is_between:
                    characters[n] = SPACE
                    n += 1
                    is_between = False
                characters[n] = entry
                n += 1
        ends[d + 1] = n


def fold(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], folded: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the words of documents as characters, as `hash_words` hashes them, with SPACE between two words.

    Returns the entries of `folded` for all documents, uint32, and their (n + 1,) ends.
    """
    check_buffers(data, offsets)
    # A word's characters and the space before it are fewer than the bytes from which they come.
    characters = np.empty(int(offsets[-1] - offsets[0]), np.uint32)
    ends = np.zeros(len(offsets), np.int64)
    _fold(data, offsets, folded, characters, ends)
    return characters[: ends[-1]], ends


@njit(cache=True, nogil=True)
def _hash_words(data, offsets, folded, words, ends):
    ends[0] = 0
    for d in range(offsets.size - 1):
        ends[d + 1] = segment(data, offsets[d], offsets[d + 1], folded, words, ends[d])


@njit(cache=True, nogil=True)
def _may_change(data, offsets, folded, is_unsafe):
    for d in range(offsets.size - 1):
        i, stop = np.uint64(offsets[d]), np.uint64(offsets[d + 1])
        while i < stop and not is_unsafe[d]:
            while i + STRETCH <= stop:
                bits = np.uint8(0)
                for k in range(STRETCH):
                    bits |= data[i + k]
                if bits >= 0x80:
                    break
                i += STRETCH
            beyond = min(stop, i + STRETCH)
            while i < beyond:
                code, size = code_point(data, i)
                is_unsafe[d] |= folded[code] & UNSAFE != 0
                i += size


def hash_words(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], folded: NDArray[np.uint32]
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hash every word of a block of text.

    data: the documents' UTF-8 bytes, concatenated, valid. offsets: (n + 1,), where document i is
    data[offsets[i]:offsets[i + 1]]. folded: (0x110000,) uint32.

    Returns the hashes, uint64, and their ends, (n + 1,) int64: the hashes of document i are
    hashes[ends[i]:ends[i + 1]].
    """
    check_buffers(data, offsets)
    documents = len(offsets) - 1
    # A word takes two bytes with the space after it, but the last word of a document may have no space, and `add`
    # writes 1 index further than the complete words.
    most = (int(offsets[-1]) - int(offsets[0])) // 2 + documents + 1
    words = np.empty(most, np.uint64)
    ends = np.empty(documents + 1, np.int64)
    _hash_words(data, offsets, folded, words, ends)
    return words[: ends[-1]], ends


def may_change(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], folded: NDArray[np.uint32]
) -> NDArray[np.bool_]:
    """Return the documents with a character that NFC may change: (n,) bool."""
    check_buffers(data, offsets)
    is_unsafe = np.zeros(len(offsets) - 1, np.bool_)
    _may_change(data, offsets, folded, is_unsafe)
    return is_unsafe
