"""The words of a text as hashes, on a GPU: those of `textkernels.words`, compiled by numba."""

from typing import Any

import numpy as np
from numba import cuda

from zyda_flows.textkernels.cuda.sketching import THREADS, code_point, mix
from zyda_flows.textkernels.words import BASE, DROPPED, SPACE, UNSAFE


@cuda.jit
def begin_words(data, offsets, folded, begins, is_unsafe):
    """Mark the byte of each word's first character that counts, and the documents that NFC may change.

    A block each. begins: of each byte, uint8. is_unsafe: (n,) uint8. Both are zeros before.
    """
    document = cuda.blockIdx.x
    start, end = np.uint64(offsets[document]), np.uint64(offsets[document + 1])
    place = start + np.uint64(cuda.threadIdx.x)
    while place < end:
        if data[place] & 0xC0 != 0x80:  # else it is inside of a character
            entry = folded[code_point(data, place)[0]]
            if entry & UNSAFE != 0:
                is_unsafe[document] = 1
            entry &= ~UNSAFE
            if entry != SPACE and entry != DROPPED and is_first(data, place, start, folded):
                begins[place] = 1
        place += np.uint64(cuda.blockDim.x)


@cuda.jit(device=True)
def is_first(data, place, start, folded):
    """Say whether nothing that counts stands between a character and the white space before it."""
    while place > start:
        place -= np.uint64(1)
        while data[place] & 0xC0 == 0x80:
            place -= np.uint64(1)
        entry = folded[code_point(data, place)[0]] & ~UNSAFE
        if entry != DROPPED:
            return entry == SPACE
    return True


@cuda.jit
def hash_words(data, begins, beyond, folded, hashes):
    """Hash the word that begins at each of some bytes, a thread each. beyond: where its document ends."""
    i = cuda.grid(1)
    if i < hashes.size:
        place, end, h = np.uint64(begins[i]), np.uint64(beyond[i]), np.uint64(0)
        entry = np.uint32(DROPPED)
        while place < end and entry != SPACE:
            code, size = code_point(data, place)
            entry = folded[code] & ~UNSAFE
            if entry != SPACE and entry != DROPPED:
                h = h * BASE + np.uint64(entry)
            place += size
        hashes[i] = mix(h)


def word_hashes(xp: Any, data: Any, offsets: Any, folded: Any) -> tuple[Any, Any, Any]:
    """Hash every word of a block of text.

    data, offsets: as of `textkernels.words.hash_words`, on the device, as is folded.

    Returns the hashes, uint64, (n + 1,) int64 ends, and which documents are to be composed first, (n,) bool: theirs
    may be others.
    """
    documents = len(offsets) - 1
    marks, is_unsafe = xp.zeros(len(data), np.uint8), xp.zeros(documents, np.uint8)
    if documents:
        begin_words[documents, THREADS](data, offsets, folded, marks, is_unsafe)
    begins = xp.flatnonzero(marks)
    hashes = xp.empty(len(begins), np.uint64)
    if len(begins):
        beyond = offsets[xp.searchsorted(offsets, begins, side="right")]
        hash_words[-(-len(begins) // THREADS), THREADS](data, begins, beyond, folded, hashes)
        is_word = hashes != 0  # a hash of 0, which stays 0 when it is mixed, is no word on CPUs either
        begins, hashes = begins[is_word], hashes[is_word]
    return hashes, xp.searchsorted(begins, offsets, side="left").astype(np.int64), is_unsafe.astype(np.bool_)
