# ruff: noqa: SIM109 (numba compiles comparisons, not tuples, to the fastest code)
"""Names of tags and of characters in the bytes of a page, and the kinds of each name. Compiled by numba."""

from html.entities import html5

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit

VOID = "area base br col embed hr img input link meta param source track wbr"
CLOSED_BY_OTHERS = "body caption colgroup dd dt head html li optgroup option p tbody td tfoot th thead tr"
# Elements that end a drawing or a formula around them, by the HTML standard.
BREAKOUT = (
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu "
    "meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
FOREIGN = "svg math"
IN_SVG, IN_MATH = "desc foreignobject title", "mi mo mn ms mtext"  # their content is HTML again
GLYPHS = "mglyph malignmark"  # they are MathML even within IN_MATH
ROOTS = "html body"  # a second tag of this name adds its attributes to the first element
ANNOTATIONS = "rb rp rt rtc"  # closed by the end of their ruby, and by nothing outside of a ruby
STRUCTURE = "pre table code tt kbd samp math mjx-container"
RAW = "script style textarea title xmp iframe noembed noframes"
IN_SENTENCES = "time button label"  # resiliparse drops these everywhere
INLINE = (
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i img ins kbd label mark q rb rp rt ruby "
    "nobr output s samp small span strike strong sub sup time tt u var wbr"
)
# Elements that the parser opens again in each block after the block in which they were open; of `a` it keeps one.
FORMATTING = "b big code em font i s small strike strong tt u"
PROSE = "p li dd dt td th blockquote figcaption caption h1 h2 h3 h4 h5 h6 br"
IS_VOID, IS_BREAKOUT, IS_FOREIGN, IS_RAW, IS_ROOT, IS_OPTION, IS_STRUCTURE, IS_IN_SENTENCE = (
    1 << k for k in range(8)
)
IS_SVG_TEXT, IS_MATH_TEXT, IS_GLYPH, IS_ITEM, HAS_BRACKET, HAS_NUMBERS = (1 << k for k in range(8, 14))
IS_INLINE, IS_KEPT, IS_PROSE, IS_FORMATTING = (1 << k for k in range(14, 18))
NAMES = 1 << 12  # slots of the table of names, which is nearly empty
TAB, LINE_FEED, FORM_FEED, RETURN, SPACE = 9, 10, 12, 13, 32
LESS, MORE, SLASH, EQUALS, QUOTE, APOSTROPHE, DASH, EXCLAMATION, QUESTION = 60, 62, 47, 61, 34, 39, 45, 33, 63
AMPERSAND, NUMBER_SIGN, SEMICOLON, BRACKET = 38, 35, 59, 91
NO_BREAK_SPACE, PILCROW, UNKNOWN, KEPT = 0xA0, 0xB6, -1, 1 << 21
# Names of characters, such as `&gt`, that resiliparse keeps if they are a whole text node.
NAMES_KEPT = " ".join(
    f"&{name[:-1]}"
    for name, text in html5.items()
    if name[-1] == ";" and " " < text < "\u0800" and text != "\xb6"
)
OFFSET, PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a


def name_hash(name: str) -> int:
    """Return the hash that the kernel computes for a name."""
    value = int(OFFSET)
    for byte in name.encode():
        value = ((value ^ byte) * int(PRIME)) & ((1 << 64) - 1)
    return value


def named_kinds() -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return a hash table of names: hashes, and the kinds of each name as bits."""
    hashes, kinds = np.zeros(NAMES, np.uint64), np.zeros(NAMES, np.uint32)
    for names, kind in (
        (VOID, IS_VOID),
        (CLOSED_BY_OTHERS, IS_VOID),
        (BREAKOUT, IS_BREAKOUT),
        (FOREIGN, IS_FOREIGN),
        (IN_SVG, IS_SVG_TEXT),
        (IN_MATH, IS_MATH_TEXT),
        (GLYPHS, IS_GLYPH),
        (RAW, IS_RAW),
        (ROOTS, IS_ROOT),
        ("option", IS_OPTION),
        (STRUCTURE, IS_STRUCTURE),
        (IN_SENTENCES, IS_IN_SENTENCE),
        ("ol li", IS_ITEM),
        (INLINE, IS_INLINE),
        (NAMES_KEPT, IS_KEPT),
        (PROSE, IS_PROSE),
        (FORMATTING, IS_FORMATTING),
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
LINK, SCRIPT, SELECT, SVG_NAME, FONT, P, BR = (
    np.uint64(name_hash(name)) for name in ["a", "script", "select", "svg", "font", "p", "br"]
)
TIME, BUTTON, LABEL = (np.uint64(name_hash(name)) for name in IN_SENTENCES.split())


@njit(cache=True, nogil=True, inline="always")
def is_space(byte):
    return byte == SPACE or byte == LINE_FEED or byte == TAB or byte == RETURN or byte == FORM_FEED


@njit(cache=True, nogil=True, inline="always")
def is_letter(byte):
    return 97 <= (byte | 32) <= 122


@njit(cache=True, nogil=True, inline="always")
def extend_name(value, byte):
    return (value ^ np.uint64(byte)) * PRIME


@njit(cache=True, nogil=True)
def read_name(data, i):
    """Return the hash of the name of a tag, in lower case, and the position after it."""
    value = OFFSET
    while i < len(data):
        byte = data[i]
        if is_space(byte) or byte == SLASH or byte == MORE:
            break
        if 65 <= byte <= 90:
            byte |= 32
        value = extend_name(value, byte)
        i += 1
    return value, i


@njit(cache=True, nogil=True)
def kind_of(value, hashes, kinds):
    place = value % np.uint64(NAMES)
    while hashes[place] != 0:
        if hashes[place] == value:
            return kinds[place]
        place = (place + np.uint64(1)) % np.uint64(NAMES)
    return np.uint32(0)
