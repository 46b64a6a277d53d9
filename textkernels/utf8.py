"""Read UTF-8 text byte by byte: characters, white space, lines, phrases. Called by kernels in other files.

`data` is valid UTF-8; functions that read 64 bytes together need at least 64 (`textkernels.buffers.roomy_buffers`).
`classes` has the BITS of each code point, (0x110000,) uint32, from `textkernels.texts.english.token_classes`.
"""

import numpy as np

from zyda_flows.textkernels.compiled import njit

BITS = (
    "SPACE", "LINE", "LETTER", "LOWER", "UPPER", "NUMBER", "PREFIX", "SUFFIX", "INFIX", "QUOTE", "BEFORE_DOT",
    "CURRENCY", "HOST", "BREAK", "ALPHA", "SYMBOL", "PUNCTUATION", "PERIOD", "TERMINAL", "CAPITAL", "NUMERAL",
    "DECIMAL", "ALNUM",
)  # fmt: skip
(
    SPACE, LINE, LETTER, LOWER, UPPER, NUMBER, PREFIX, SUFFIX, INFIX, QUOTE, BEFORE_DOT,
    CURRENCY, HOST, BREAK, ALPHA, SYMBOL, PUNCTUATION, PERIOD, TERMINAL, CAPITAL, NUMERAL,
    DECIMAL, ALNUM,
) = (np.uint32(1 << place) for place in range(len(BITS)))  # fmt: skip
NEW_LINE = 10
ALL = np.uint64(2**64 - 1)
MIX_1 = np.uint64(0xFF51AFD7ED558CCD)  # MurmurHash3's 64-bit finaliser
MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
MIX_SHIFT = np.uint64(33)
ONE, TWO, THREE, FOUR = (np.uint64(n) for n in (1, 2, 3, 4))


@njit(cache=True, nogil=True, inline="always")
def mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> MIX_SHIFT)) * MIX_1
    x = (x ^ (x >> MIX_SHIFT)) * MIX_2
    return x ^ (x >> MIX_SHIFT)


@njit(cache=True, nogil=True, inline="always")
def code_point(data, i):
    """Return the code point at byte i, and its size in bytes. i: uint64, which needs no test for being negative."""
    # The first byte tells the number of bytes; each after it is 10xxxxxx, six bits of the code point.
    first = np.uint32(data[i])
    if first < 0x80:
        return first, ONE
    if first < 0xE0:
        return (first & 0x1F) << 6 | np.uint32(data[i + ONE] & 0x3F), TWO
    code = np.uint32(data[i + ONE] & 0x3F) << 6 | np.uint32(data[i + TWO] & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | code, THREE
    return (first & 0x07) << 18 | code << 6 | np.uint32(data[i + THREE] & 0x3F), FOUR


@njit(cache=True, nogil=True, inline="always")
def code_at(data, i):
    """Return the code point at byte i, and its size in bytes. i: int64."""
    first = np.uint32(data[i])
    if first < 0x80:
        return first, 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | np.uint32(data[i + 1] & 0x3F), 2
    code = np.uint32(data[i + 1] & 0x3F) << 6 | np.uint32(data[i + 2] & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | code, 3
    return (first & 0x07) << 18 | code << 6 | np.uint32(data[i + 3] & 0x3F), 4


@njit(cache=True, nogil=True, inline="always")
def last_code(data, b):
    """Return the code point that ends before byte b, and its first byte."""
    p = b - 1
    while data[p] & 0xC0 == 0x80:
        p -= 1
    return code_at(data, p)[0], p


@njit(cache=True, nogil=True)
def stripped(data, a, b, classes):
    """Return the begin and end of the bytes from a to b without the white space around them."""
    while a < b and data[a] == 32:
        a += 1
    while a < b:
        code, size = code_at(data, a)
        if classes[code] & SPACE == 0:
            break
        a += size
    while b > a:
        code, p = last_code(data, b)
        if classes[code] & SPACE == 0:
            break
        b = p
    return a, b


@njit(cache=True, nogil=True, inline="always")
def strip_text(data, a, b, classes):
    """Return the result of `stripped`; fast if both ends are visible characters of ASCII."""
    if a < b and not (0x20 < data[a] < 0x7F and 0x20 < data[b - 1] < 0x7F):
        return stripped(data, a, b, classes)
    return a, b


@njit(cache=True, nogil=True)
def matches_at(data, i, a, b, phrase):
    """Return whether a lower-case phrase stands at byte i, within the bytes from a to b, in any case of ASCII."""
    if i < a or i + len(phrase) > b:
        return False
    for k in range(len(phrase)):
        byte = data[i + k]
        if (byte + 32 if 65 <= byte <= 90 else byte) != phrase[k]:
            return False
    return True


@njit(cache=True, nogil=True, inline="always")
def first_bits(n):
    """Return 64 bits of which the first n are set; n is at least 1 and may be more than 64."""
    return ALL >> np.uint64(64 - min(n, 64))


@njit(cache=True, nogil=True, inline="always")
def line_end(data, breaks, p, stop):
    """Return the end of a line, the begin of the next (by `str.splitlines`), and the number of its first break.

    breaks: (m,) int64, of `textkernels.rules.breaks`. p: the number of the first break that is not before the line.
    """
    b = min(breaks[p], stop)
    if b == stop:
        return stop, stop, p
    byte = data[b]
    if byte == NEW_LINE:
        return b, b + 1, p + 1
    if byte == 13 and b + 1 < stop and data[b + 1] == NEW_LINE:
        return b, b + 2, p + 2
    return b, b + (1 if byte < 0x80 else 2 if byte == 0xC2 else 3), p + 1


@njit(cache=True, nogil=True, inline="always")
def new_line(data, breaks, p, stop):
    """Return the end of a line that only a new line ends, and the number of the next break; as `line_end`."""
    while breaks[p] < stop:
        if data[breaks[p]] == NEW_LINE:
            return breaks[p], p + 1
        p += 1
    return stop, p
