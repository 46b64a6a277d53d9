"""Decode bytes by the tables of the WHATWG Encoding Standard.

Python's codecs decode most sequences. This module has the sequences that a codec rejects, or decodes to other
characters than the standard. All sequences of up to three bytes of all encodings, and 50,400 of four bytes of
gb18030, were compared. One sequence still differs: 8135F437 of gb18030, a code point for private use.
"""

import codecs
import re
from functools import cache

CODECS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "iso8859-11": "cp874",
}
# The last three of four bytes of gb18030, of which the end of the page may cut off some.
FOUR_BYTE_TAIL = re.compile(rb"[0-9](?:\Z|[\x81-\xfe](?:\Z|[0-9]))")
ESCAPE = re.compile(rb"(\x1b(?:\([BJI]|\$[@B])?)")
MULTIBYTE = frozenset({"cp932", "cp949", "gb18030", "big5hkscs", "euc_jp"})
SINGLE_BYTE_CORRECTIONS = {"koi8-u": {0xAE: "ў", 0xBE: "Ў"}, "cp1255": {0xCA: "\u05ba"}}
# Characters that a codec returns, and the characters of the standard for the same bytes.
CORRECTIONS = {
    "cp932": dict.fromkeys("\uf8f0\uf8f1\uf8f2\uf8f3", "\ufffd"),
    "gb18030": {
        "\ue5e5": "\u3000",
        **dict(
            zip(
                "\ue78d\ue78e\ue78f\ue790\ue791\ue792\ue793\ue794\ue795\ue796",
                "︐︒︑︓︔︕︖︗︘︙",
                strict=True,
            )
        ),
        **dict(
            zip("\ue7c7\ue81e\ue826\ue82b\ue82c\ue832\ue843\ue854\ue864", "ḿ龴龵龶龷龸龹龺龻", strict=True)
        ),
    },
    "big5hkscs": dict(zip("•､‾∼♁☉¥¢£", "‧﹑¯～⊕⊙￥￠￡", strict=True)),  # noqa: RUF001
    "euc_jp": dict(zip("〜‖−¢£¬", "～∥－￠￡￢", strict=True)),  # noqa: RUF001
}
# Two sequences of Big5 that its codec decodes to the characters of other sequences.
BIG5_SLASHES = {b"\xa2A": "∕", b"\xa2B": "﹨"}  # noqa: RUF001
BIG5_PAIR = re.compile(rb"[\x81-\xfe][@-~\x80-\xff]")
# Sequences of Big5 that its codec rejects: of each run the first sequence in hexadecimal, then the characters.
BIG5_RUNS = (
    "877a㡵𡵓𣚞𦀡㻬 "
    "87a1𥣞㫵竼龗𤅡𨤍𣇪𠪊𣉞䌊蒄龖鐯䤰蘓墖靊鈘秐稲晠権袝瑌篅枂稬剏遆㓦珄𥶹瓆鿇 "
    "87c3垳䤯呌䄱𣚎堘穲𧭥讏䚮𦺈䆁𥶙箮𢒼鿈𢓁𢓉𢓌鿉蔄𣖻䂴鿊䓡𪷿拁灮鿋 "
    "8e69箸 8e6f簆 8e7e糎 8eab緒 8eb4縝 8ecd者 8ed0耨 8f57菁 8f69蒨 8f6e萏 8fcb覦覩 "
    "8ffe起 906d都 907a銹 90dc靜 90f1響 91bf鼖 9244蔃 92af兙兛兝兞 92c8鍮 92d1瑹 9447浧 "
    "94ca禛 95d9邗 9644靝 96ed瀞 96fc嬨 9b76爁 9b78矗 9b7b纇 9bc6駖 9bde釔 9bec惞 "
    "9bf6澶 9c42輶 9c53侻 9c62營 9c68鄄 9c6b鷰 9c77菏 9cbc尐秣 9cd0婧 9d57輋 9d5a筑 "
    "9dc4拐 9ea9恢 9eef痹 9efd汊 9f60鬮 9f66鼗 9fcb僭 9fd8弌 a063蠏 a077拎 a0d5瑨 "
    "a0df煢 a0e4牐 a3c0␀␁␂␃␄␅␆␇␈␉␊␋␌␍␎␏␐␑␒␓␔␕␖␗␘␙␚␛␜␝␞␟␡€ c6cf廴 c6d3无 c6d5癶 "
    "c6d7隶 c6de〃仝 fa5f倩 fa66偽 fabd包 fac5卄 fad5卿 fb48嘅 fbb8婷 fbf3幵 fbf9廐 "
    "fc4f彘 fc6c悤 fcb9撐 fce2晴 fcf1杞 fdb7沜渝 fdbb港 fdf1煮 fe52猪 fe6f瑜 feaa瓩 "
    "fedd砉 "
)
BIG5 = {
    (int(run[:4], 16) + k).to_bytes(2, "big"): character
    for run in BIG5_RUNS.split()
    for k, character in enumerate(run[4:])
}
# Rows and cells of ISO-2022-JP as the bytes of EUC-JP.
JIS = bytes(b | 128 if 0x21 <= b <= 0x7E else 255 for b in range(256))
ASCII = dict.fromkeys((14, 15, *range(128, 256)), "�")
KATAKANA = {b: chr(0xFF40 + b) if 0x21 <= b <= 0x5F else "\ufffd" for b in range(256)}
# The character sets of ISO-2022-JP with one byte for each character, by their escape sequences.
SINGLE_BYTE_SETS = {b"(B": ASCII, b"(J": {**ASCII, 0x5C: "¥", 0x7E: "‾"}, b"(I": KATAKANA}
USER_DEFINED = {b: 0xF700 + b for b in range(128, 256)}


def text_in(content: bytes, encoding: str) -> str:
    """Return the text of bytes, with U+FFFD for invalid sequences.

    encoding: a name that resiliparse's `map_encoding_to_html5` returns, "x-user-defined" or "replacement".
    """
    # Browsers do not decode the encodings named "replacement", because text in them may hide markup.
    if encoding == "replacement":
        return "\ufffd" if content else ""
    if encoding == "x-user-defined":
        return content.decode("latin-1").translate(USER_DEFINED)
    if encoding == "iso2022_jp":
        return text_in_iso_2022_jp(content)
    codec = CODECS.get(encoding, encoding)
    if codec.startswith("utf"):
        return content.decode(codec, "replace")
    if codec == "big5hkscs" and any(pair in content for pair in BIG5_SLASHES):
        return text_with_slashes(content)
    if codec == "euc_jp":  # its codec decodes this sequence to "~" of ASCII
        content = content.replace(b"\x8f\xa2\xb7", b"\xa1\xc1")
    return text_by_codec(content, codec)


def text_by_codec(content: bytes, codec: str) -> str:
    """Decode bytes with one of Python's codecs and correct its deviations from the standard."""
    if codec not in MULTIBYTE:
        return codecs.charmap_decode(content, "strict", single_byte_table(codec))[0]
    text = content.decode(codec, HANDLER)
    for character, correction in CORRECTIONS.get(codec, {}).items():
        if character in text:
            text = text.replace(character, correction)
    return text


@cache
def single_byte_table(codec: str) -> str:
    """Return the characters of all 256 bytes; bytes below A0 that the codec lacks are control characters."""
    table = [bytes([b]).decode(codec, "replace") for b in range(256)]
    corrected = {b: chr(b) if c == "\ufffd" and b < 0xA0 else c for b, c in enumerate(table)}
    return "".join({**corrected, **SINGLE_BYTE_CORRECTIONS.get(codec, {})}.values())


def text_with_slashes(content: bytes) -> str:
    """Decode Big5 that may contain the sequences of BIG5_SLASHES."""
    parts, place = list[str](), 0
    for pair in BIG5_PAIR.finditer(content):
        if character := BIG5_SLASHES.get(pair[0]):
            parts += [text_by_codec(content[place : pair.start()], "big5hkscs"), character]
            place = pair.end()
    return "".join([*parts, text_by_codec(content[place:], "big5hkscs")])


def text_in_iso_2022_jp(content: bytes) -> str:
    """Decode ISO-2022-JP, in which an escape sequence selects the character set of the bytes after it."""
    parts, state, is_after_escape = list[str](), b"(B", False
    for k, part in enumerate(ESCAPE.split(content)):
        if k % 2 == 0:
            table = SINGLE_BYTE_SETS.get(state)
            parts.append(
                text_in(part.translate(JIS), "euc_jp")
                if table is None
                else part.decode("latin-1").translate(table)
            )
            is_after_escape = is_after_escape and not part
            continue
        if len(part) == 1 or is_after_escape:
            parts.append("\ufffd")
        state, is_after_escape = part[1:] or state, len(part) > 1
    return "".join(parts)


def replace_invalid(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of bytes that a codec rejects, and the position after them."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, k, codec = error.object, error.start, error.encoding
    if codec == "gb18030" and data[k] == 0x80:
        return "€", k + 1
    pair = data[k : k + 2]
    if codec == "big5hkscs" and pair in BIG5:
        return BIG5[pair], k + 2
    if codec == "euc_jp" and (character := character_of_jis(pair)):
        return character, k + 2
    return "\ufffd", k + invalid_length(data, k, codec)


def character_of_jis(pair: bytes) -> str:
    """Decode two bytes of EUC-JP by means of Shift_JIS, which has the same table; return "" for invalid bytes."""
    if len(pair) < 2 or not (0xA1 <= pair[0] <= 0xFE and 0xA1 <= pair[1] <= 0xFE):
        return ""
    lead, trail = divmod((pair[0] - 0xA1) * 94 + pair[1] - 0xA1, 188)
    shifted = bytes([lead + (0x81 if lead < 0x1F else 0xC1), trail + (0x40 if trail < 0x3F else 0x41)])
    try:
        return shifted.decode("cp932")
    except UnicodeDecodeError:
        return ""


def invalid_length(data: bytes, k: int, codec: str) -> int:
    """Return how many bytes from k on are replaced by one U+FFFD.

    An ASCII character after an invalid lead byte is not among them: it is decoded.
    """
    lead, rest = data[k], data[k + 1 : k + 4]
    if codec == "euc_jp" and lead == 0x8F and b"\xa1" <= rest[:1] <= b"\xfe":
        return 2 + (rest[1:2] >= b"\x80")
    if not is_lead(lead, codec):
        return 1
    if codec == "gb18030" and rest[:1].isdigit():
        return 1 + len(rest) if FOUR_BYTE_TAIL.match(rest) else 1
    return 1 + (rest[:1] >= b"\x80")


def is_lead(byte: int, codec: str) -> bool:
    """Return whether a byte is the first of several bytes of a character."""
    if codec == "cp932":
        return 0x81 <= byte <= 0x9F or 0xE0 <= byte <= 0xFC
    if codec == "euc_jp":
        return byte in (0x8E, 0x8F) or 0xA1 <= byte <= 0xFE
    return 0x81 <= byte <= 0xFE


HANDLER = "zyda-encoding-standard"
codecs.register_error(HANDLER, replace_invalid)
