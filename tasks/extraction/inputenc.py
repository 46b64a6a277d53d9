r"""Decode LaTeX files: in UTF-8, or as `\usepackage[...]{inputenc}`, `\inputencoding` and CJK declare."""

import codecs
import re

# Options of inputenc and of similar packages (inputenx, cyinpenc, CJK), and the names of their codecs in Python.
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


def codec_named(name: str) -> str | None:
    """Return the name of Python's codec for an option of inputenc, or None if the option is not an encoding."""
    name = name.strip().lower()
    name = CODECS.get(name, name)
    try:
        codec = codecs.lookup(LATIN.sub("iso8859-", name))
        "".encode(codec.name)  # raises LookupError for codecs that do not decode bytes to text
    except (LookupError, ValueError):
        return None
    return None if codec.name in NOT_OF_FILES else codec.name


def declared_encoding(preamble: str) -> str:
    """Return the encoding that a preamble without comments declares, or else FALLBACK."""
    options = options_in(PACKAGE, preamble)
    if HAS_PACKAGE.search(preamble):
        options = options_in(CLASS, preamble) + options
    known = [codec for option in options if (codec := codec_named(option))]
    return known[-1] if known and known[-1] != "utf-8" else FALLBACK


def options_in(command: re.Pattern[str], preamble: str) -> list[str]:
    """Return the options of all commands that a pattern matches."""
    return [option for match in command.finditer(preamble) for option in match[1].split(",")]


def text_in_utf8(content: bytes) -> str | None:
    """Return the text of a file in UTF-8, or None if it is in another encoding."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def text_of(content: bytes, declared: str = FALLBACK) -> str:
    """Return the text of a file.

    If at least 90 % of its bytes that are not ASCII are valid UTF-8, it is decoded as UTF-8.
    Otherwise it is decoded in its declared encodings. declared: the encoding at the beginning of the file.
    """
    if (text := text_in_utf8(content)) is not None:
        return text
    is_mostly_utf8 = len(b"".join(UTF8.findall(content))) >= 0.9 * len(ASCII.sub(b"", content))
    parts = [(content, "utf-8-sig")] if is_mostly_utf8 else encoded_parts(content, declared)
    text = "".join(part.decode(codec, "latin-1-bytes") for part, codec in parts)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def encoded_parts(content: bytes, declared: str) -> list[tuple[bytes, str]]:
    r"""Return the parts of a file with their encodings, which `\inputencoding` and CJK environments change."""
    parts, place, codec, outer = list[tuple[bytes, str]](), 0, declared, declared
    for match in SWITCH.finditer(content):
        parts.append((content[place : match.end()], codec))
        place = match.end()
        if match[1]:
            outer = codec = codec_named(match[1].decode()) or outer
        else:
            codec = outer if match[3] else codec_named(match[2].decode()) or outer
    return [*parts, (content[place:], codec)]


def latin_1_bytes(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are invalid in an encoding as Latin-1."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode("latin-1"), error.end


codecs.register_error("latin-1-bytes", latin_1_bytes)
