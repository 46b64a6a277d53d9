"""Cutting English text into tokens: words, and the punctuation around and within them. Compiled by numba.

White space cuts a text into chunks. Of a chunk, prefixes and suffixes come off one by one until an exception (a
fixed string with pieces of its own) or nothing of the kind is left; what stays is an exception, an address of the
web, or is cut at its infixes. These are the rules of spaCy's English tokenizer; what each character and string is,
is read from tables that `tasks.texts.english` makes.

A token is a row of `tokens`: START and END as bytes, its CHARACTERS and its MARKS; `hashes` has a polynomial in
its bytes, modulo 2**64.

Text repeats its chunks: how one was cut stands in a memo, by its bytes, until another takes its slot. What the memo
says is what cutting would say, so that it changes nothing but the time.
"""

import threading

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tasks.kernels.utf8 import (
    ALNUM,
    ALPHA,
    BEFORE_DOT,
    BREAK,
    DECIMAL,
    HOST,
    INFIX,
    LETTER,
    LOWER,
    NUMBER,
    PERIOD,
    PREFIX,
    PUNCTUATION,
    QUOTE,
    SPACE,
    SUFFIX,
    SYMBOL,
    UPPER,
    code_at,
)  # fmt: skip

START, END, CHARACTERS, MARKS = range(4)
# While exceptions are made whole, bits of a piece's end: it is taken, and how many more pieces the exception has.
TAKEN, CHOSEN = np.uint64(1 << 63), np.uint64(58)
PLACE = np.uint64((1 << 58) - 1)
BASE = np.uint64(0xB492B66FBE98F273)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
SLOTS = 4096  # of the tables of exceptions and of units
TOP = np.uint64(52)  # a hash's upper bits, which say the slot
PIECES, JOINED = 4, 16  # places for the ends of an exception's pieces, as it is and as the rules would cut it
# Where in `rules` what stands: of each first byte, how long exceptions are, bits, all and those that the rules
# would cut; the hashes of exceptions and of units; of each slot, how many pieces and the end of each, in both ways.
LENGTHS, CUT_LENGTHS, KEYS = 0, 256, 512
UNITS = KEYS + SLOTS
CUTS = UNITS + SLOTS
JOINS = CUTS + SLOTS * PIECES
RULES = JOINS + SLOTS * JOINED
LONGEST = 40  # bytes of an exception
UNIT = 10  # bytes of the longest unit of measurement
# A slot of the memo has the chunk's first 16 bytes and INLINE pieces; elsewhere, MORE numbers for other bytes and
# pieces. Of a piece: its characters, its end and, for the first, how many there are and the bytes of the chunk, 8
# bits each; its marks, 32 bits; then its hash.
MEMO_SLOTS, MEMO_TOP = 1 << 16, np.uint64(48)
SLOT, INLINE, MORE = 8, 3, 32
MEMO = MEMO_SLOTS * (SLOT + MORE)
KEPT = 64  # bytes of a chunk, at most
ONES, LOWER_BITS = np.uint64(0x0101010101010101), np.uint64(0x7F7F7F7F7F7F7F7F)
# What makes eight bits of a byte that is no white space.
NO_SPACE = np.uint64(0x5F5F5F5F5F5F5F5F)
DOT, APOSTROPHE, PLUS, MINUS, AT, COLON, DOLLAR = 46, 39, 43, 45, 64, 58, 36
RIGHT_QUOTE, ELLIPSIS, EN_DASH, EM_DASH = 0x2019, 0x2026, 0x2013, 0x2014

compiled = njit(cache=True, nogil=True)


@njit(cache=True, nogil=True, inline="always")
def code_before(data, a, i):
    """Return the code point that ends before byte i and where it begins; 0 and `a` if none stands there."""
    if i <= a:
        return np.uint32(0), a
    p = i - 1
    while data[p] & 0xC0 == 0x80:
        p -= 1
    return code_at(data, p)[0], p


@compiled
def code_or_none(data, i, b):
    """Return the code point at byte i, 0 beyond the end."""
    return code_at(data, i)[0] if i < b else np.uint32(0)


@njit(cache=True, nogil=True, inline="always")
def is_digit(code):
    return (code >= 48) & (code <= 57)


@compiled
def hash_of(data, a, b):
    h = np.uint64(0)
    for i in range(a, b):
        h = h * BASE + np.uint64(data[i] + np.uint64(1))
    return h


@compiled
def look_up(h, rules, table):
    """Return the slot of a hash in an open-addressing table, -1 if it is not there."""
    slot = np.int64((h * SPREAD) >> TOP)
    while rules[table + slot] != 0:
        if rules[table + slot] == h:
            return slot
        slot = (slot + 1) & (SLOTS - 1)
    return -1


@compiled
def exception(data, a, b, rules):
    """Return the slot of the exception that stands in the bytes from a to b, or -1."""
    if b - a > LONGEST or (rules[LENGTHS + data[a]] >> np.uint64(b - a)) & np.uint64(1) == 0:
        return -1
    return look_up(hash_of(data, a, b), rules, KEYS)


@compiled
def prefix_size(data, a, b, classes):
    """Return how many bytes a prefix takes at a, 0 if there is none."""
    code, size = code_at(data, a)
    if classes[code] & PREFIX:
        return size
    if code == DOT:
        i = a
        while i < b and data[i] == DOT:
            i += 1
        return i - a if i - a > 1 else 0
    if code == PLUS:
        return 0 if is_digit(code_or_none(data, a + 1, b)) else 1
    if (code == 65 or code == 67) and b > a + 1 and data[a + 1] == DOLLAR:  # A$, C$
        return 2
    if code == 85 and b > a + 2 and data[a + 1] == 83 and data[a + 2] == DOLLAR:  # US$
        return 3
    return 0


@compiled
def dot_size(data, a, b, p, classes):
    """Return how many bytes of dots come off at the end, of which p is the last."""
    q = p
    while q > a and data[q - 1] == DOT:
        q -= 1
    if p > q:
        return b - q
    code, q = code_before(data, a, p)
    of_code = classes[code]
    if of_code & BEFORE_DOT:
        return 1
    if of_code & UPPER:
        before, _ = code_before(data, a, q)
        is_degree = before == 0xB0 and (code == 67 or code == 70 or code == 75)  # of C, F, K
        return 1 if is_degree or classes[before] & UPPER else 0
    return 0


@compiled
def unit_size(data, a, b, rules):
    """Return how many bytes a unit of measurement or a currency takes at the end, after a digit."""
    i = b - 1
    while i >= a and b - i <= UNIT + 1:
        if is_digit(data[i]):
            found = i + 1 < b and look_up(hash_of(data, i + 1, b), rules, UNITS) >= 0
            return b - i - 1 if found else 0
        i -= 1
    return 0


@compiled
def suffix_size(data, a, b, classes, rules):
    """Return how many bytes the longest suffix takes before b, 0 if there is none."""
    if b <= a:
        return 0
    code, p = code_before(data, a, b)
    size = b - p if classes[code] & SUFFIX else 0
    if code == DOT:
        return dot_size(data, a, b, p, classes)
    before, q = code_before(data, a, p)
    if code == ELLIPSIS and before == ELLIPSIS:
        return b - q
    if code in (115, 83) and before in (APOSTROPHE, RIGHT_QUOTE):
        size = b - q
    elif code == PLUS and is_digit(before):
        size = 1
    return max(size, unit_size(data, a, b, rules))


@compiled
def hyphen_size(data, p, b, code, size, classes):
    """Return how many bytes a hyphen takes at p, of one to three characters and before a letter."""
    i = p + size
    if classes[code_or_none(data, i, b)] & LETTER:
        return size
    most = 3 if code == MINUS else 2 if code == EM_DASH else 1
    for _ in range(1, most):
        if code_or_none(data, i, b) != code:
            return 0
        i += size
        if classes[code_or_none(data, i, b)] & LETTER:
            return i - p
    return 0


@compiled
def infix_size(data, p, b, code, size, before, classes):
    """Return how many bytes an infix takes at p, where `code` stands after `before`; 0 if there is none."""
    if code == DOT:
        i = p
        while i < b and data[i] == DOT:
            i += 1
        if i - p > 1:
            return i - p
        is_between = classes[before] & (LOWER | QUOTE) and classes[code_or_none(data, i, b)] & (UPPER | QUOTE)
        return 1 if is_between else 0
    if classes[code] & INFIX:
        return size
    after = code_or_none(data, p + size, b)
    if is_digit(before) and (is_digit(after) or after == MINUS) and code in (PLUS, MINUS, 42, 94):  # * ^
        return 1
    if code == 44:  # ,
        return 1 if classes[before] & LETTER and classes[after] & LETTER else 0
    if classes[before] & (LETTER | NUMBER):
        if code in (MINUS, EN_DASH, EM_DASH, 126):  # ~
            return hyphen_size(data, p, b, code, size, classes)
        if code in (COLON, 60, 61, 62, 47) and classes[after] & LETTER:  # < = > /
            return 1
    return 0


@compiled
def ends_host(data, i, b, classes):
    """Say whether a host's name may end at i: there is nothing more, or a port, or a path."""
    if i < b and data[i] == COLON:
        digits, j = 0, i + 1
        while j < b:
            code, size = code_at(data, j)
            if classes[code] & DECIMAL == 0:
                break
            digits += 1
            j += size
        if digits < 2 or digits > 5:
            return False
        i = j
    return i == b or data[i] == 47 or data[i] == 63 or data[i] == 35  # / ? #


@compiled
def is_domain(data, i, b, classes):
    """Say whether a host's name stands at i: labels with dots after them, then lower-case letters."""
    labels = 0
    while i < b:
        if labels:
            letters, j = 0, i
            while j < b:
                code, size = code_at(data, j)
                if classes[code] & LOWER == 0:
                    break
                letters += 1
                j += size
            if 2 <= letters <= 63 and ends_host(data, j, b, classes):
                return True
        length, last = 0, np.uint32(0)
        while i < b and data[i] != DOT:
            code, size = code_at(data, i)
            is_inner = length > 0 and (code == 95 or code == MINUS)
            if classes[code] & HOST == 0 and not is_inner:
                return False
            last = code
            length += 1
            i += size
        if length == 0 or length > 64 or classes[last] & HOST == 0:
            return False
        labels += 1
        i += 1
    return False


@compiled
def is_address(data, i, b, classes):
    """Say whether four numbers of a public network address stand at i."""
    numbers = (0, 0, 0, 0)
    for k in range(4):
        value, digits, first = 0, 0, 48
        while i < b and is_digit(data[i]) and digits < 4:
            first = data[i] if digits == 0 else first
            value = value * 10 + data[i] - 48
            digits += 1
            i += 1
        is_outer = k == 0 or k == 3
        most = 223 if k == 0 else 254 if k == 3 else 255
        if digits == 0 or digits > 3 or value > most or (first == 48 and (is_outer or digits == 3)):
            return False
        if k < 3:
            if i >= b or data[i] != DOT:
                return False
            i += 1
        numbers = (numbers[1], numbers[2], numbers[3], value)
    x, y = numbers[0], numbers[1]
    is_private = x == 10 or x == 127 or (x == 169 and y == 254) or (x == 192 and y == 168)
    return not (is_private or (x == 172 and 16 <= y <= 31)) and ends_host(data, i, b, classes)


@compiled
def is_host(data, i, b, classes):
    return is_domain(data, i, b, classes) or is_address(data, i, b, classes)


@compiled
def is_url(data, a, b, classes):
    """Say whether the bytes from a to b are an address: a scheme or not, a user or not, a host, port and path."""
    if b - a < 4 or is_host(data, a, b, classes):
        return b - a >= 4
    may_be_scheme, characters, i = True, 0, a
    while i < b:
        code, size = code_at(data, i)
        if may_be_scheme:
            is_cut = (
                code == COLON and characters > 1 and i + 3 <= b and data[i + 1] == 47 and data[i + 2] == 47
            )
            if is_cut and is_host(data, i + 3, b, classes):
                return True
            may_be_scheme = classes[code] & ALNUM != 0 or code in (95, PLUS, MINUS, DOT)
        if code == AT and i > a and is_host(data, i + 1, b, classes):
            return True
        characters += 1
        i += size
    return False


@njit(cache=True, nogil=True, inline="always")
def is_inner(data, i, classes):
    """Say whether byte i is a character of ASCII that is no affix by itself."""
    return data[i] < 0x80 and classes[data[i]] & BREAK == 0


@compiled
def cut_exception(a, slot, rules, cuts, n):
    """Write where the pieces of an exception end that begins at a."""
    at = CUTS + slot * PIECES
    for k in range(1, np.int64(rules[at]) + 1):
        cuts[n] = np.uint64(a) + rules[at + k]
        n += 1
    return n


@compiled
def cut_at_infixes(data, a, b, classes, cuts, n):
    start, i, before = a, a, np.uint32(0)
    while i < b:
        code, size = code_at(data, i)
        infix = 0
        if classes[code] & BREAK:
            infix = infix_size(data, i, b, code, size, before, classes)
            if infix and i > a:
                if i > start:
                    cuts[n] = i
                    n += 1
                start = i + infix
                cuts[n] = start
                n += 1
        i += max(infix, size)
        before = code
    if start < b:
        cuts[n] = b
        n += 1
    return n


@compiled
def cut_middle(data, a, b, classes, cuts, n):
    """Cut what stays of a chunk without its prefixes and suffixes, and is no exception."""
    breaks, dots = np.uint32(0), False
    for i in range(a, b):
        breaks |= BREAK if data[i] >= 0x80 else classes[data[i]] & BREAK
        dots |= data[i] == DOT
    if breaks == 0 or (dots and is_url(data, a, b, classes)):
        cuts[n] = b
        return n + 1
    return cut_at_infixes(data, a, b, classes, cuts, n)


@compiled
def cut_chunk(data, a, b, has_numbers, classes, rules, cuts, n):
    """Write where the pieces of a chunk end to place n and after, of which there are as many as it has bytes.

    The places of its suffixes wait at the end of `cuts` until what stands before them is written.
    """
    last, waiting, slot = len(cuts) - 1, 0, -1
    while a < b:
        slot = exception(data, a, b, rules)
        if slot >= 0:
            break
        prefix = suffix = 0
        # Letters and digits are no prefix but for A$, C$ and US$, no suffix but for 's and units.
        if not is_inner(data, a, classes) or (b - a > 1 and (data[a + 1] == DOLLAR or data[a + 1] == 83)):
            prefix = prefix_size(data, a, b, classes)
        if prefix and a + prefix < b:
            slot = exception(data, a + prefix, b, rules)
            if slot >= 0:
                a += prefix
                cuts[n] = a
                n += 1
                break
        if (
            has_numbers
            or not is_inner(data, b - 1, classes)
            or (b - a > 1 and not is_inner(data, b - 2, classes))
        ):
            suffix = suffix_size(data, a + prefix, b, classes, rules)
        if prefix == 0 and suffix == 0:
            break
        if suffix and a < b - suffix:
            slot = exception(data, a, b - suffix, rules)
        if prefix and slot < 0:
            a += prefix
            cuts[n] = a
            n += 1
        if suffix:
            cuts[last - waiting] = b
            waiting += 1
            b -= suffix
        if slot >= 0:
            break
    if slot >= 0:
        n = cut_exception(a, slot, rules, cuts, n)
    elif a < b:
        n = cut_middle(data, a, b, classes, cuts, n)
    for k in range(waiting - 1, -1, -1):
        cuts[n] = cuts[last - k]
        n += 1
    return n


@compiled
def exception_of(data, i, j, rules, cuts):
    """Return the slot of the exception that stands between two cuts, as the rules cut it, or -1."""
    a, b = np.int64(cuts[i] & PLACE), np.int64(cuts[j] & PLACE)
    if b - a > LONGEST or (rules[CUT_LENGTHS + data[a]] >> np.uint64(b - a)) & np.uint64(1) == 0:
        return -1
    slot = look_up(hash_of(data, a, b), rules, KEYS)
    joins = JOINS + slot * JOINED
    if slot < 0 or np.int64(rules[joins]) != j - i:
        return -1
    for k in range(1, j - i):
        if cuts[i + k] & PLACE != np.uint64(a) + rules[joins + k]:
            return -1
    return slot


@compiled
def has_cut_exceptions(data, first, n, rules, cuts):
    for i in range(first, n - 2):
        start = np.int64(cuts[i])
        if rules[CUT_LENGTHS + data[start]] == 0:
            continue
        for j in range(i + 2, min(n, i + JOINED)):
            if np.int64(cuts[j]) - start > LONGEST:
                break
            if exception_of(data, i, j, rules, cuts) >= 0:
                return True
    return False


@compiled
def join_exceptions(data, first, n, rules, cuts):
    """Make exceptions whole again that the rules have cut, between the cuts from `first` to n; return the new n.

    Those of the most pieces go first, and of these the first. Pieces that may belong to one of them, be it whole
    again or not, belong to no other.
    """
    for more in range(JOINED - 2, 0, -1):
        for i in range(first + 1, n - more):
            if exception_of(data, i - 1, i + more, rules, cuts) >= 0:
                if (cuts[i] | cuts[i + more]) & TAKEN == 0:
                    cuts[i] |= np.uint64(more) << CHOSEN
                for k in range(i, i + more + 1):
                    cuts[k] |= TAKEN
    i = out = first + 1
    start = cuts[first]
    while i < n:
        more = np.int64((cuts[i] & ~TAKEN) >> CHOSEN)
        end = cuts[i + more] & PLACE
        if more:
            slot = look_up(hash_of(data, np.int64(start), np.int64(end)), rules, KEYS)
            out = cut_exception(np.int64(start), slot, rules, cuts, out)
        else:
            cuts[out] = end
            out += 1
        start = end
        i += more + 1
    return out


@compiled
def cut_anew(data, a, b, classes, rules, cuts, n):
    """Write where a chunk begins and where its pieces end; return the place after it."""
    any_of, all_of, i = np.uint32(0), np.uint32(0xFFFFFFFF), a
    while i < b:
        code, size = code_at(data, i)
        any_of |= classes[code]
        all_of &= classes[code]
        i += size
    first = n
    cuts[n] = a
    n += 1
    is_plain = any_of & BREAK == 0 and (any_of & NUMBER == 0 or all_of & NUMBER != 0)
    if is_plain and exception(data, a, b, rules) < 0:
        cuts[n] = b
        return n + 1
    n = cut_chunk(data, a, b, any_of & NUMBER != 0, classes, rules, cuts, n)
    if n > first + 2 and has_cut_exceptions(data, first, n, rules, cuts):
        n = join_exceptions(data, first, n, rules, cuts)
    return n


@compiled
def describe(data, base, classes, tokens, hashes, n, last):
    """Write the tokens from n to `last`, where `hashes` says where they end, and before them where they begin."""
    i = np.int64(hashes[n])
    while n < last:
        end, start = np.int64(hashes[n + 1]), i
        h, any_of, all_of, characters = np.uint64(0), np.uint32(0), np.uint32(0xFFFFFFFF), 0
        while i < end:
            code, size = code_at(data, i)
            any_of |= classes[code]
            all_of &= classes[code]
            characters += 1
            for _ in range(size):
                h = h * BASE + np.uint64(data[i] + np.uint64(1))
                i += 1
        marks = any_of & ALPHA | all_of & (SYMBOL | PUNCTUATION)
        tokens[n, START], tokens[n, END], tokens[n, CHARACTERS] = start - base, end - base, characters
        tokens[n, MARKS] = marks | all_of & PERIOD if characters == 1 else marks
        hashes[n] = h
        n += 1


@njit(cache=True, nogil=True, inline="always")
def word_at(data, i):
    """Return the eight bytes at i as one number."""
    word = np.uint64(0)
    for k in range(8):
        word |= np.uint64(data[i + np.uint64(k)]) << np.uint64(8 * k)
    return word


@compiled
def word_of(data, i, b):
    """Return the bytes from i to b, or eight of them, as one number."""
    word = np.uint64(0)
    for k in range(min(b - i, 8)):
        word |= np.uint64(data[i + k]) << np.uint64(8 * k)
    return word


@njit(cache=True, nogil=True, inline="always")
def before_space(word):
    """Return ones in the bytes before the first that is, or may begin, white space, or is a control character."""
    special = (~((word & LOWER_BITS) + NO_SPACE) | word) & ~LOWER_BITS
    return ((special & (~special + np.uint64(1))) >> np.uint64(7)) - np.uint64(1)


@compiled
def chunk_end(data, i, stop, classes):
    while i < stop:
        code, size = code_at(data, i)
        if classes[code] & SPACE:
            break
        i += size
    return i


@compiled
def keep(data, a, b, start, slot, key, second, memo, tokens, hashes, first, n):
    """Write to a slot of the memo how a chunk was cut, which begins at `start` of its document."""
    entry, place = slot * SLOT, MEMO_SLOTS * SLOT + slot * MORE
    words = max(b - a - 9, 0) // 8
    if words + 2 * max(n - first - INLINE, 0) > MORE:
        return
    memo[entry], memo[entry + 1] = key, second
    for k in range(words):
        memo[place + k] = word_of(data, a + 16 + 8 * k, b)
    place += words
    about = np.uint64(n - first) << np.uint64(16) | np.uint64(b - a) << np.uint64(24)
    for k in range(n - first):
        at = entry + 2 + 2 * k if k < INLINE else place + 2 * (k - INLINE)
        about |= np.uint64(tokens[first + k, CHARACTERS]) | np.uint64(
            tokens[first + k, END] - start
        ) << np.uint64(8)
        memo[at] = about | np.uint64(tokens[first + k, MARKS]) << np.uint64(32)
        memo[at + 1] = hashes[first + k]
        about = np.uint64(0)


@njit(cache=True, nogil=True, inline="always")
def copy_piece(memo, place, chunk, start, tokens, hashes, n):
    """Write a piece from the memo to place n; return its end."""
    piece = memo[place]
    end = chunk + np.uint32((piece >> np.uint64(8)) & np.uint64(0xFF))
    tokens[n, START], tokens[n, END] = start, end
    tokens[n, CHARACTERS], tokens[n, MARKS] = (
        np.uint32(piece & np.uint64(0xFF)),
        np.uint32(piece >> np.uint64(32)),
    )
    hashes[n] = memo[place + np.uint64(1)]
    return end


@njit(cache=True, nogil=True, inline="always")
def copy_pieces(memo, entry, place, chunk, tokens, hashes, n):
    """Write the pieces of a slot, of which those that it has no room for are at `place`; return the place after."""
    two, start = np.uint64(2), chunk
    count = (memo[entry + two] >> np.uint64(16)) & np.uint64(0xFF)
    for k in range(INLINE):  # be there so many or not: it is faster than to ask
        start = copy_piece(
            memo, entry + two + two * np.uint64(k), chunk, start, tokens, hashes, n + np.uint64(k)
        )
    if count > INLINE:
        start = chunk + np.uint32((memo[entry + np.uint64(2 * INLINE)] >> np.uint64(8)) & np.uint64(0xFF))
        for k in range(n + np.uint64(INLINE), n + count):
            start = copy_piece(memo, place, chunk, start, tokens, hashes, k)
            place += two
    return n + count


@compiled
def cut_on(data, i, stop, base, classes, rules, memo, tokens, hashes, n):
    """Write the tokens from byte i on; return where it came to and the next place, and the room that it lacks."""
    one, two, eight, byte = np.uint64(1), np.uint64(2), np.uint64(8), np.uint64(0xFF)
    i, stop, n, room = np.uint64(i), np.uint64(stop), np.uint64(n), np.uint64(len(tokens))
    edge = np.uint64(max(data.size - 16, 0))
    while i < stop:
        if data[i] <= 32 and classes[data[i]] & SPACE:
            i += one
            continue
        a, key, second, length = i, np.uint64(0), np.uint64(0), np.uint64(16)
        if i < edge:
            key, second = word_at(data, i), word_at(data, i + eight)
            mask, second_mask = before_space(key), before_space(second)
            second_mask = second_mask if mask == ~np.uint64(0) else np.uint64(0)
            key, second = key & mask, second & second_mask
            length = ((mask & ONES) * ONES >> np.uint64(56)) + ((second_mask & ONES) * ONES >> np.uint64(56))
        i += length
        if length == 16 or i > stop or (i < stop and (data[i] > 32 or classes[data[i]] & SPACE == 0)):
            i = np.uint64(chunk_end(data, np.int64(a), np.int64(stop), classes))
            length = i - a
            if length == 0:
                i += np.uint64(code_at(data, np.int64(i))[1])
                continue
            key, second = word_of(data, np.int64(a), np.int64(i)), np.uint64(0)
            if length > 8:
                second = word_of(data, np.int64(a + eight), np.int64(i))
        if n + length + eight > room:
            return np.int64(a), np.int64(n), np.int64(length + eight)
        h = key * SPREAD ^ (second + (second >> np.uint64(32))) * BASE
        if length > 16 and length <= KEPT:
            for k in range(a + np.uint64(16), i, eight):
                h = ((h >> np.uint64(32)) ^ h ^ word_of(data, np.int64(k), np.int64(i))) * SPREAD
        slot = h >> MEMO_TOP
        entry, place = slot * np.uint64(SLOT), np.uint64(MEMO_SLOTS * SLOT) + slot * np.uint64(MORE)
        about = memo[entry + two]
        known = (
            memo[entry] == key and memo[entry + one] == second and (about >> np.uint64(24)) & byte == length
        )
        if known and length > 16:
            for k in range(a + np.uint64(16), i, eight):
                known &= memo[place] == word_of(data, np.int64(k), np.int64(i))
                place += one
        chunk = np.uint32(a - np.uint64(base))
        if known:
            n = copy_pieces(memo, entry, place, chunk, tokens, hashes, n)
            continue
        first, end = np.int64(n), np.int64(i)
        last = cut_anew(data, np.int64(a), end, classes, rules, hashes, first) - 1
        describe(data, base, classes, tokens, hashes, first, last)
        if length <= KEPT:
            keep(
                data, np.int64(a), end, chunk, np.int64(slot), key, second, memo, tokens, hashes, first, last
            )
        n = np.uint64(last)
    return np.int64(i), np.int64(n), 0


@njit(cache=True, nogil=True)
def cut_all(data, offsets, classes, rules, memo, tokens, hashes, ends):
    n = ends[0] = 0
    for d in range(offsets.size - 1):
        base, stop = offsets[d], offsets[d + 1]
        i, n, lacking = cut_on(data, base, stop, base, classes, rules, memo, tokens, hashes, n)
        while lacking:
            room = max(2 * len(tokens), n + lacking)
            more_tokens, more_hashes = np.empty((room, 4), np.uint32), np.empty(room, np.uint64)
            more_tokens[:n], more_hashes[:n] = tokens[:n], hashes[:n]
            tokens, hashes = more_tokens, more_hashes
            i, n, lacking = cut_on(data, i, stop, base, classes, rules, memo, tokens, hashes, n)
        ends[d + 1] = n
    return tokens, hashes


class Memory(threading.local):
    """Of each thread, a memo, and the tables by which it was made: with others, it starts anew."""

    tables: tuple[NDArray[np.uint32], NDArray[np.uint64]] | None = None

    def memo(self, classes: NDArray[np.uint32], rules: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if self.tables is None or self.tables[0] is not classes or self.tables[1] is not rules:
            room = np.zeros(MEMO + 8, np.uint64)
            first = -room.ctypes.data % 64 // 8  # a slot is a line of the processor's cache
            self.kept, self.tables = room[first : first + MEMO], (classes, rules)
        return self.kept


MEMORY = Memory()


def tokenize(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    classes: NDArray[np.uint32],
    rules: NDArray[np.uint64],
    tokens: NDArray[np.uint32],
    hashes: NDArray[np.uint64],
    ends: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Cut documents into tokens, those of document d from ends[d] on; return them, in larger arrays if need be.

    data: the documents' UTF-8 bytes, valid. offsets: (n + 1,). ends: (n + 1,), written. Bytes count from the
    beginning of the document. classes: (0x110000,) uint32. rules: (RULES,) uint64; they and the classes do not
    change as long as they are the same array.
    """
    return cut_all(data, offsets, classes, rules, MEMORY.memo(classes, rules), tokens, hashes, ends)
