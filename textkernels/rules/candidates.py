"""Find windows of texts that may contain personal data; no match lies outside of a window. Compiled by numba.

The kernels for each kind are in `mail_candidates`, `address_candidates` and `number_candidates`.

A window is a document and a range of bytes, `begin` to `end`: (w, 3) int64, in order. Windows of mails may overlap
if one address follows another. A window of another kind reaches as far as the characters that its expression
accepts, so no match reaches out of a window.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

ONE, LANES = np.uint64(1), 64
AT, BRACKET, CLOSING, COLON, HYPHEN, DOT, PLUS, BLANK = 64, 91, 93, 58, 45, 46, 43, 32
OPEN, CLOSED = 40, 41
WIDE = 0xEF  # the first byte of full-width characters
ZERO, NINE = 48, 57
ATOM, ALNUM, DIGIT, UPPER, WORD, DIALLED, HEX = (1 << bit for bit in range(7))  # of CLASSES
BYTES_A_WINDOW = 512  # estimate for the first allocation

Find = Callable[[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], int]


def classes_of_bytes() -> NDArray[np.uint8]:
    """Return the classes of each byte: (256,) uint8."""
    small, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
    alnum = small + small.upper() + digits
    members = {
        ATOM: alnum + "!#$%&'*+/=?^_`{|}~-",
        ALNUM: alnum,
        DIGIT: digits,
        UPPER: small.upper(),
        WORD: alnum + "_",
        DIALLED: digits + " ().+-",
        HEX: digits + "abcdefABCDEF",
    }
    classes = np.zeros(256, np.uint8)
    for bit, characters in members.items():
        classes[list(characters.encode())] |= np.uint8(bit)
    return classes


CLASSES = classes_of_bytes()


@njit(cache=True, nogil=True, inline="always")
def has_class(byte, classes):
    return CLASSES[byte] & classes != 0


@njit(cache=True, nogil=True, inline="always")
def add_window(windows, number, document, begin, end):
    """Write a window if there is room, and return the new number of windows."""
    if number < len(windows):
        windows[number] = (document, begin, end)
    return number + 1


def windows_of(find: Find, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the windows that a kernel finds: (w, 3). data: has at least 64 bytes; offsets: (n + 1,)."""
    room = int(offsets[-1] - offsets[0]) // BYTES_A_WINDOW + LANES
    while True:
        windows = np.empty((room, 3), np.int64)
        number = find(data, offsets, windows)
        if number <= room:
            return windows[:number]
        room = number
