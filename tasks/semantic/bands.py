"""Bands of signs of random projections: how many are needed, and the keys of vectors.

The signs of a projection are equal for two vectors at an angle a with the probability p = 1 - a / pi. With b bits,
two vectors share a bucket of a band with the probability p ** b, and in any of L bands with 1 - (1 - p ** b) ** L.
The bits follow from the number of documents n, so that a bucket has BUCKET documents on average: b = log2(n /
BUCKET). The bands follow from the bits and the cosine, so that FOUND of the pairs at the cosine share a bucket.
Only pairs of which few of all 128 bits of a key differ are compared exactly.
"""

from functools import lru_cache
from math import acos, ceil, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

BUCKET = 1 << 11  # documents: comparing two keys takes 0.5 ns, and a key of a band about 1 us
FOUND = 0.985  # share of the pairs at the cosine that share a bucket
SIGMAS = 3.3  # standard deviations of the number of different bits above which a pair is not compared
MOST_BITS, MOST_BANDS = 32, 255
KEY_BITS, BAND_BITS = 128, 32
SKETCH_BITS = KEY_BITS - BAND_BITS  # of a key, the same in all bands
BATCH = 1 << 13  # vectors that are projected together


def equal_signs(cosine: float) -> float:
    """Return the probability that a sign of two vectors is equal."""
    return 1 - acos(cosine) / pi


def bits_for(documents: int) -> int:
    """Return the bits of a bucket for a number of documents; numbers up to the next power of two have the same."""
    return min(MOST_BITS, max(0, (max(1, documents) - 1).bit_length() - (BUCKET - 1).bit_length()))


def bands_for(documents: int, cosine: float) -> int:
    """Return the number of bands with which FOUND of the pairs at a cosine share a bucket."""
    shared = equal_signs(cosine) ** bits_for(documents)
    return 1 if shared >= FOUND else min(MOST_BANDS, ceil(log(1 - FOUND) / log(1 - shared)))


def found_share(bits: int, bands: int, cosine: float) -> float:
    """Return the share of the pairs at a cosine that share a bucket."""
    return float(1 - (1 - equal_signs(cosine) ** bits) ** bands)


def most_different(bits: int, cosine: float) -> int:
    """Return the bits that differ in a key of two documents with a cosine, except for a pair in two thousand."""
    free, differs = KEY_BITS - bits, 1 - equal_signs(cosine)
    return ceil(free * differs + SIGMAS * sqrt(free * differs * (1 - differs)))


@lru_cache(maxsize=4)
def projections(dims: int, bands: int) -> NDArray[np.float32]:
    """Return the projections, (dims, SKETCH_BITS + bands * BAND_BITS): 1 or -1, the same on every machine.

    The first bands are the same for any number of bands.
    """
    signs = [random_signs(dims, size, band) for band, size in enumerate([SKETCH_BITS, *[BAND_BITS] * bands])]
    return np.concatenate(signs, axis=1)


def random_signs(dims: int, size: int, number: int) -> NDArray[np.float32]:
    """Return random signs, (dims, size), from the bits of Philox, a generator whose output is defined."""
    words = np.random.Philox(key=[dims, number]).random_raw(dims * size // 64 + 1).astype("<u8")
    bits = np.unpackbits(words.view(np.uint8))[: dims * size].reshape(dims, size)
    return bits.astype(np.float32) * 2 - 1


def sign_keys(vectors: NDArray[np.int8], bands: int) -> NDArray[np.uint64]:
    """Return the keys of vectors in each band: (n, dims) to (n, bands, 2).

    A key has BAND_BITS of its band, then SKETCH_BITS. Sums of products of 8-bit numbers with 1 and -1 are whole
    numbers that float32 represents exactly, in any order.
    """
    keys = np.empty((len(vectors), bands, 2), np.uint64)
    for start in range(0, len(vectors), BATCH):
        sums = vectors[start : start + BATCH].astype(np.float32) @ projections(vectors.shape[1], bands)
        packed = np.packbits(sums > 0, axis=1)
        words = np.ascontiguousarray(packed).view(">u4").astype(np.uint64)
        sketch, own = words[:, : SKETCH_BITS // 32], words[:, SKETCH_BITS // 32 :]
        part = keys[start : start + BATCH]
        part[:, :, 0] = own << np.uint64(32) | sketch[:, :1]
        part[:, :, 1] = (sketch[:, 1] << np.uint64(32) | sketch[:, 2])[:, None]
    return keys
