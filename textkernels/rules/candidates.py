"""Where personal data may stand in texts: windows, outside of which nothing of it is found. Compiled by numba.

A window is a document and its bytes from `begin` to `end`: (w, 3) int64, in their order. Those of mails may overlap
where one address follows another; those of other kinds are as long as the characters go on that an expression
takes, so that nothing that it finds reaches out of one.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from textkernels.compiled import njit
from textkernels.swar import between_64, trailing_zeros
from textkernels.utf8 import first_bits

ONE, LANES = np.uint64(1), 64
AT, BRACKET, CLOSING, COLON, HYPHEN, DOT, PLUS, BLANK = 64, 91, 93, 58, 45, 46, 43, 32
OPEN, CLOSED = 40, 41
ZERO, NINE = 48, 57
ATOM, ALNUM, DIGIT, UPPER, WORD, DIALLED = (1 << bit for bit in range(6))  # of CLASSES
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


@njit(cache=True, nogil=True)
def atoms_begin(data, start, at):
    """Return where atoms with single dots between them begin, of which the last ends before `at`."""
    b = at
    while b > start:
        if is_of(data[b - 1], ATOM):
            b -= 1
        elif data[b - 1] == DOT and b < at and b - 1 > start and is_of(data[b - 2], ATOM):
            b -= 2
        else:
            break
    return b


@njit(cache=True, nogil=True)
def octet_end(data, i, stop):
    """Return where a number of up to three digits, 255 at most, ends; i where there is none."""
    k, value = i, 0
    while k < stop and is_of(data[k], DIGIT):
        value = value * 10 + data[k] - ZERO
        k += 1
        if k - i > 3 or value > 255:
            return i
    return k


@njit(cache=True, nogil=True)
def literal_end(data, i, stop):
    """Return where a domain of four numbers in brackets ends, or 0. i: after its first bracket."""
    for _ in range(3):
        k = octet_end(data, i, stop)
        if k == i or k >= stop or data[k] != DOT:
            return 0
        i = k + 1
    k = octet_end(data, i, stop)
    if i < k < stop and data[k] == CLOSING:
        return k + 1
    k = i
    while k < stop and (is_of(data[k], ALNUM) or data[k] == HYPHEN):
        k += 1
    is_tag = i < k < stop - 1 and is_of(data[k - 1], ALNUM) and data[k] == COLON and data[k + 1] == CLOSING
    return k + 2 if is_tag else 0


@njit(cache=True, nogil=True)
def domain_end(data, i, stop):
    """Return where the letters, digits, hyphens and dots of a domain end, or 0 where none begins."""
    if i < stop and data[i] == BRACKET:
        return literal_end(data, i + 1, stop)
    k = i
    while k < stop and (is_of(data[k], ALNUM) or data[k] == HYPHEN):
        k += 1
    if k == i or k + 1 >= stop or data[k] != DOT:
        return 0
    if not (is_of(data[i], ALNUM) and is_of(data[k - 1], ALNUM) and is_of(data[k + 1], ALNUM)):
        return 0
    while k < stop and (is_of(data[k], ALNUM) or data[k] == HYPHEN or data[k] == DOT):
        k += 1
    return k


@njit(cache=True, nogil=True)
def find_mails(data, offsets, windows):
    """Write a window for each @ between what may be a name and what is a domain; return how many there are."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        for i in range(start, stop, LANES):
            places = between_64(data, i, AT, AT) & first_bits(stop - i)
            while places:
                at = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                if at == start or not is_of(data[at - 1], ATOM):
                    continue
                end = domain_end(data, at + 1, stop)
                if end:
                    number = keep(windows, number, d, atoms_begin(data, start, at), end)
    return number


@njit(cache=True, nogil=True)
def find_addresses(data, offsets, windows):
    """Write a window for digits and dots that stand together, three dots or more; return how many there are."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        reached = start
        for i in range(start, stop, LANES):
            places = between_64(data, i, DOT, DOT) & first_bits(stop - i)
            while places:
                at = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                if at < reached or at == start or at + 1 == stop:
                    continue
                if not (is_of(data[at - 1], DIGIT) and is_of(data[at + 1], DIGIT)):
                    continue
                begin, reached, dots = at, at, 0
                while begin > start and (is_of(data[begin - 1], DIGIT) or data[begin - 1] == DOT):
                    begin -= 1
                    dots += data[begin] == DOT
                while reached < stop and (is_of(data[reached], DIGIT) or data[reached] == DOT):
                    dots += data[reached] == DOT
                    reached += 1
                if dots >= 3:
                    number = keep(windows, number, d, begin, reached)
    return number


@njit(cache=True, nogil=True)
def may_be_dialled(data, start, begin, end):
    """Say whether there is a sign of a number of a phone, and nine digits.

    A sign is + before a digit, where no name or number ends; three digits or more in parentheses; or three, three
    and four with . or - between them.
    """
    digits, size, before, two_before, opened = 0, 0, 0, 0, -1
    has_sign = False
    for k in range(begin, end):
        byte = data[k]
        if is_of(byte, DIGIT):
            digits, size = digits + 1, size + 1
            has_sign |= size == 4 and before == 3 and two_before == 3
            continue
        if byte == PLUS and k + 1 < end and ZERO < data[k + 1] <= NINE:
            has_sign |= k == start or not (is_of(data[k - 1], WORD) or data[k - 1] == PLUS)
        if byte == OPEN:
            opened = k
        has_sign |= byte == CLOSED and size >= 3 and opened == k - size - 1
        if size and byte in (DOT, HYPHEN):
            before, two_before = size, before
        else:
            before, two_before = 0, 0
        size = 0
    return has_sign and digits >= 9


@njit(cache=True, nogil=True)
def may_be_card(data, begin, end):
    """Say whether there are fourteen digits together, not of a fraction, or four after four and a blank or -."""
    size, before, is_fraction = 0, 0, False
    for k in range(begin, end):
        byte = data[k]
        if is_of(byte, DIGIT):
            size += 1
            if (size == 14 and not is_fraction) or (size == 4 and before == 4):
                return True
            continue
        is_fraction = byte == DOT and size > 0
        before = size if byte in (BLANK, HYPHEN) else 0
        size = 0
    return False


@njit(cache=True, nogil=True)
def find_numbers(data, offsets, windows, of_cards):
    """Write a window for what phones and cards are written with, where one may be; return how many there are."""
    number = 0
    for d in range(len(offsets) - 1):
        start, stop = offsets[d], offsets[d + 1]
        reached = start
        for i in range(start, stop, LANES):
            places = between_64(data, i, ZERO, NINE) & first_bits(stop - i)
            while places:
                begin = i + np.int64(trailing_zeros(places))
                places &= places - ONE
                if begin < reached:
                    continue
                reached = begin
                while begin > start and is_of(data[begin - 1], DIALLED):
                    begin -= 1
                while reached < stop and is_of(data[reached], DIALLED):
                    reached += 1
                if reached - begin < 9:
                    continue
                if (
                    may_be_card(data, begin, reached)
                    if of_cards
                    else may_be_dialled(data, start, begin, reached)
                ):
                    number = keep(windows, number, d, begin, reached)
    return number


@njit(cache=True, nogil=True)
def find_phones(data, offsets, windows):
    return find_numbers(data, offsets, windows, False)


@njit(cache=True, nogil=True)
def find_cards(data, offsets, windows):
    return find_numbers(data, offsets, windows, True)


@njit(cache=True, nogil=True)
def find_accounts(data, offsets, windows):
    """Write a window from two capitals and two digits on, to where no more capitals, digits and blanks follow."""
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
                if begin < max(reached, start) or at + 1 >= stop or not is_of(data[at + 1], DIGIT):
                    continue
                if not (is_of(data[begin], UPPER) and is_of(data[begin + 1], UPPER)):
                    continue
                if begin > start and is_of(data[begin - 1], WORD):
                    continue
                reached = at
                while reached < stop and (is_of(data[reached], DIGIT | UPPER) or data[reached] == BLANK):
                    reached += 1
                if reached - begin >= 15:
                    number = keep(windows, number, d, begin, reached)
    return number


def windows_of(find: Find, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the windows that a kernel finds: (w, 3). data: has 64 bytes or more; offsets: (n + 1,)."""
    room = int(offsets[-1] - offsets[0]) // BYTES_A_WINDOW + LANES
    while True:
        windows = np.empty((room, 3), np.int64)
        number = find(data, offsets, windows)
        if number <= room:
            return windows[:number]
        room = number
