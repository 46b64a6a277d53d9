# ruff: noqa: SIM109 (numba compiles comparisons, not tuples, to the fastest code)
"""How deep the elements of a page may nest, from its bytes alone. Compiled by numba.

Parsers of HTML and what walks their trees take time in proportion to size and depth, and some of them end the
process where a tree is too deep. What is measured here is never less than the depth of the tree that the HTML
standard makes of the bytes, up to a few: elements still open, and those that were not closed in their order,
which the standard may open again. Contents of scripts and comments do not count.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from textkernels.buffers import AT_ONCE
from textkernels.swar import trailing_zeros, within_64

VOID = "area base br col embed hr img input link meta param source track wbr"
CLOSED_BY_OTHERS = "body caption colgroup dd dt head html li optgroup option p tbody td tfoot th thead tr"
# What ends a drawing or a formula around it, as the standard has it.
BREAKOUT = (
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var font"
)
FOREIGN = "svg math"
INTEGRATION = "desc foreignobject mi mo mn ms mtext annotation-xml title"
ROOTS = "html body"  # of which a second one adds its attributes to the first
ANNOTATIONS = "rb rp rt rtc"  # closed by the end of their ruby, and by nothing outside of one
STRUCTURE = "pre table code tt kbd samp math mjx-container"
RAW = "script style textarea title xmp iframe noembed noframes"
IS_VOID, IS_BREAKOUT, IS_FOREIGN, IS_INTEGRATION, IS_RAW, IS_ROOT, IS_OPTION, IS_STRUCTURE = (
    1,
    2,
    4,
    8,
    16,
    32,
    64,
    128,
)
BYTES_OF_TAG = 50  # that cost as much as a tag, where texts are looked at once for each element around them
NAMES = 1 << 12  # places of a table of names, which is nearly empty
ROOM = 4096  # more than any limit on the depth
TAB, LINE_FEED, FORM_FEED, RETURN, SPACE = 9, 10, 12, 13, 32
LESS, MORE, SLASH, EQUALS, QUOTE, APOSTROPHE, DASH, EXCLAMATION, QUESTION = 60, 62, 47, 61, 34, 39, 45, 33, 63
OFFSET, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


def name_hash(name: str) -> int:
    """Return what the kernel makes of a name."""
    value = int(OFFSET)
    for byte in name.encode():
        value = ((value ^ byte) * int(PRIME)) & ((1 << 64) - 1)
    return value


def named_kinds() -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Return a table of hashes and of what is known of each name; no two names share a place."""
    hashes, kinds = np.zeros(NAMES, np.uint64), np.zeros(NAMES, np.uint8)
    for names, kind in (
        (VOID, IS_VOID),
        (CLOSED_BY_OTHERS, IS_VOID),
        (BREAKOUT, IS_BREAKOUT),
        (FOREIGN, IS_FOREIGN),
        (INTEGRATION, IS_INTEGRATION),
        (RAW, IS_RAW),
        (ROOTS, IS_ROOT),
        ("option", IS_OPTION),
        (STRUCTURE, IS_STRUCTURE),
    ):
        for name in names.split():
            value = name_hash(name)
            place = value % NAMES
            while hashes[place] not in (0, value):
                place = (place + 1) % NAMES
            hashes[place] = value
            kinds[place] |= kind
    return hashes, kinds


HASHES, KINDS = named_kinds()
RB, RP, RT, RTC = (np.uint64(name_hash(name)) for name in ANNOTATIONS.split())


@njit(cache=True, nogil=True, inline="always")
def is_space(byte):
    return byte == SPACE or byte == LINE_FEED or byte == TAB or byte == RETURN or byte == FORM_FEED


@njit(cache=True, nogil=True, inline="always")
def is_letter(byte):
    return 97 <= (byte | 32) <= 122


@njit(cache=True, nogil=True)
def read_name(data, i):
    """Return the hash of the name of a tag, in lower case, and the place after it."""
    value = OFFSET
    while i < len(data):
        byte = data[i]
        if is_space(byte) or byte == SLASH or byte == MORE:
            break
        if 65 <= byte <= 90:
            byte |= 32
        value = (value ^ np.uint64(byte)) * PRIME
        i += 1
    return value, i


@njit(cache=True, nogil=True)
def kind_of(value, hashes, kinds):
    place = value % np.uint64(NAMES)
    while hashes[place] != 0:
        if hashes[place] == value:
            return kinds[place]
        place = (place + np.uint64(1)) % np.uint64(NAMES)
    return np.uint8(0)


@njit(cache=True, nogil=True)
def read_attributes(data, i):
    """Return how many attributes a tag has, whether it ends with a slash, and the place after it."""
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
        i += 1  # an equals sign that comes first belongs to the name
        while i < len(data) and not (
            is_space(data[i]) or data[i] == SLASH or data[i] == MORE or data[i] == EQUALS
        ):
            i += 1
        i = skip_value(data, i)
    return attributes, False, i


@njit(cache=True, nogil=True)
def skip_value(data, i):
    """Return the place after the value of an attribute whose name ends here; the same where it has none."""
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
    """Return the place after what begins with `<!` or `<?` at i."""
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
def like_64(data, i, byte):
    """Say which of 64 bytes are a certain one: a bit for each."""
    return within_64(data, i, np.uint8(byte), np.uint8(byte))


@njit(cache=True, nogil=True)
def find(data, i, byte):
    """Return the place of the next byte like this, from i on; the end, or i beyond it, where there is none."""
    while i + AT_ONCE <= len(data):
        found = like_64(data, i, byte)
        if found:
            return i + np.int64(trailing_zeros(found))
        i += AT_ONCE
    while i < len(data) and data[i] != byte:
        i += 1
    return i


@njit(cache=True, nogil=True)
def skip_raw(data, i, name):
    """Return the place of the end tag of an element whose content is no markup."""
    while True:
        i = find(data, i, LESS)
        if i + 1 >= len(data):
            return len(data)
        if data[i + 1] == SLASH and read_name(data, i + 2)[0] == name:
            return i
        i += 1


@njit(cache=True, nogil=True)
def close(stack, depth, name):
    """Return the depth after an end tag, and how many elements were closed that were not in their turn."""
    out_of_turn = 0
    for k in range(depth - 1, -1, -1):
        one = stack[k]
        if one == name:
            return k, out_of_turn
        out_of_turn += not (one == RT or one == RP or one == RB or one == RTC)
    return depth, 0


@njit(cache=True, nogil=True)
def end_of_tag(data, i, stack, depth):
    """Read an end tag at i; return the place after it, the depth then, and what was closed out of turn."""
    if i + 2 < len(data) and not is_letter(data[i + 2]):
        return find(data, i, MORE), depth, 0
    name, i = read_name(data, i + 2)
    _, _, i = read_attributes(data, i)
    depth, out_of_turn = close(stack, depth, name)
    return i, depth, out_of_turn


@njit(cache=True, nogil=True)
def may_be_formula(data, begin, end):
    """Say whether a tag has `math` in it, or a word that ends with `tex`."""
    k = begin
    while k < end - 3:
        if k + AT_ONCE + 3 <= len(data):
            found = like_64(data, k, 109) & like_64(data, k + 1, 97) & like_64(data, k + 2, 116)
            found |= like_64(data, k, 116) & like_64(data, k + 1, 101) & like_64(data, k + 2, 120)
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
def nesting(data, hashes, kinds, limit):
    """Return how deep elements nest, or limit + 1 where it is deeper, and five more measures of a page.

    They are the tags, the most attributes of one, the work, the options, and whether there is an element of
    STRUCTURE, or an image or script that may be a formula. The work is the sum over bytes, and over tags, which
    count as BYTES_OF_TAG, of how deep they stand.
    data: the bytes of a page, uint8. hashes, kinds: HASHES and KINDS. limit: below ROOM.
    """
    stack, is_foreign = np.zeros(ROOM, np.uint64), np.zeros(ROOM, np.bool_)
    depth, disorder, roots, deepest, most, of_roots, work, i = 0, 0, 0, 0, 0, 0, 0, 0
    tags, options, seen = 0, 0, 0
    while True:
        begin = i
        i = find(data, i, LESS)
        work += (depth + disorder + 1) * (i - begin + BYTES_OF_TAG)
        tags += 1
        if i + 1 >= len(data):
            return deepest, tags, max(most, of_roots), work, options, seen & IS_STRUCTURE > 0
        byte = data[i + 1]
        if byte == EXCLAMATION or byte == QUESTION:
            i = skip_comment(data, i)
        elif byte == SLASH:
            i, depth, out_of_turn = end_of_tag(data, i, stack, depth)
            disorder += out_of_turn
        elif is_letter(byte):
            name, begin = read_name(data, i + 1)
            attributes, is_closed, i = read_attributes(data, begin)
            kind, above = kind_of(name, hashes, kinds), depth > 0 and is_foreign[depth - 1]
            most = max(most, attributes)
            seen |= kind
            if kind & (IS_VOID | IS_RAW) and may_be_formula(data, begin, min(i, len(data))):
                seen |= IS_STRUCTURE
            options += kind & IS_OPTION > 0
            of_roots += attributes * (kind & IS_ROOT > 0)
            if kind & IS_BREAKOUT and above:
                is_foreign[depth - 1] = above = False
            if kind & IS_RAW and roots == 0:
                i = skip_raw(data, i, name)
            elif not (kind & IS_VOID or (is_closed and (above or kind & IS_FOREIGN))):
                roots += kind & IS_FOREIGN > 0
                stack[depth] = name
                is_foreign[depth] = (above or kind & IS_FOREIGN > 0) and not kind & IS_INTEGRATION
                depth += 1
                deepest = max(deepest, depth + disorder)
                if deepest > limit:
                    return limit + 1, tags, most, work, options, False
        else:
            i += 1
