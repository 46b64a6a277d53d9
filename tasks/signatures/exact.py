"""Exact duplicates: a 128-bit hash of each text, or of its words, as a key of one band.

By `text` two documents are equal byte by byte; by `normalised` their words are the same in the same order, as
shingles of words see them: NFC, lower case, no punctuation, any white space between. BLAKE2 (RFC 7693) makes it so
improbable that two texts of any corpus have one hash that nobody looks again.
"""

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.kinds import ExactRound
from zyda_flows.tasks.signatures.shingles import words_of
from zyda_flows.textkernels.buffers import text_buffers


def text_keys(texts: pa.LargeStringArray, dedup: ExactRound) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the hash of each text, (n, 1, 2) uint64, and which texts have anything to hash, (n,) bool."""
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
