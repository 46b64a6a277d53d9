"""Hashes of the words of texts on a GPU, compiled by numba; equal to the hashes of `textkernels.words`."""

from typing import Any

import numpy as np
from numba import cuda

from zyda_flows.textkernels.cuda.sketching import THREADS, code_point, mix
from zyda_flows.textkernels.words import BASE, DROPPED, SPACE, UNSAFE


@cuda.jit
def begin_words(data, offsets, folded, begins, is_unsafe):
    """Mark the first byte of each word, and the documents that NFC may change. Each block marks one document.

    A word begins at its first character that is not dropped. begins: a mark for each byte, uint8. is_unsafe: (n,)
    uint8. Both contain zeros before the call.
    """
    document = cuda.blockIdx.x
    start, end = np.uint64(offsets[document]), np.uint64(offsets[document + 1])
    place = start + np.uint64(cuda.threadIdx.x)
    while place < end:
        if data[place] & 0xC0 != 0x80:  # the first byte of a character
            entry = folded[code_point(data, place)[0]]
            if entry & UNSAFE != 0:
                is_unsafe[document] = 1
            entry &= ~UNSAFE
            if entry != SPACE and entry != DROPPED and is_first(data, place, start, folded):
                begins[place] = 1
        place += np.uint64(cuda.blockDim.x)


@cuda.jit(device=True)
def is_first(data, place, start, folded):
    """Return whether all characters between a character and the white space before it are dropped."""
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
    """Hash the word that begins at each given byte, a thread each. beyond: the end of the word's document."""
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

    data, offsets: as in `textkernels.words.hash_words`, in the memory of the device, as is folded.

    Returns the hashes, uint64, their (n + 1,) int64 ends, and the documents that must be composed (NFC) first, (n,)
    bool: their hashes may be wrong.
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
        is_word = hashes != 0  # a hash of 0 stays 0 when it is mixed; on CPUs it is no word either
        begins, hashes = begins[is_word], hashes[is_word]
    return hashes, xp.searchsorted(begins, offsets, side="left").astype(np.int64), is_unsafe.astype(np.bool_)
