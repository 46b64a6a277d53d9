"""MinHash band keys on the CPU, compiled by numba.

The signature is a fast similarity sketch (Dahlgaard, Knudsen and Thorup, "Fast Similarity
Sketching", FOCS 2017). In round r every shingle falls into one slot h_r(x) with the value
(r, g_r(x)), each slot keeps its minimum, and rounds go on until no slot is empty; from round t on,
round r fills slot r - t alone. A long document needs one round, that is one hash for each
character, where a classical MinHash of t values needs t of them. As in a MinHash, two documents
agree in a slot with probability equal to their Jaccard similarity.

A shingle is `width` consecutive code points, hashed by a polynomial in an odd base modulo 2**64
that rolls along the text. All arithmetic is on uint64 and wraps; the constants are arbitrary odd
numbers, and changing one changes every band key (bump `tasks.minhash.VERSION`).
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

BASE = np.uint64(0x9E6C63D0876A9A35)
CHARACTER = np.uint64(0xD6E8FEB86659FD93)
MIX_1 = np.uint64(0xFF51AFD7ED558CCD)  # MurmurHash3's 64-bit finaliser
MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SHIFT = np.uint64(33)
ONE = np.uint64(1)

ROUND_SHIFT = np.uint64(54)
VALUE_MASK = np.uint64((1 << 54) - 1)
EMPTY = np.uint64(2**64 - 1)
SCRATCH_HASHES = 1 << 16  # 512 KiB: stays in the second-level cache; the rest is hashed again if it is needed


@njit(cache=True, nogil=True, inline="always")
def mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> SHIFT)) * MIX_1
    x = (x ^ (x >> SHIFT)) * MIX_2
    return x ^ (x >> SHIFT)


@njit(cache=True, nogil=True, inline="always")
def code_point(data, i):
    """Decode the code point at byte i of valid UTF-8: its value, premultiplied, and its length."""
    first = data[i]
    if first < 0x80:
        return (np.uint64(first) + ONE) * CHARACTER, 1
    if first < 0xE0:
        code = (np.uint64(first & 0x1F) << np.uint64(6)) | np.uint64(data[i + 1] & 0x3F)
        return (code + ONE) * CHARACTER, 2
    code = np.uint64(data[i + 1] & 0x3F) << np.uint64(6) | np.uint64(data[i + 2] & 0x3F)
    if first < 0xF0:
        return ((np.uint64(first & 0x0F) << np.uint64(12) | code) + ONE) * CHARACTER, 3
    code = (np.uint64(first & 0x07) << np.uint64(18)) | (code << np.uint64(6))
    return ((code | np.uint64(data[i + 3] & 0x3F)) + ONE) * CHARACTER, 4


@njit(cache=True, nogil=True)
def hash_shingles(data, start, end, width, oldest, hashes):
    """Hash the shingles of the bytes [start, end), as many as fit in `hashes`.

    `oldest` is BASE**width. Returns the count, and the byte where the next shingle starts, which
    is `end` after the last one.
    """
    head = start
    h = np.uint64(0)
    filled = 0
    while filled < width and head < end:
        c, n = code_point(data, head)
        h = h * BASE + c
        head += n
        filled += 1
    hashes[0] = h
    count = 1
    tail = start
    while head < end:
        gone, m = code_point(data, tail)
        tail += m
        if count == hashes.size:
            return count, tail
        c, n = code_point(data, head)
        head += n
        h = h * BASE + c - gone * oldest
        hashes[count] = h
        count += 1
    return count, end


@njit(cache=True, nogil=True)
def play_round(hashes, round_, slot_shift, signature):
    """Drop every shingle into its slot of one round."""
    offset = np.uint64(round_) * GOLDEN
    prefix = np.uint64(round_) << ROUND_SHIFT
    for h in hashes:
        x = mix(h + offset)
        slot = x >> slot_shift
        value = prefix | (x & VALUE_MASK)
        if value < signature[slot]:
            signature[slot] = value


@njit(cache=True, nogil=True)
def fill_directly(hashes, signature):
    """Fill what is still empty after as many rounds as slots: round t + s looks at slot s only."""
    for slot in range(signature.size):
        if signature[slot] == EMPTY:
            round_ = np.uint64(signature.size + slot)
            for x in hashes:
                value = (round_ << ROUND_SHIFT) | (mix(x + round_ * GOLDEN) & VALUE_MASK)
                signature[slot] = min(signature[slot], value)


@njit(cache=True, nogil=True)
def distinct_hashes(data, start, end, width, oldest, scratch):
    """Collect the distinct shingle hashes of a long document that repeats itself."""
    seen = {np.uint64(0)}
    seen.clear()
    while start < end:
        count, start = hash_shingles(data, start, end, width, oldest, scratch)
        for h in scratch[:count]:
            seen.add(h)
    return np.array(list(seen))


@njit(cache=True, nogil=True)
def sketch(data, start, end, width, oldest, slot_shift, signature, scratch):
    """Write the signature of the document in bytes [start, end), which is not empty."""
    count, next_ = hash_shingles(data, start, end, width, oldest, scratch)
    play_round(scratch[:count], 0, slot_shift, signature)
    fits = next_ == end
    while next_ < end:
        count, next_ = hash_shingles(data, next_, end, width, oldest, scratch)
        play_round(scratch[:count], 0, slot_shift, signature)
    if not np.any(signature == EMPTY):
        return
    hashes = scratch[:count]
    if not fits:  # slots are empty after so many shingles: few of them are distinct
        hashes = distinct_hashes(data, start, end, width, oldest, scratch)
    for round_ in range(1, signature.size):
        play_round(hashes, round_, slot_shift, signature)
        if not np.any(signature == EMPTY):
            return
    fill_directly(hashes, signature)


@njit(cache=True, nogil=True)
def _signatures(data, offsets, width, signatures):
    slot_shift = np.uint64(64)
    size = signatures.shape[1]
    while size > 1:
        slot_shift -= ONE
        size >>= 1
    oldest = ONE
    for _ in range(width):
        oldest *= BASE
    scratch = np.empty(SCRATCH_HASHES, np.uint64)
    for i in range(offsets.size - 1):
        if offsets[i + 1] > offsets[i]:
            start, end = offsets[i], offsets[i + 1]
            sketch(data, start, end, width, oldest, slot_shift, signatures[i], scratch)


@njit(cache=True, nogil=True)
def _band_keys(signatures, keys):
    rows = signatures.shape[1] // keys.shape[1]
    for i in range(keys.shape[0]):
        for band in range(keys.shape[1]):
            key = np.uint64(band) * GOLDEN
            for row in range(rows):
                key = mix(key ^ signatures[i, band * rows + row]) + GOLDEN
            keys[i, band] = key


def signatures(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], *, width: int, values: int
) -> NDArray[np.uint64]:
    """Sketch every document of a block of text.

    data: the documents' UTF-8 bytes, one after another, valid. offsets: (n + 1,), where document i
    is data[offsets[i]:offsets[i + 1]]. width: code points in a shingle; a shorter document is one
    shingle. values: signature length, a power of two from 2 to 512.

    Returns (n, values) uint64. The row of an empty document is all EMPTY: it has no shingle.
    """
    if values & (values - 1) or not 2 <= values <= 512:
        raise ValueError(f"values must be a power of two from 2 to 512, not {values}")
    result = np.full((len(offsets) - 1, values), EMPTY, np.uint64)
    _signatures(data, offsets, width, result)
    return result


def band_keys(signatures: NDArray[np.uint64], *, bands: int) -> NDArray[np.uint64]:
    """Hash each band of each signature to one key: (n, values) uint64 to (n, bands) uint64.

    Band b holds the rows b * (values // bands) and up; rows left over at the end are not used.
    """
    keys = np.empty((len(signatures), bands), np.uint64)
    _band_keys(signatures, keys)
    return keys
