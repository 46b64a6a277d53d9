# ruff: noqa: SIM109 (numba compiles comparisons, not tuples, to the fastest code)
"""Measure how deep the elements of a page nest, from its bytes alone. Compiled by numba.

Parsers of HTML, and functions that walk their trees, take time in proportion to size and depth, and some of them
end the process if a tree is too deep. The depth measured here is never less than the depth of the tree that the
HTML standard builds, except by a few levels: it counts the open elements, and the elements that were closed out of
order, which the standard may open again. Contents of scripts and comments do not count.

The same pass finds text nodes of one character, which resiliparse 2.0.1 drops (docs/design.md).
"""

import numpy as np

from zyda_flows.textkernels.buffers import AT_ONCE
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.markup_names import (
    AMPERSAND,
    APOSTROPHE,
    BR,
    BRACKET,
    BUTTON,
    DASH,
    EQUALS,
    EXCLAMATION,
    FONT,
    HAS_BRACKET,
    HAS_NUMBERS,
    IS_BREAKOUT,
    IS_FOREIGN,
    IS_FORMATTING,
    IS_GLYPH,
    IS_IN_SENTENCE,
    IS_INLINE,
    IS_ITEM,
    IS_KEPT,
    IS_MATH_TEXT,
    IS_OPTION,
    IS_RAW,
    IS_ROOT,
    IS_STRUCTURE,
    IS_SVG_TEXT,
    IS_VOID,
    KEPT,
    LABEL,
    LESS,
    LINK,
    MORE,
    NO_BREAK_SPACE,
    NUMBER_SIGN,
    OFFSET,
    PILCROW,
    QUESTION,
    QUOTE,
    RB,
    RP,
    RT,
    RTC,
    SCRIPT,
    SELECT,
    SEMICOLON,
    SLASH,
    SPACE,
    SVG_NAME,
    TIME,
    UNKNOWN,
    P,
    extend_name,
    is_letter,
    is_space,
    kind_of,
    read_name,
)
from zyda_flows.textkernels.markup_sentences import is_in_sentence
from zyda_flows.textkernels.swar import trailing_zeros, within_64

HTML, SVG, MATH = 0, 1, 2  # namespaces
BYTES_OF_TAG = 50  # bytes that cost as much as a tag; texts are read once for each element around them
ATTRIBUTE_PAIR = 4  # work for two attributes of a tag, which are compared with each other
ROOM = 4096  # more than any limit of the depth
NO_PLACES = np.zeros(0, np.int64)


@njit(cache=True, nogil=True)
def read_attributes(data, i):
    """Return the number of attributes of a tag, whether it ends with a slash, and the position after it."""
    attributes, is_closed = 0, False
    while i < len(data):
        byte = data[i]
        if byte == MORE:
            return attributes, is_closed, i + 1
        is_closed = byte == SLASH
        if is_space(byte) or is_closed:
            i += 1
            continue
        attributes += 1
        i += 1  # a leading equals sign belongs to the name
        while i < len(data) and not (
            is_space(data[i]) or data[i] == SLASH or data[i] == MORE or data[i] == EQUALS
        ):
            i += 1
        i = skip_value(data, i)
    return attributes, False, i


@njit(cache=True, nogil=True)
def skip_value(data, i):
    """Return the position after the value of an attribute whose name ends at i; return i if it has no value."""
    k = i
    while k < len(data) and is_space(data[k]):
        k += 1
    if k >= len(data) or data[k] != EQUALS:
        return i
    k += 1
    while k < len(data) and is_space(data[k]):
        k += 1
    if k < len(data) and (data[k] == QUOTE or data[k] == APOSTROPHE):
        return find(data, k + 1, data[k]) + 1
    while k < len(data) and not is_space(data[k]) and data[k] != MORE:
        k += 1
    return k


@njit(cache=True, nogil=True)
def skip_comment(data, i):
    """Return the position after a comment or declaration that begins with `<!` or `<?` at i."""
    if i + 3 < len(data) and data[i + 1] == EXCLAMATION and data[i + 2] == DASH and data[i + 3] == DASH:
        k = i + 2
        while k + 2 < len(data):
            if data[k] == DASH and data[k + 1] == DASH:
                if data[k + 2] == MORE:
                    return k + 3
                if data[k + 2] == EXCLAMATION and k + 3 < len(data) and data[k + 3] == MORE:
                    return k + 4
            k += 1
        return len(data)
    return find(data, i, MORE) + 1


@njit(cache=True, nogil=True, inline="always")
def equal_64(data, i, byte):
    """Return a bit for each of 64 bytes: whether it equals `byte`."""
    return within_64(data, i, np.uint8(byte), np.uint8(byte))


@njit(cache=True, nogil=True)
def find(data, i, byte):
    """Return the position of the next `byte` from i on; if there is none, the end of the data, or i beyond it."""
    while i + AT_ONCE <= len(data):
        found = equal_64(data, i, byte)
        if found:
            return i + np.int64(trailing_zeros(found))
        i += AT_ONCE
    while i < len(data) and data[i] != byte:
        i += 1
    return i


@njit(cache=True, nogil=True)
def skip_raw(data, i, name):
    """Return the position of the end tag of an element whose content is no markup."""
    while True:
        i = find(data, i, LESS)
        if i + 1 >= len(data):
            return len(data)
        if data[i + 1] == SLASH and read_name(data, i + 2)[0] == name:
            return i
        i += 1


@njit(cache=True, nogil=True)
def close(stack, depth, name):
    """Return the depth after an end tag, and the number of elements that were closed out of order."""
    out_of_turn = 0
    for k in range(depth - 1, -1, -1):
        open_name = stack[k]
        if open_name == name:
            return k, out_of_turn
        out_of_turn += not (open_name == RT or open_name == RP or open_name == RB or open_name == RTC)
    return depth, 0


@njit(cache=True, nogil=True)
def end_of_tag(data, i, stack, depth):
    """Read an end tag at i; return its name, the position after it, the new depth and the elements out of order."""
    if i + 2 < len(data) and not is_letter(data[i + 2]):
        return np.uint64(0), find(data, i, MORE), depth, 0
    name, i = read_name(data, i + 2)
    _, _, i = read_attributes(data, i)
    depth, out_of_turn = close(stack, depth, name)
    return name, i, depth, out_of_turn


@njit(cache=True, nogil=True)
def may_be_formula(data, begin, end):
    """Return whether a tag contains `math`, or a word that ends with `tex`."""
    k = begin
    while k < end - 3:
        if k + AT_ONCE + 3 <= len(data):
            found = equal_64(data, k, 109) & equal_64(data, k + 1, 97) & equal_64(data, k + 2, 116)
            found |= equal_64(data, k, 116) & equal_64(data, k + 1, 101) & equal_64(data, k + 2, 120)
            k += np.int64(trailing_zeros(found))
            if found == 0 or k >= end - 3:
                continue
        if data[k] == 109 and data[k + 1] == 97 and data[k + 2] == 116 and data[k + 3] == 104:
            return True
        if data[k] == 116 and data[k + 1] == 101 and data[k + 2] == 120 and not is_letter(data[k + 3]):
            return True
        k += 1
    return False


@njit(cache=True, nogil=True)
def may_have_number(data, i, end):
    """Return whether an attribute of a tag begins as start, reversed or value do. i: after the name of the tag."""
    while i < end - 3:
        a, b, c = data[i] | 32, data[i + 1] | 32, data[i + 2] | 32
        if (a == 115 and b == 116 and c == 97) or (b == 101 and a == 114 and c == 118):
            return True
        if a == 118 and b == 97 and c == 108:
            return True
        if is_space(data[i]) or data[i] == SLASH:
            i += 1
            continue
        while i < end and not (is_space(data[i]) or data[i] == SLASH or data[i] == EQUALS):
            i += 1
        i = skip_value(data, i)
    return False


@njit(cache=True, nogil=True)
def read_reference(data, i, end, hashes, kinds):
    """Return the code point of a character reference at i, and the position after it.

    The code point is KEPT for NAMES_KEPT, and UNKNOWN for other names and for numbers that the standard replaces.
    """
    k, name = i + 1, extend_name(OFFSET, AMPERSAND)
    if k >= end or data[k] != NUMBER_SIGN:
        while k < end and (is_letter(data[k]) or 48 <= data[k] <= 57):
            name = extend_name(name, data[k])
            k += 1
        value = KEPT if kind_of(name, hashes, kinds) & IS_KEPT else UNKNOWN
    else:
        k += 1
        base, value = 10, 0
        if k < end and data[k] | 32 == 120:
            base, k = 16, k + 1
        while k < end and (48 <= data[k] <= 57 or (base == 16 and 97 <= data[k] | 32 <= 102)):
            digit = np.int64(data[k]) - 48 if data[k] <= 57 else np.int64(data[k] | 32) - 87
            value = min(value * base + digit, 1 << 21)
            k += 1
        if value == 0 or 0x80 <= value < NO_BREAK_SPACE or 0xD800 <= value < 0xE000 or value > 0x10FFFF:
            value = UNKNOWN
    return value, k + (k < end and data[k] == SEMICOLON)


@njit(cache=True, nogil=True)
def references(data, hashes, kinds):
    """Return the code points below 2**16 that a page refers to by number: (2**16,) bool."""
    named, i = np.zeros(1 << 16, np.bool_), find(data, 0, AMPERSAND)
    while i + 1 < len(data):
        if data[i + 1] == NUMBER_SIGN:
            value, _ = read_reference(data, i, len(data), hashes, kinds)
            if 0 <= value < len(named):
                named[value] = True
        i = find(data, i + 1, AMPERSAND)
    return named


@njit(cache=True, nogil=True, inline="always")
def is_dropped_alone(value, is_link):
    """Return whether resiliparse 2.0.1 drops a character that is a whole text node, but should keep it.

    It rightly drops characters for private use, which are pictures, and a pilcrow that is the text of a link.
    """
    if value == PILCROW:
        return not is_link
    return value == UNKNOWN or (0x800 <= value <= 0xFFFF and not 0xE000 <= value <= 0xF8FF)


@njit(cache=True, nogil=True)
def lone_character(data, begin, end, is_link, hashes, kinds):
    """Return the position after the only character of a text, if resiliparse 2.0.1 drops it, else -1."""
    k, place = begin, -1
    if begin + AT_ONCE <= len(data):  # many texts are white space of an indentation
        shown = within_64(data, begin, np.uint8(SPACE + 1), np.uint8(255))
        k += np.int64(trailing_zeros(shown)) if shown else AT_ONCE
    while k < end:
        byte = np.int64(data[k])
        if is_space(byte) or byte == 11 or byte == 0:
            k += 1
            continue
        if byte == AMPERSAND:
            value, k = read_reference(data, k, end, hashes, kinds)
        elif byte & 0xF0 == 0xE0 and k + 3 <= end:
            value = (byte & 15) << 12 | np.int64(data[k + 1] & 63) << 6 | np.int64(data[k + 2] & 63)
            k += 3
        elif byte == 0xC2 and k + 2 <= end:
            value = np.int64(data[k + 1])
            k += 2
        else:
            return -1
        if 9 <= value <= 13 or value == SPACE:
            continue
        if place >= 0 or not is_dropped_alone(value, is_link):
            return -1
        place = k
    return place


@njit(cache=True, nogil=True)
def begins_cdata(data, i):
    """Return whether `<![CDATA[` begins at i, by its third and its last byte."""
    return i + 8 < len(data) and data[i + 2] == BRACKET and data[i + 8] == BRACKET


@njit(cache=True, nogil=True)
def end_of_cdata(data, i):
    while i + 2 < len(data) and not (data[i] == 93 and data[i + 1] == 93 and data[i + 2] == MORE):
        i = find(data, i + 1, 93)
    return i


@njit(cache=True, nogil=True)
def space_within(kind, space):
    """Return the namespace of the children of an element, by its kind and its namespace."""
    if (space == SVG and kind & IS_SVG_TEXT) or (space == MATH and kind & IS_MATH_TEXT):
        return HTML
    return space


@njit(cache=True, nogil=True)
def space_of(name, kind, around):
    """Return the namespace of a new element, by its name and the namespace of its parent."""
    if around != HTML:
        return around
    if kind & IS_FOREIGN:
        return SVG if name == SVG_NAME else MATH
    return MATH if kind & IS_GLYPH else HTML


@njit(cache=True, nogil=True, inline="always")
def add_place(places, count, place):
    """Write a position, if there is room, and return the new count."""
    if count < len(places):
        places[count] = place
    return count + 1


@njit(cache=True, nogil=True)
def nesting(data, hashes, kinds, limit, places):
    """Return the depth of the elements of a page, or limit + 1 if it exceeds the limit, and five other measures.

    These are the number of tags, including formatting tags that each block may open again; the work; the number of
    options; the kinds of its elements, combined; and the number of positions found. In the kinds, IS_STRUCTURE
    includes images and scripts that may be formulas, HAS_BRACKET marks a text that begins with `[`, and HAS_NUMBERS
    marks lists and items that may have a number. The work is the sum of the depths of all bytes, and of all tags,
    which count as BYTES_OF_TAG, and of the squares of the attributes of each tag, times ATTRIBUTE_PAIR. data: the
    bytes of a page, uint8. hashes, kinds: HASHES and KINDS. limit: below ROOM. places: int64, filled, as far as
    there is room, with the positions after characters that resiliparse drops because they are a whole text node,
    and with ~position for the start and end tags of elements of IN_SENTENCES that are part of a sentence.
    """
    stack, spaces, within = np.zeros(ROOM, np.uint64), np.zeros(ROOM, np.int8), np.zeros(ROOM, np.int8)
    words = np.zeros(ROOM, np.int64)  # for each depth, the position of a start tag of IN_SENTENCES
    depth, disorder, roots, deepest, root_attributes, work, i = 0, 0, 0, 0, 0, 0, 0
    tags, options, seen, found, frozen, formatting = 0, 0, 0, 0, 0, 0
    is_certain, has_select = True, False  # the namespace is known; a list of options was opened
    while True:
        begin = i
        i = find(data, i, LESS)
        work += (depth + disorder + 1) * (i - begin + BYTES_OF_TAG)
        tags += 1
        is_link = (depth > 0 and stack[depth - 1] == LINK) or (depth > 1 and stack[depth - 2] == LINK)
        place = lone_character(data, begin, min(i, len(data)), is_link, hashes, kinds)
        if begin < i < len(data) and (
            data[begin] == BRACKET or data[begin + (data[begin] == SPACE)] == BRACKET
        ):
            seen |= HAS_BRACKET
        if place >= 0:
            found = add_place(places, found, place)
        if i + 1 >= len(data):
            work += ATTRIBUTE_PAIR * root_attributes * root_attributes
            return deepest, tags, work, options, seen, found
        byte, begin = data[i + 1], i
        if byte == EXCLAMATION or byte == QUESTION:
            end = end_of_cdata(data, i) if roots and byte == EXCLAMATION and begins_cdata(data, i) else 0
            if end and is_certain and depth > 0 and spaces[depth - 1] != HTML:
                i = end
            else:  # a comment, or text, where an apparent end tag is not a tag
                frozen = max(frozen, end)
                i = i + 2 if i < frozen else skip_comment(data, i)
        elif byte == SLASH:
            before = depth
            name, i, depth, out_of_turn = end_of_tag(data, i, stack, depth)
            kind = kind_of(name, hashes, kinds)
            tags += 0 if kind & IS_INLINE else formatting
            formatting -= depth < before and kind & IS_FORMATTING > 0
            if begin < frozen:
                depth, out_of_turn = before, 0
            elif (name == TIME or name == BUTTON or name == LABEL) and depth < before:
                if is_in_sentence(data, words[depth], begin, i, name, hashes, kinds):
                    found = add_place(places, add_place(places, found, ~words[depth]), ~begin)
            elif roots and (name == P or name == BR):  # these end a drawing too
                is_certain = False
            elif roots and is_certain and depth < before and kind & IS_FOREIGN:
                roots -= depth == 0 or within[depth - 1] == HTML
            disorder += out_of_turn
        elif is_letter(byte):
            name, end = read_name(data, i + 1)
            attributes, is_closed, i = read_attributes(data, end)
            kind, around = kind_of(name, hashes, kinds), within[depth - 1] if depth > 0 else HTML
            work += ATTRIBUTE_PAIR * attributes * attributes
            seen |= kind
            tags += 0 if kind & IS_INLINE else formatting
            formatting += kind & IS_FORMATTING > 0
            if kind & (IS_VOID | IS_RAW) and may_be_formula(data, end, min(i, len(data))):
                seen |= IS_STRUCTURE
            if kind & IS_ITEM and may_have_number(data, end, min(i, len(data))):
                seen |= HAS_NUMBERS
            options += kind & IS_OPTION > 0
            root_attributes += attributes * (kind & IS_ROOT > 0)
            has_select |= name == SELECT
            is_certain &= not roots or (around != HTML and not kind & IS_BREAKOUT and name != FONT)
            if kind & IS_BREAKOUT and around != HTML:
                within[depth - 1] = around = HTML
            if kind & IS_RAW and not roots and (name == SCRIPT or not has_select):
                i = skip_raw(data, i, name)
            elif not ((kind & IS_VOID and around == HTML) or (is_closed and (around or kind & IS_FOREIGN))):
                space = space_of(name, kind, around)
                roots += kind & IS_FOREIGN > 0 and around == HTML
                stack[depth], spaces[depth], within[depth] = name, space, space_within(kind, space)
                if kind & IS_IN_SENTENCE:
                    words[depth] = begin
                depth += 1
                deepest = max(deepest, depth + disorder)
                if deepest > limit:
                    return limit + 1, tags, work, options, 0, 0
        else:
            i += 1
        if begin < frozen < i:  # within a tag that may be text
            i, frozen = frozen, i
