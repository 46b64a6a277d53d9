"""Find windows of texts that may contain numbers of phones, cards and accounts; see `candidates`.

Unicode's spaces, dashes and full-width forms count as the plain characters that they replace. Compiled by numba.
"""

import numpy as np

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.rules.candidates import (
    BLANK,
    CLOSED,
    DIALLED,
    DIGIT,
    DOT,
    HYPHEN,
    LANES,
    NINE,
    ONE,
    OPEN,
    PLUS,
    UPPER,
    WIDE,
    WORD,
    ZERO,
    add_window,
    has_class,
)
from zyda_flows.textkernels.rules.plain import plain_at, plain_before
from zyda_flows.textkernels.swar import between_64, trailing_zeros
from zyda_flows.textkernels.utf8 import first_bits


@njit(cache=True, nogil=True)
def may_be_dialled(data, start, begin, end):
    """Return whether there is a mark of a phone number, and at least nine digits.

    A mark is + before a digit, but not after a name or number; two digits or more in parentheses; or groups of
    three, three and four digits with . or - between them.
    """
    digits, size, before, two_before, is_open = 0, 0, 0, 0, False
    has_sign, following = False, begin
    while following < end:
        k = following
        byte, width = plain_at(data, k, end)
        following += width
        if has_class(byte, DIGIT):
            digits, size = digits + 1, size + 1
            has_sign |= size == 4 and before == 3 and two_before == 3
            continue
        if byte == PLUS and following < end and ZERO < plain_at(data, following, end)[0] <= NINE:
            has_sign |= k == start or not (has_class(data[k - 1], WORD) or data[k - 1] == PLUS)
        has_sign |= byte == CLOSED and size >= 2 and is_open
        is_open = byte == OPEN
        if size and byte in (DOT, HYPHEN):
            before, two_before = size, before
        else:
            before, two_before = 0, 0
        size = 0
    return has_sign and digits >= 9


@njit(cache=True, nogil=True)
def may_be_card(data, begin, end):
    """Return whether fourteen digits that are no fraction come together, or four digits after four and a gap."""
    size, before, is_fraction = 0, 0, False
    k = begin
    while k < end:
        byte, width = plain_at(data, k, end)
        k += width
        if has_class(byte, DIGIT):
            size += 1
            if (size == 14 and not is_fraction) or (size == 4 and before == 4):
                return True
            continue
        is_fraction = byte == DOT and size > 0
        before = size if byte in (BLANK, HYPHEN) else 0
        size = 0
    return False


@njit(cache=True, nogil=True)
def dialled_begin(data, start, at):
    """Return the begin of the characters of phones and cards before `at`."""
    while at > start:
        byte, width = plain_before(data, start, at)
        if not has_class(byte, DIALLED):
            break
        at -= width
    return at


@njit(cache=True, nogil=True)
def dialled_end(data, at, stop):
    """Return the end of the characters of phones and cards after `at`."""
    while at < stop:
        byte, width = plain_at(data, at, stop)
        if not has_class(byte, DIALLED):
            break
        at += width
    return at


@njit(cache=True, nogil=True)
def find_numbers(data, offsets, windows, is_card):
    """Write a window for each run of characters that may be a phone or card; return the number of windows."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        reached = start
        for i in range(start, stop, LANES):
            places = between_64(data, i, ZERO, NINE) | between_64(data, i, WIDE, WIDE)
            places &= first_bits(stop - i)
            while places:
                at = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                if at < reached or (data[at] == WIDE and not has_class(plain_at(data, at, stop)[0], DIGIT)):
                    continue
                begin, reached = dialled_begin(data, start, at), dialled_end(data, at, stop)
                if reached - begin < 9:
                    continue
                if (
                    may_be_card(data, begin, reached)
                    if is_card
                    else may_be_dialled(data, start, begin, reached)
                ):
                    number = add_window(windows, number, d, begin, reached)
    return number


@njit(cache=True, nogil=True)
def find_phones(data, offsets, windows):
    return find_numbers(data, offsets, windows, False)


@njit(cache=True, nogil=True)
def find_cards(data, offsets, windows):
    return find_numbers(data, offsets, windows, True)


@njit(cache=True, nogil=True)
def account_end(data, at, stop):
    """Return the end of the capitals, digits, spaces and dashes after `at`."""
    while at < stop:
        byte, width = plain_at(data, at, stop)
        if not (has_class(data[at], DIGIT | UPPER) or byte in (BLANK, HYPHEN)):
            break
        at += width
    return at


@njit(cache=True, nogil=True)
def find_accounts(data, offsets, windows):
    """Write a window for each run from two capitals and two digits to `account_end`; return their number."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        reached = start
        for i in range(start, stop, LANES):
            places = between_64(data, i, ZERO, NINE) & first_bits(stop - i)
            while places:
                at = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                begin = at - 2
                if begin < max(reached, start) or at + 1 >= stop or not has_class(data[at + 1], DIGIT):
                    continue
                if not (has_class(data[begin], UPPER) and has_class(data[begin + 1], UPPER)):
                    continue
                if begin > start and has_class(data[begin - 1], WORD):
                    continue
                reached = account_end(data, at, stop)
                if reached - begin >= 15:
                    number = add_window(windows, number, d, begin, reached)
    return number
