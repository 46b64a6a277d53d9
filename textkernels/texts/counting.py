"""The statistics of a text by which Zyda-1 lets documents go (Zyphra's Zyda_processing, `filtering.py`).

Columns out, a row a document:

    characters        code points
    mean_word_length  of what stands between white space, `-`, `/`, backslash and `.`, empty words too
    symbols           share of the characters that are neither of a word nor white space
    digits            share of the characters that are decimal digits
    runs              how many runs there are of LEAST_RUN or more of one character of a word

Shares of a text without characters are 0.
"""

import numpy as np
import pyarrow as pa

from textkernels.buffers import text_buffers
from textkernels.rules.characters import count
from textkernels.texts.classes import character_classes

STATISTICS = pa.schema(
    [
        ("characters", pa.int64()), ("mean_word_length", pa.float64()), ("symbols", pa.float64()),
        ("digits", pa.float64()), ("runs", pa.int64()),
    ]
)  # fmt: skip


def statistics(texts: pa.LargeStringArray) -> pa.Table:
    """Return the STATISTICS of each text."""
    counts = count(*text_buffers(texts), character_classes())
    characters, cuts = counts["characters"], counts["cuts"]
    some = np.maximum(characters, 1)
    columns = [
        characters,
        (characters - cuts) / (cuts + 1),
        counts["others"] / some,
        counts["digits"] / some,
        counts["runs"],
    ]
    return pa.table([pa.array(column) for column in columns], schema=STATISTICS)
