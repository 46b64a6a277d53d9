"""Count the letters of texts by script. Compiled by numba."""

import numpy as np

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import code_point

STRETCH = np.uint64(16)  # bytes that are tested for ASCII together


@njit(cache=True, nogil=True)
def count_letters(data, offsets, scripts, latin, counts):
    """Count the letters of texts by script.

    data: valid UTF-8. scripts: (0x110000,) uint8, the column of counts for each code point, 0 if it is no letter.
    latin: the column of ASCII's letters. counts: (n, columns) int64, zeros.
    """
    for text in range(offsets.size - 1):
        i, stop = np.uint64(offsets[text]), np.uint64(offsets[text + 1])
        while i < stop:
            if i + STRETCH <= stop:
                bits, letters = np.uint8(0), np.uint8(0)
                for k in range(STRETCH):
                    bits |= data[i + k]
                    letters += np.uint8(np.uint8((data[i + k] | 0x20) - 97) < 26)
                if bits < 0x80:
                    counts[text, latin] += letters
                    i += STRETCH
                    continue
            beyond = min(stop, i + STRETCH)
            while i < beyond:
                code, size = code_point(data, i)
                counts[text, scripts[code]] += 1
                i += size
