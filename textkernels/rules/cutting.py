"""Cut a chunk of English text into tokens: words, and the punctuation around and within them.

A chunk has no white space. Prefixes and suffixes are cut off in turn until an exception (a fixed string with its
own pieces) remains or no affix is left. The rest is an exception, or a URL, or is cut at its infixes. These are the
rules of spaCy's English tokenizer; the tables of characters and strings are made by `textkernels.texts.english`.
Called by tokens.py.
"""

import numpy as np

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import (
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
    SUFFIX,
    SYMBOL,
    UPPER,
    code_at,
)  # fmt: skip

START, END, CHARACTERS, MARKS = range(4)
# Bits of a piece's end while exceptions are joined: it is taken, and the number of further pieces of the exception.
TAKEN, CHOSEN = np.uint64(1 << 63), np.uint64(58)
PLACE = np.uint64((1 << 58) - 1)
BASE = np.uint64(0xB492B66FBE98F273)
SPREAD = np.uint64(0x9E3779B97F4A7C15)
SLOTS = 4096  # of the tables of exceptions and of units
TOP = np.uint64(52)  # the upper bits of a hash select the slot
STOP_SLOTS, STOP_TOP = 256, np.uint64(56)  # of stop words, one in each
STOP = np.uint32(0xF)  # the bits of a token's MARKS with the number of a stop word, from 1 on
PIECES, JOINED = 4, 16  # room for the ends of an exception's pieces, as listed and as cut by the rules
# Offsets in `rules`: for each first byte, bits for the lengths of all exceptions, and of exceptions that the rules
# would cut; the hashes of exceptions and of units; for each slot the number of pieces and the end of each, in both
# ways; the hashes of stop words, and their numbers.
LENGTHS, CUT_LENGTHS, KEYS = 0, 256, 512
UNITS = KEYS + SLOTS
CUTS = UNITS + SLOTS
JOINS = CUTS + SLOTS * PIECES
STOP_WORDS = JOINS + SLOTS * JOINED
STOP_NUMBERS = STOP_WORDS + STOP_SLOTS
RULES = STOP_NUMBERS + STOP_SLOTS
LONGEST = 40  # bytes of an exception
UNIT = 10  # bytes of the longest unit of measurement
DOT, APOSTROPHE, PLUS, MINUS, AT, COLON, DOLLAR = 46, 39, 43, 45, 64, 58, 36
RIGHT_QUOTE, ELLIPSIS, EN_DASH, EM_DASH = 0x2019, 0x2026, 0x2013, 0x2014

compiled = njit(cache=True, nogil=True)


@njit(cache=True, nogil=True, inline="always")
def code_before(data, a, i):
    """Return the code point that ends before byte i and its first byte; 0 and `a` if there is none."""
    if i <= a:
        return np.uint32(0), a
    p = i - 1
    while data[p] & 0xC0 == 0x80:
        p -= 1
    return code_at(data, p)[0], p


@compiled
def code_or_none(data, i, b):
    """Return the code point at byte i, or 0 beyond the end."""
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
    """Return the slot of a hash in an open-addressing table, or -1 if it is missing."""
    slot = np.int64((h * SPREAD) >> TOP)
    while rules[table + slot] != 0:
        if rules[table + slot] == h:
            return slot
        slot = (slot + 1) & (SLOTS - 1)
    return -1


@compiled
def exception(data, a, b, rules):
    """Return the slot of the exception that equals the bytes from a to b, or -1."""
    if b - a > LONGEST or (rules[LENGTHS + data[a]] >> np.uint64(b - a)) & np.uint64(1) == 0:
        return -1
    return look_up(hash_of(data, a, b), rules, KEYS)


@compiled
def prefix_size(data, a, b, classes):
    """Return the number of bytes of a prefix at a, or 0."""
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
    """Return the number of bytes of dots that are cut off at the end; p: the last dot."""
    q = p
    while q > a and data[q - 1] == DOT:
        q -= 1
    if p > q:
        return b - q
    code, q = code_before(data, a, p)
    bits = classes[code]
    if bits & BEFORE_DOT:
        return 1
    if bits & UPPER:
        before, _ = code_before(data, a, q)
        is_degree = before == 0xB0 and (code == 67 or code == 70 or code == 75)  # of C, F, K
        return 1 if is_degree or classes[before] & UPPER else 0
    return 0


@compiled
def unit_size(data, a, b, rules):
    """Return the number of bytes of a unit of measurement or a currency at the end, after a digit."""
    i = b - 1
    while i >= a and b - i <= UNIT + 1:
        if is_digit(data[i]):
            found = i + 1 < b and look_up(hash_of(data, i + 1, b), rules, UNITS) >= 0
            return b - i - 1 if found else 0
        i -= 1
    return 0


@compiled
def suffix_size(data, a, b, classes, rules):
    """Return the number of bytes of the longest suffix before b, or 0."""
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
    """Return the number of bytes of a hyphen at p, of one to three characters and before a letter."""
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
    """Return the number of bytes of an infix at p, where `code` comes after `before`, or 0."""
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
    """Return whether the name of a host may end at i: at the end, or before a port or a path."""
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
    """Return whether the name of a host begins at i: labels with dots after them, then lower-case letters."""
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
    """Return whether a public IPv4 address begins at i."""
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
    """Return whether the bytes from a to b are a URL: optional scheme and user, a host, optional port and path."""
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
    """Return whether byte i is an ASCII character that is in no affix."""
    return data[i] < 0x80 and classes[data[i]] & BREAK == 0


@compiled
def cut_exception(a, slot, rules, cuts, n):
    """Write the ends of the pieces of an exception that begins at a."""
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
    """Cut the rest of a chunk without its prefixes and suffixes, which is no exception."""
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
    """Write the ends of the pieces of a chunk from index n on, at most as many as it has bytes.

    The ends of its suffixes are kept at the end of `cuts` until the pieces before them are written.
    """
    last, waiting, slot = len(cuts) - 1, 0, -1
    while a < b:
        slot = exception(data, a, b, rules)
        if slot >= 0:
            break
        prefix = suffix = 0
        # Letters and digits are in no prefix except A$, C$ and US$, and in no suffix except 's and units.
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
    """Return the slot of the exception between two cuts, if the rules cut it in this way, or -1."""
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
    """Join the pieces of exceptions that the rules have cut, between the cuts from `first` to n; return the new n.

    Exceptions of most pieces are joined first, and of these the first. Pieces that may belong to one of them,
    whether it is joined or not, belong to no other exception.
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
def cut_new_chunk(data, a, b, classes, rules, cuts, n):
    """Write the begin of a chunk and the ends of its pieces; return the index after them."""
    any_bits, all_bits, i = np.uint32(0), np.uint32(0xFFFFFFFF), a
    while i < b:
        code, size = code_at(data, i)
        any_bits |= classes[code]
        all_bits &= classes[code]
        i += size
    first = n
    cuts[n] = a
    n += 1
    is_plain = any_bits & BREAK == 0 and (any_bits & NUMBER == 0 or all_bits & NUMBER != 0)
    if is_plain and exception(data, a, b, rules) < 0:
        cuts[n] = b
        return n + 1
    n = cut_chunk(data, a, b, any_bits & NUMBER != 0, classes, rules, cuts, n)
    if n > first + 2 and has_cut_exceptions(data, first, n, rules, cuts):
        n = join_exceptions(data, first, n, rules, cuts)
    return n


@njit(cache=True, nogil=True, inline="always")
def stop_word(h, rules):
    """Return the number of the stop word with a hash, or 0."""
    slot = (h * SPREAD) >> STOP_TOP
    return np.uint32(rules[STOP_NUMBERS + slot]) if rules[STOP_WORDS + slot] == h else np.uint32(0)


@compiled
def describe(data, base, classes, rules, tokens, hashes, n, last):
    """Write the tokens from n to `last`: `hashes` has their ends, and before these the begin of the first."""
    i = np.int64(hashes[n])
    while n < last:
        end, start = np.int64(hashes[n + 1]), i
        h, any_bits, all_bits, characters = np.uint64(0), np.uint32(0), np.uint32(0xFFFFFFFF), 0
        while i < end:
            code, size = code_at(data, i)
            any_bits |= classes[code]
            all_bits &= classes[code]
            characters += 1
            for _ in range(size):
                h = h * BASE + np.uint64(data[i] + np.uint64(1))
                i += 1
        marks = any_bits & ALPHA | all_bits & (SYMBOL | PUNCTUATION) | stop_word(h, rules)
        tokens[n, START], tokens[n, END], tokens[n, CHARACTERS] = start - base, end - base, characters
        tokens[n, MARKS] = marks | all_bits & PERIOD if characters == 1 else marks
        hashes[n] = h
        n += 1
