r"""The encodings of LaTeX files: UTF-8, or as `\usepackage[...]{inputenc}`, `\inputencoding` and CJK declare."""

import codecs
import re

# The options of inputenc and its companions (inputenx, cyinpenc, CJK) that Python knows by another name.
CODECS = {
    "ansinew": "cp1252", "applemac": "mac-roman", "ascii": "cp1252", "bg5": "big5", "cp1048": "kz1048",
    "cp437de": "cp437",
    "cp866av": "cp866", "cp866mav": "cp866", "cp866nav": "cp866", "cp866tat": "cp866", "decmulti": "cp1252",
    "euc": "euc-jp", "gb": "gb18030", "gbk": "gb18030", "gb2312": "gb18030", "isoir111": "koi8-r",
    "jis": "shift-jis", "koi8-ru": "koi8-u", "ks": "cp949", "latin1": "cp1252", "latin2": "iso8859-2",
    "latin3": "iso8859-3", "latin4": "iso8859-4", "latin5": "iso8859-9", "latin9": "iso8859-15",
    "latin10": "iso8859-16", "mac": "mac-roman", "macce": "mac-latin2", "maccyr": "mac-cyrillic",
    "macukr": "mac-cyrillic", "pt154": "ptcp154", "sjis": "cp932", "uhc": "cp949", "utf8x": "utf-8",
}  # fmt: skip
PACKAGE = re.compile(
    r"\\(?:usepackage|RequirePackage)\s*+\[([^\[\]]*+)\]\s*+\{[^{}]*?\b(?:inputen[cx]|cyinpenc)\b[^{}]*+\}"
)
CLASS = re.compile(r"\\document(?:class|style)\s*+\[([^\[\]]*+)\]")
HAS_PACKAGE = re.compile(r"\\usepackage\s*+\{[^{}]*?\binputen[cx]\b")
SWITCH = re.compile(
    rb"\\inputencoding\s*+\{\s*([\w-]+)\s*\}|\\begin\s*+\{CJK\*?\}\s*(?:\[[^\[\]]*+\]\s*)?\{([\w-]+)\}"
    rb"|\\(end)\s*+\{CJK\*?\}"
)
FALLBACK = "cp1252"
LATIN = re.compile(r"^(?:iso-?)?8859-?(?=[0-9]+$)")
NOT_OF_FILES = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
UTF8 = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
ASCII = re.compile(rb"[\x00-\x7f]+")


def codec_of(name: str) -> str | None:
    """Return Python's name of an option of inputenc, or None where it is no encoding."""
    name = name.strip().lower()
    name = CODECS.get(name, name)
    try:
        found = codecs.lookup(LATIN.sub("iso8859-", name))
        "".encode(found.name)  # raises LookupError for a codec that is not of texts
    except (LookupError, ValueError):
        return None
    return None if found.name in NOT_OF_FILES else found.name


def declared_encoding(preamble: str) -> str:
    """Return the encoding that a preamble without comments declares, or else the one of old files."""
    options = [option for found in PACKAGE.finditer(preamble) for option in found[1].split(",")]
    if HAS_PACKAGE.search(preamble):
        options = [option for found in CLASS.finditer(preamble) for option in found[1].split(",")] + options
    known = [codec for option in options if (codec := codec_of(option))]
    return known[-1] if known and known[-1] != "utf-8" else FALLBACK


def text_in_utf8(content: bytes) -> str | None:
    """Return the text of a file in UTF-8, or None where it is in another encoding."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def text_of(content: bytes, declared: str = FALLBACK) -> str:
    """Return the text of a file: in UTF-8 where nearly all of it is, or else in the declared encodings."""
    if (text := text_in_utf8(content)) is not None:
        return text
    is_damaged = len(b"".join(UTF8.findall(content))) >= 0.9 * len(ASCII.sub(b"", content))
    parts = [(content, "utf-8-sig")] if is_damaged else parts_of(content, declared)
    text = "".join(part.decode(codec, "latin-1-bytes") for part, codec in parts)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def parts_of(content: bytes, declared: str) -> list[tuple[bytes, str]]:
    """Return the parts of a file with their encodings."""
    parts, place, codec, outer = list[tuple[bytes, str]](), 0, declared, declared
    for found in SWITCH.finditer(content):
        parts.append((content[place : found.end()], codec))
        place = found.end()
        if found[1]:
            outer = codec = codec_of(found[1].decode()) or outer
        else:
            codec = outer if found[3] else codec_of(found[2].decode()) or outer
    return [*parts, (content[place:], codec)]


def latin_1_bytes(error: UnicodeError) -> tuple[str, int]:
    """Return the Latin-1 characters of bytes that an encoding lacks."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("latin-1-bytes", latin_1_bytes)
