"""Find elements that are words of a sentence, although resiliparse drops them everywhere. Compiled by numba.

These are dates, buttons and labels. Outside of sentences they belong to posts and forms, and are rightly dropped.
"""

from numpy import uint64

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.markup_names import (
    DASH,
    IS_INLINE,
    IS_PROSE,
    LESS,
    MORE,
    OFFSET,
    SLASH,
    TIME,
    extend_name,
    is_letter,
    kind_of,
)

LONGEST = 300  # bytes of such an element, without its end tag
WINDOW = 200  # bytes that are read before and after an element


@njit(cache=True, nogil=True)
def is_in_sentence(data, start, end, after, name, hashes, kinds):
    """Return whether an inline element is part of a sentence.

    A label or button must have words on both sides; a date, on one side, within an element of prose.
    start, end: the positions of its tags. after: the position after its end tag.
    """
    if end - start > LONGEST or has_block(data, start, end, hashes, kinds):
        return False
    is_followed = has_words(data, after, min(after + WINDOW, len(data)), hashes, kinds)
    if not is_followed and name != TIME:
        return False
    is_preceded, around = words_before(data, start, hashes, kinds)
    return (is_preceded and is_followed) or (
        name == TIME and (is_preceded or is_followed) and around & IS_PROSE > 0
    )


@njit(cache=True, nogil=True)
def tag_at(data, i, end):
    """Return the hash of the name of the tag that begins at i and ends before end, and the position after the tag.

    The position is -1 if there is no such tag. A `<` that is text begins no tag.
    """
    i += 1
    i += i < end and data[i] == SLASH
    value = OFFSET
    if i >= end or not is_letter(data[i]):
        return value, -1
    while i < end and (is_letter(data[i]) or 48 <= data[i] <= 57 or data[i] == DASH):
        value = extend_name(value, data[i] | 32 if is_letter(data[i]) else data[i])
        i += 1
    while i < end and data[i] != MORE and data[i] != LESS:
        i += 1
    return value, i + 1 if i < end and data[i] == MORE else -1


@njit(cache=True, nogil=True)
def has_block(data, i, end, hashes, kinds):
    """Return whether there is a tag that is not inline."""
    while i < end:
        after = -1
        if data[i] == LESS:
            name, after = tag_at(data, i, end)
            if after >= 0 and not kind_of(name, hashes, kinds) & IS_INLINE:
                return True
        i = after if after >= 0 else i + 1
    return False


@njit(cache=True, nogil=True)
def has_words(data, i, end, hashes, kinds):
    """Return whether a letter or digit comes before the next tag that is not inline."""
    while i < end:
        after = -1
        if data[i] == LESS:
            name, after = tag_at(data, i, end)
            if after >= 0 and not kind_of(name, hashes, kinds) & IS_INLINE:
                return False
        elif begins_word(data, i, end):
            return True
        i = after if after >= 0 else i + 1
    return False


@njit(cache=True, nogil=True)
def words_before(data, place, hashes, kinds):
    """Return whether words come between the last tag that is not inline and `place`, and that tag's kind."""
    first, i = max(0, place - WINDOW), place - 1
    while i >= first:
        if data[i] == LESS:
            name, after = tag_at(data, i, place)
            if after >= 0 and not kind_of(name, hashes, kinds) & IS_INLINE:
                return has_words(data, after, place, hashes, kinds), kind_of(name, hashes, kinds)
        i -= 1
    return has_words(data, first, place, hashes, kinds), kind_of(uint64(0), hashes, kinds)


@njit(cache=True, nogil=True)
def begins_word(data, i, end):
    """Return whether a letter or digit begins at i; outside of ASCII, blocks of Unicode decide.

    Not letters: Latin-1's signs, general punctuation, symbols up to U+2BFF, CJK punctuation and full-width signs.
    """
    byte = data[i]
    if byte < 0x80:
        return is_letter(byte) or 48 <= byte <= 57
    if byte < 0xC3 or i + 2 >= end:
        return 0xC3 <= byte < 0xE0
    if byte == 0xE2:
        return data[i + 1] >= 0xB0
    if byte == 0xE3:
        return data[i + 1] != 0x80
    if byte == 0xEF and data[i + 1] == 0xBC:
        return 0x90 <= data[i + 2] <= 0x99 or 0xA1 <= data[i + 2] <= 0xBA
    return not (byte == 0xF0 and data[i + 1] == 0x9F) and not (byte == 0xEF and data[i + 1] == 0xBF)
