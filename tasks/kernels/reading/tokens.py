"""Cutting English text into tokens: words, and the punctuation around and within them. Compiled by numba.

White space cuts a text into chunks. Of a chunk, prefixes and suffixes come off one by one until an exception (a
fixed string with pieces of its own) or nothing of the kind is left; what stays is an exception, an address of the
web, or is cut at its infixes. These are the rules of spaCy's English tokenizer; what each character and string is,
is read from tables that `tasks.texts.english` makes.

A token is a row of `tokens`: START and END as bytes, its CHARACTERS and its MARKS; `hashes` has a polynomial in
its bytes, modulo 2**64.
"""

import numpy as np
from numba import njit

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
START, END, CHARACTERS, MARKS = range(4)
# While exceptions are made whole, bits of the marks: the token is taken, and how many more the exception has.
TAKEN, CHOSEN = np.uint32(1 << 31), np.uint32(1 << 26)
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
DOT, APOSTROPHE, PLUS, MINUS, AT, COLON, DOLLAR = 46, 39, 43, 45, 64, 58, 36
RIGHT_QUOTE, ELLIPSIS, EN_DASH, EM_DASH = 0x2019, 0x2026, 0x2013, 0x2014


# Counting the references to each array that a function is given takes longer than most of these functions.
without_counts = njit(cache=True, nogil=True, _nrt=False)


# As in words.py, once more: what numba has compiled for this file does not notice a change in another.
@njit(cache=True, nogil=True, inline="always")
def code_at(data, i):
    """Return the code point at byte i of valid UTF-8, and its size in bytes."""
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
def code_before(data, a, i):
    """Return the code point that ends before byte i and where it begins; 0 and `a` if none stands there."""
    if i <= a:
        return np.uint32(0), a
    p = i - 1
    while data[p] & 0xC0 == 0x80:
        p -= 1
    return code_at(data, p)[0], p


@njit(cache=True, nogil=True, inline="always")
def code_or_none(data, i, b):
    """Return the code point at byte i, 0 beyond the end."""
    return code_at(data, i)[0] if i < b else np.uint32(0)


@njit(cache=True, nogil=True, inline="always")
def is_digit(code):
    return (code >= 48) & (code <= 57)


@without_counts
def hash_of(data, a, b):
    h = np.uint64(0)
    for i in range(a, b):
        h = h * BASE + np.uint64(data[i] + np.uint64(1))
    return h


@njit(cache=True, nogil=True, inline="always")
def look_up(h, rules, table):
    """Return the slot of a hash in an open-addressing table, -1 if it is not there."""
    slot = np.int64((h * SPREAD) >> TOP)
    while rules[table + slot] != 0:
        if rules[table + slot] == h:
            return slot
        slot = (slot + 1) & (SLOTS - 1)
    return -1


@njit(cache=True, nogil=True, inline="always")
def exception(data, a, b, rules):
    """Return the slot of the exception that stands in the bytes from a to b, or -1."""
    if b - a > LONGEST or (rules[LENGTHS + data[a]] >> np.uint64(b - a)) & np.uint64(1) == 0:
        return -1
    return look_up(hash_of(data, a, b), rules, KEYS)


@without_counts
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


@without_counts
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


@without_counts
def unit_size(data, a, b, rules):
    """Return how many bytes a unit of measurement or a currency takes at the end, after a digit."""
    i = b - 1
    while i >= a and b - i <= UNIT + 1:
        if is_digit(data[i]):
            found = i + 1 < b and look_up(hash_of(data, i + 1, b), rules, UNITS) >= 0
            return b - i - 1 if found else 0
        i -= 1
    return 0


@without_counts
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


@without_counts
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


@without_counts
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


@without_counts
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


@without_counts
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


@without_counts
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


@without_counts
def is_host(data, i, b, classes):
    return is_domain(data, i, b, classes) or is_address(data, i, b, classes)


@without_counts
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


@without_counts
def put(data, a, b, base, classes, tokens, hashes, n):
    """Write the token in the bytes from a to b to place n, and return the next place."""
    h, any_of, all_of, characters, i = np.uint64(0), np.uint32(0), np.uint32(0xFFFFFFFF), 0, a
    while i < b:
        code, size = code_at(data, i)
        of_code = classes[code]
        any_of |= of_code
        all_of &= of_code
        characters += 1
        for _ in range(size):
            h = h * BASE + np.uint64(data[i] + np.uint64(1))
            i += 1
    return put_as(a - base, b - base, characters, marks_of(any_of, all_of, characters), h, tokens, hashes, n)


@njit(cache=True, nogil=True, inline="always")
def marks_of(any_of, all_of, characters):
    """Return what a token is: ALPHA if it has a letter, SYMBOL or PUNCTUATION if it is all of it, PERIOD."""
    marks = any_of & ALPHA | all_of & (SYMBOL | PUNCTUATION)
    return marks | all_of & PERIOD if characters == 1 else marks


@njit(cache=True, nogil=True, inline="always")
def put_as(start, end, characters, marks, h, tokens, hashes, n):
    tokens[n, START], tokens[n, END], tokens[n, CHARACTERS], tokens[n, MARKS] = start, end, characters, marks
    hashes[n] = h
    return n + 1


@without_counts
def put_exception(data, a, base, slot, classes, rules, tokens, hashes, n):
    cuts, start = CUTS + slot * PIECES, a
    for k in range(1, np.int64(rules[cuts]) + 1):
        end = a + np.int64(rules[cuts + k])
        n = put(data, start, end, base, classes, tokens, hashes, n)
        start = end
    return n


@without_counts
def put_between_infixes(data, a, b, base, classes, tokens, hashes, n):
    start, i, before = a, a, np.uint32(0)
    while i < b:
        code, size = code_at(data, i)
        infix = 0
        if classes[code] & BREAK:
            infix = infix_size(data, i, b, code, size, before, classes)
            if infix and i > a:
                if i > start:
                    n = put(data, start, i, base, classes, tokens, hashes, n)
                n = put(data, i, i + infix, base, classes, tokens, hashes, n)
                start = i + infix
        i += max(infix, size)
        before = code
    return put(data, start, b, base, classes, tokens, hashes, n) if start < b else n


@without_counts
def put_middle(data, a, b, base, slot, classes, rules, tokens, hashes, n):
    """Write what stays of a chunk without its prefixes and suffixes: an exception in a slot, or something else."""
    if slot >= 0:
        return put_exception(data, a, base, slot, classes, rules, tokens, hashes, n)
    breaks, dots = np.uint32(0), False
    for i in range(a, b):
        breaks |= BREAK if data[i] >= 0x80 else classes[data[i]] & BREAK
        dots |= data[i] == DOT
    if breaks == 0 or (dots and is_url(data, a, b, classes)):
        return put(data, a, b, base, classes, tokens, hashes, n)
    return put_between_infixes(data, a, b, base, classes, tokens, hashes, n)


@njit(cache=True, nogil=True, inline="always")
def is_inner(data, i, classes):
    """Say whether byte i is a character of ASCII that is no affix by itself."""
    return data[i] < 0x80 and classes[data[i]] & BREAK == 0


@without_counts
def cut_chunk(data, a, b, base, has_numbers, classes, rules, tokens, hashes, n):
    """Write the tokens of a chunk to place n and after, of which there are as many as it has bytes.

    Its suffixes wait at the end of `tokens` until what stands before them is written.
    """
    last, waiting, slot = len(tokens) - 1, 0, -1
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
                n = put(data, a, a + prefix, base, classes, tokens, hashes, n)
                a += prefix
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
            n = put(data, a, a + prefix, base, classes, tokens, hashes, n)
            a += prefix
        if suffix:
            tokens[last - waiting, START], tokens[last - waiting, END] = b - suffix - base, b - base
            waiting += 1
            b -= suffix
        if slot >= 0:
            break
    if a < b:
        n = put_middle(data, a, b, base, slot, classes, rules, tokens, hashes, n)
    for k in range(waiting - 1, -1, -1):
        start, end = np.int64(tokens[last - k, START]), np.int64(tokens[last - k, END])
        n = put(data, base + start, base + end, base, classes, tokens, hashes, n)
    return n


@without_counts
def cut_exception(data, base, i, j, rules, tokens):
    """Return the slot of the exception that the tokens from i to j are pieces of, as the rules cut it, or -1."""
    a, b = base + np.int64(tokens[i, START]), base + np.int64(tokens[j, END])
    if b - a > LONGEST or (rules[CUT_LENGTHS + data[a]] >> np.uint64(b - a)) & np.uint64(1) == 0:
        return -1
    slot = look_up(hash_of(data, a, b), rules, KEYS)
    joins = JOINS + slot * JOINED
    if slot < 0 or np.int64(rules[joins]) != j - i + 1:
        return -1
    for k in range(j - i):
        if base + np.int64(tokens[i + k, END]) != a + np.int64(rules[joins + k + 1]):
            return -1
    return slot


@without_counts
def has_cut_exceptions(data, base, first, n, rules, tokens):
    for i in range(first, n - 1):
        start = np.int64(tokens[i, START])
        if rules[CUT_LENGTHS + data[base + start]] == 0:
            continue
        for j in range(i + 1, min(n, i + JOINED - 1)):
            if np.int64(tokens[j, END]) - start > LONGEST:
                break
            if cut_exception(data, base, i, j, rules, tokens) >= 0:
                return True
    return False


@without_counts
def join_exceptions(data, base, first, n, classes, rules, tokens, hashes):
    """Make exceptions whole again that the rules have cut in a chunk; return the place after it.

    Those of the most pieces go first, and of these the first. Tokens that may belong to one of them, be it whole
    again or not, belong to no other.
    """
    for more in range(JOINED - 2, 0, -1):
        for i in range(first, n - more):
            if cut_exception(data, base, i, i + more, rules, tokens) >= 0:
                if (tokens[i, MARKS] | tokens[i + more, MARKS]) & TAKEN == 0:
                    tokens[i, MARKS] |= np.uint32(more) * CHOSEN
                for k in range(i, i + more + 1):
                    tokens[k, MARKS] |= TAKEN
    i = out = first
    while i < n:
        more = np.int64((tokens[i, MARKS] & ~TAKEN) // CHOSEN)
        if more:
            slot = cut_exception(data, base, i, i + more, rules, tokens)
            start = base + np.int64(tokens[i, START])
            out = put_exception(data, start, base, slot, classes, rules, tokens, hashes, out)
        else:
            for column in range(MARKS + 1):
                tokens[out, column] = tokens[i, column]
            tokens[out, MARKS] &= CHOSEN - np.uint32(1)
            hashes[out] = hashes[i]
            out += 1
        i += more + 1
    return out


@without_counts
def cut_on(data, i, stop, base, classes, rules, tokens, hashes, n):
    """Write the tokens from byte i on; return where it came to and the next place, and the room that it lacks."""
    while i < stop:
        a, h, characters = i, np.uint64(0), 0
        any_of, all_of = np.uint32(0), np.uint32(0xFFFFFFFF)
        while i < stop:
            first = data[i]
            if first < 0x80:
                of_code = classes[first]
                if of_code & SPACE:
                    break
                h = h * BASE + np.uint64(first + np.uint64(1))
                i += 1
            else:
                code, size = code_at(data, i)
                of_code = classes[code]
                if of_code & SPACE:
                    break
                for _ in range(size):
                    h = h * BASE + np.uint64(data[i] + np.uint64(1))
                    i += 1
            any_of |= of_code
            all_of &= of_code
            characters += 1
        if i == a:
            i += 1 if data[i] < 0x80 else code_at(data, i)[1]
            continue
        if n + i - a + 2 > len(tokens):
            return a, n, i - a + 2
        is_plain = any_of & BREAK == 0 and (any_of & NUMBER == 0 or all_of & NUMBER != 0)
        if is_plain and i - a <= LONGEST and (rules[LENGTHS + data[a]] >> np.uint64(i - a)) & np.uint64(1):
            is_plain = look_up(h, rules, KEYS) < 0
        if is_plain:
            marks = marks_of(any_of, all_of, characters)
            n = put_as(a - base, i - base, characters, marks, h, tokens, hashes, n)
            continue
        start = n
        n = cut_chunk(data, a, i, base, any_of & NUMBER != 0, classes, rules, tokens, hashes, n)
        if n > start + 1 and has_cut_exceptions(data, base, start, n, rules, tokens):
            n = join_exceptions(data, base, start, n, classes, rules, tokens, hashes)
    return i, n, 0


@njit(cache=True, nogil=True)
def tokenize(data, offsets, classes, rules, tokens, hashes, ends):
    """Cut documents into tokens, those of document d from ends[d] on; return them, in larger arrays if need be.

    data: the documents' UTF-8 bytes, valid. offsets: (n + 1,). ends: (n + 1,), written. Bytes count from the
    beginning of the document. classes: (0x110000,) uint32. rules: (RULES,) uint64.
    """
    n = ends[0] = 0
    for d in range(offsets.size - 1):
        base, stop = offsets[d], offsets[d + 1]
        i, n, lacking = cut_on(data, base, stop, base, classes, rules, tokens, hashes, n)
        while lacking:
            room = max(2 * len(tokens), n + lacking)
            more_tokens, more_hashes = np.empty((room, 4), np.uint32), np.empty(room, np.uint64)
            more_tokens[:n], more_hashes[:n] = tokens[:n], hashes[:n]
            tokens, hashes = more_tokens, more_hashes
            i, n, lacking = cut_on(data, i, stop, base, classes, rules, tokens, hashes, n)
        ends[d + 1] = n
    return tokens, hashes
