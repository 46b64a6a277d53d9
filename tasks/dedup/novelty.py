"""Novelty: the share of a text's word 3-grams that another text lacks."""

import re

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.signatures.shingles import word_hashes
from zyda_flows.textkernels.sets import distinct, overlaps
from zyda_flows.textkernels.sketch import word_shingle_hashes

WIDTH = 3  # words
CHINESE = re.compile("([\u3400-\u9fff\u3007])")


def words_in_order(text: str) -> NDArray[np.uint64]:
    """Return the hashes of the words of a text, (w,), as of `tasks.signatures.shingles`.

    Each Chinese character is a word: Chinese has no spaces between words.
    """
    if CHINESE.search(text):
        text = CHINESE.sub(r" \1 ", text)
    hashes, _ = word_hashes(
        pa.array([text.encode("utf-8", "replace")], pa.large_binary()).cast(pa.large_string())
    )
    return hashes


def novel_share(text: str, kept: str) -> float:
    """Return the share of the distinct word 3-grams of a text that a kept text lacks, 0 to 1.

    A text of one or two words is a single 3-gram. A text without words has none, and the share is 0.
    """
    return novel_share_of_words(words_in_order(text), words_in_order(kept))


def novel_share_of_words(own: NDArray[np.uint64], other: NDArray[np.uint64]) -> float:
    """Return `novel_share` of two texts, from the hashes of their words in their order."""
    ends = np.array([0, len(own), len(own) + len(other)])
    grams, ends = distinct(*word_shingle_hashes(np.concatenate([own, other]), ends, width=WIDTH))
    count = int(ends[1])
    shared = overlaps(grams, ends, np.array([1]), np.array([0]))[0]
    return float(1 - shared / count) if count else 0.0
