"""Name the kind of an e-print without LaTeX, from the content of its files."""

import re
from collections.abc import Iterable, Mapping

BODY = re.compile(r"\\begin\s*+\{document\}")
PLAIN = re.compile(
    r"\\(?:bye|magnification|nopagenumbers|headline|footline|beginsection"
    r"|input\s++(?:amstex|harvmac|phyzzx|mtexsis|lanlmac|eplain))\b|\\end(?![A-Za-z@]|\s*\{)"
)
IGNORED = re.compile(rb"\A\s*%\s*auto-ignore\b")
WITHDRAWN = re.compile(
    rb"\A[\s\x00]*(?:%\s*auto-ignore.*|.{0,2000}withdrawn.{0,2000})?\Z", re.IGNORECASE | re.DOTALL
)
BEGINNINGS = {
    "PDF": rb"[\s\x00]*+%PDF-",
    "PostScript": rb"(?:\x1b%-12345X.{0,500})?[\s\x00\x04]*+%!(?!\s*T[eE]X)|\xc5\xd0\xd3\xc6",
    "HTML": rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^<>]*>\s*+)?(?:<!--[^<>]*-->\s*+)?<(?:!doctype\s+html|html)\b",
    "docx": rb"PK\x03\x04.{0,4000}(?:word/|\[Content_Types\])",
    "RTF": rb"\{\\rtf",
    "DVI": rb"\xf7\x02",
    "other file": rb"PK\x03\x04|\x89PNG|\xff\xd8\xff|\x1f\x8b|BZh[1-9]|\xfd7zXZ|GIF8|\xd0\xcf\x11\xe0"
    rb"|(?=.{0,1000}\0)(?!.*\\begin\s*+\{document\})",
}
KINDS = {kind: re.compile(mark, re.IGNORECASE | re.DOTALL) for kind, mark in BEGINNINGS.items()}


def is_plain_tex(texts: Iterable[str]) -> bool:
    """Return whether no source has the body of a LaTeX document and at least one source is plain TeX."""
    texts = list(texts)
    return not any(BODY.search(text) for text in texts) and any(PLAIN.search(text) for text in texts)


def kind_of_content(content: bytes) -> str:
    """Return the kind of a file from its first bytes, or "" for a text file."""
    return next((kind for kind, mark in KINDS.items() if mark.match(content)), "")


def kind_of(files: Mapping[str, bytes], *, has_tex: bool) -> str:
    """Return the kind of an e-print without LaTeX. has_tex: whether a file is plain TeX."""
    if has_tex:
        return "plain TeX"
    if all(WITHDRAWN.match(content) for content in files.values()):
        return "withdrawn"
    kinds = {kind_of_content(content) for content in files.values()}
    if kind := next((kind for kind in KINDS if kind in kinds), ""):
        return kind
    return "HTML" if any(name.lower().endswith((".html", ".htm")) for name in files) else "no LaTeX"
