"""Exact duplicates: a 128-bit hash of each text, or of its words, as the key of a single band.

By `text`, two documents are duplicates if they are equal byte by byte. By `normalised`, their words are equal in
the same order, as for shingles of words: NFC, lower case, no punctuation, any white space. The hash is BLAKE2 (RFC
7693): two different texts of a corpus have the same hash with negligible probability, so texts are not compared.
"""

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import ExactRound
from zyda_flows.tasks.signatures.shingles import words_of
from zyda_flows.textkernels.buffers import text_buffers


def text_keys(texts: pa.LargeStringArray, dedup: ExactRound) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the hash of each text, (n, 1, 2) uint64, and which texts are not empty, (n,) bool."""
    if dedup.exact == "normalised":
        words, ends = words_of(texts)
        data, ends = words.tobytes(), ends * words.itemsize
    else:
        characters, ends = text_buffers(texts)
        data = characters.tobytes()
    places = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    whole = memoryview(data)
    digests = [hashlib.blake2b(whole[start:end], digest_size=16).digest() for start, end in places]
    keys = np.frombuffer(b"".join(digests), np.dtype("<u8")).astype(np.uint64)
    return keys.reshape(-1, 1, 2), ends[1:] > ends[:-1]


def text_hashes(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the first 64 bits of the hash of each text, (n,), and which texts are not empty, (n,)."""
    keys, has_text = text_keys(texts, ExactRound(exact="text"))
    return keys[:, 0, 0], has_text
