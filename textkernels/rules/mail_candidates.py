"""Find windows of texts that may contain mail addresses; see `candidates`. Compiled by numba."""

import numpy as np

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.rules.candidates import (
    ALNUM,
    AT,
    ATOM,
    BRACKET,
    CLOSING,
    COLON,
    DIGIT,
    DOT,
    HYPHEN,
    LANES,
    ONE,
    WIDE,
    ZERO,
    add_window,
    has_class,
)
from zyda_flows.textkernels.rules.plain import plain_at
from zyda_flows.textkernels.swar import between_64, trailing_zeros
from zyda_flows.textkernels.utf8 import first_bits


@njit(cache=True, nogil=True)
def atom_before(data, start, b):
    """Return the number of bytes of the character before b if it may be part of an atom, else 0.

    These are characters of ASCII, and Latin letters with an accent (U+00C0 to U+024F, and a few beyond).
    """
    if b > start and has_class(data[b - 1], ATOM):
        return 1
    if b - 1 > start and 0x80 <= data[b - 1] < 0xC0 and 0xC3 <= data[b - 2] <= 0xC9:
        return 2
    return 0


@njit(cache=True, nogil=True)
def atoms_begin(data, start, at):
    """Return the begin of atoms, separated by single dots, of which the last ends before `at`."""
    b = at
    while b > start:
        size = atom_before(data, start, b)
        if size:
            b -= size
        elif data[b - 1] == DOT and b < at and atom_before(data, start, b - 1):
            b -= 1
        else:
            break
    return b


@njit(cache=True, nogil=True)
def octet_end(data, i, stop):
    """Return the end of a number of up to three digits, 255 at most; return i if there is none."""
    k, value = i, 0
    while k < stop and has_class(data[k], DIGIT):
        value = value * 10 + data[k] - ZERO
        k += 1
        if k - i > 3 or value > 255:
            return i
    return k


@njit(cache=True, nogil=True)
def literal_end(data, i, stop):
    """Return the end of a domain of four numbers in brackets, or 0. i: after its first bracket."""
    for _ in range(3):
        k = octet_end(data, i, stop)
        if k == i or k >= stop or data[k] != DOT:
            return 0
        i = k + 1
    k = octet_end(data, i, stop)
    if i < k < stop and data[k] == CLOSING:
        return k + 1
    k = i
    while k < stop and (has_class(data[k], ALNUM) or data[k] == HYPHEN):
        k += 1
    is_tag = (
        i < k < stop - 1 and has_class(data[k - 1], ALNUM) and data[k] == COLON and data[k + 1] == CLOSING
    )
    return k + 2 if is_tag else 0


@njit(cache=True, nogil=True)
def domain_end(data, i, stop):
    """Return the end of the letters, digits, hyphens and dots of a domain, or 0 if none begins."""
    if i < stop and data[i] == BRACKET:
        return literal_end(data, i + 1, stop)
    k = i
    while k < stop and (has_class(data[k], ALNUM) or data[k] == HYPHEN):
        k += 1
    if k == i or k + 1 >= stop or data[k] != DOT:
        return 0
    if not (has_class(data[i], ALNUM) and has_class(data[k - 1], ALNUM) and has_class(data[k + 1], ALNUM)):
        return 0
    while k < stop and (has_class(data[k], ALNUM) or data[k] == HYPHEN or data[k] == DOT):
        k += 1
    return k


@njit(cache=True, nogil=True)
def find_mails(data, offsets, windows):
    """Write a window for each @ (plain or full-width) between a name and a domain; return the number of windows."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        for i in range(start, stop, LANES):
            places = (between_64(data, i, AT, AT) | between_64(data, i, WIDE, WIDE)) & first_bits(stop - i)
            while places:
                at = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                if not atom_before(data, start, at):
                    continue
                sign, size = plain_at(data, at, stop)
                end = domain_end(data, at + size, stop) if sign == AT else 0
                if end:
                    number = add_window(windows, number, d, atoms_begin(data, start, at), end)
    return number
