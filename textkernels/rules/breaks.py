"""Find the line breaks of documents once, for all kernels that read lines. Compiled by numba."""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.swar import between_64, trailing_zeros
from zyda_flows.textkernels.utf8 import NEW_LINE, first_bits

ONE, TWO = np.uint64(1), np.uint64(2)
TRUSTED = 62  # of 64 bytes: the bytes with two more after them, because a break has up to three bytes
BYTES_A_LINE = 16  # estimate for the first allocation
BEYOND = np.iinfo(np.int64).max


@njit(cache=True, nogil=True)
def _find_breaks(data, start, stop, places):
    """Write the positions of breaks, as many as there is room for; return the number of breaks."""
    n, i = 0, start
    while i < stop:
        breaks = between_64(data, i, NEW_LINE, 13) | between_64(data, i, 0x1C, 0x1E)
        breaks |= between_64(data, i, 0xC2, 0xC2) & between_64(data, i, 0x85, 0x85) >> ONE
        separators = between_64(data, i, 0x80, 0x80) >> ONE & between_64(data, i, 0xA8, 0xA9) >> TWO
        breaks |= between_64(data, i, 0xE2, 0xE2) & separators
        breaks &= first_bits(min(stop - i, TRUSTED))
        while breaks:
            if n < places.size:
                places[n] = i + np.int64(trailing_zeros(breaks))
            n += 1
            breaks &= breaks - ONE  # without its lowest bit
        i += TRUSTED
    return n


def line_breaks(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    r"""Return the positions of the line breaks of `str.splitlines`, and a last one beyond all bytes: (k + 1,).

    \r\n is two breaks: \r may end a document, and \n begin the next. data: has at least 64 bytes.
    """
    start, stop = int(offsets[0]), int(offsets[-1])
    places = np.empty((stop - start) // BYTES_A_LINE + 1, np.int64)
    n = _find_breaks(data, start, stop, places)
    if n >= len(places):
        places = np.empty(n + 1, np.int64)
        _find_breaks(data, start, stop, places)
    places[n] = BEYOND
    return places[: n + 1]
