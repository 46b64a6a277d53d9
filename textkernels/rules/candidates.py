"""Where personal data may stand in texts: windows, outside of which nothing of it is found. Compiled by numba.

The kernels that find windows are in `mail_candidates`, `address_candidates` and `number_candidates`.

A window is a document and its bytes from `begin` to `end`: (w, 3) int64, in their order. Those of mails may overlap
where one address follows another; those of other kinds are as long as the characters go on that an expression
takes, so that nothing that it finds reaches out of one.
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
BYTES_A_WINDOW = 512  # a guess of how many there are, to begin with

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
def is_of(byte, classes):
    return CLASSES[byte] & classes != 0


@njit(cache=True, nogil=True, inline="always")
def keep(windows, number, document, begin, end):
    """Write a window where there is room for it, and return how many there are."""
    if number < len(windows):
        windows[number] = (document, begin, end)
    return number + 1


def windows_of(find: Find, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the windows that a kernel finds: (w, 3). data: has 64 bytes or more; offsets: (n + 1,)."""
    room = int(offsets[-1] - offsets[0]) // BYTES_A_WINDOW + LANES
    while True:
        windows = np.empty((room, 3), np.int64)
        number = find(data, offsets, windows)
        if number <= room:
            return windows[:number]
        room = number
