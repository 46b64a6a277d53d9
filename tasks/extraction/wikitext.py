"""The readable text of MediaWiki's markup, as Markdown.

One regular expression finds what opens and closes something, and a stack has what is open. What is closed says its
text at once, so that every character is copied as often as it is nested, which is as often as `wikitext_depth`
allows. Code,
formulas and what is <nowiki> are kept aside until the end, as nothing in them is markup.
"""

import html
import re
from collections.abc import Collection

from zyda_flows.tasks.extraction.nesting import Bytes
from zyda_flows.tasks.extraction.wikitext_lines import BREAK, markdown_of_lines
from zyda_flows.tasks.extraction.wikitext_namespaces import UNSHOWN
from zyda_flows.tasks.extraction.wikitext_tables import table_of_wikitext
from zyda_flows.tasks.extraction.wikitext_templates import text_of_template
from zyda_flows.tasks.extraction.wikitext_variants import text_of_variants
from zyda_flows.tasks.limits import limits

BACK_MATTER = frozenset({
    "references", "external links", "see also", "further reading", "notes", "footnotes", "sources", "citations",
    "notes and references", "bibliography",
})  # fmt: skip
TOKEN = re.compile(
    # Most links and templates have nothing in them that is to be resolved: they are read in one step.
    r"\[\[([^][{}|<\n]*)(?:\|([^][{}|<]*))?\]\]|\{\{([^][{}<]*)\}\}|<(/?)([a-zA-Z][a-zA-Z0-9]*)\b([^<>]*)>"
    r"|\{\{|\}\}|\[\[|\]\]|-\{(?!\{)|\}-|(?<!\S)\|\}(?!\})|\||(?<![^\s:])\{\|(?![|}])"
)
LINK, LABELLED_LINK, TEMPLATE, TAG = 1, 2, 3, 6  # the last group of these
COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
REDIRECT = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)
EMPHASIS = re.compile(r"'{2,}")
OUTER_LINK = re.compile(r"\[(?:https?:|ftp:|mailto:|//)[^\s\[\]]+(?:[ \t]([^\[\]\n]*))?\]")
ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")
ASIDE = re.compile(r"\0([0-9]+)\0")
LANGUAGE_LINK = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*:\S")
LANGUAGE = re.compile(r"""lang\s*=\s*["']?([\w+#.-]+)""", re.IGNORECASE)
NOWIKI = re.compile(r"</?nowiki\s*/?>", re.IGNORECASE)
BACKTICKS = re.compile("`{3,}")
DROPPED = frozenset({
    "ref", "references", "gallery", "timeline", "score", "hiero", "imagemap", "templatestyles", "templatedata",
    "mapframe", "maplink", "graph", "chart", "indicator", "style", "script", "inputbox", "categorytree",
})  # fmt: skip
CODE = frozenset({"syntaxhighlight", "source", "pre"})
OPAQUE = DROPPED | CODE | {"math", "chem", "ce", "nowiki"}
FRAMES = {"blockquote": "quote", "code": "code", "sup": "raised"}  # tags whose contents are markup
BREAKS = {
    "br": BREAK, "p": "\n\n", "div": "\n", "hr": "\n\n", "li": "\n* ", "ul": "\n", "ol": "\n", "tr": "\n",
    "td": " ", "th": " ", "table": "\n\n", "center": "\n", "dd": "\n:", "dt": "\n;", "dl": "\n",
    "poem": "\n", "section": "",
}  # fmt: skip
INLINE = frozenset({
    "span", "small", "sub", "b", "i", "u", "s", "em", "strong", "big", "tt", "kbd", "samp", "var",
    "cite", "abbr", "font", "del", "ins", "q", "dfn", "bdi", "bdo", "mark", "time", "data", "strike",
    "ruby", "rt", "rp", "rb", "tbody", "thead", "caption", "noinclude", "onlyinclude", "includeonly", "wbr",
    "a", "h1", "h2", "h3", "h4", "h5", "h6", "nowiki", "langconvert", "translate", "tvar", "languages",
})  # fmt: skip
RAISED = str.maketrans("0123456789+-\u2212", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻")
CROSSED_BY_LINKS = {"link", "code", "raised"}
CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in OPAQUE}


class _Open:
    """What is open: a template, a link, a table or a quotation, with the parts that bars separate."""

    __slots__ = ("has_table", "kind", "parts", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.has_table = False  # of a table: there is one in it
        self.parts = list[str]()
        self.pieces = list[str]()

    def divide(self) -> None:
        self.parts.append("".join(self.pieces))
        self.pieces = []

    def whole(self) -> list[str]:
        self.divide()
        return self.parts


class _Reader:
    """Reads wikitext once from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stack = [_Open("text")]
        self.aside = list[str]()
        self.never_closed = set[str]()  # tags that are not closed in the rest of the text

    def read(self) -> str:
        position, tokens = 0, TOKEN.finditer(self.text)
        while token := next(tokens, None):
            self.stack[-1].pieces.append(self.text[position : token.start()])
            position = self.tag(token) if token.lastindex == TAG else self.sign(token)
            if position != token.end():  # after what is no markup
                tokens = TOKEN.finditer(self.text, position)
        self.stack[-1].pieces.append(self.text[position:])
        while len(self.stack) > 1:
            self.give_up()
        return "".join(self.stack[0].pieces)

    def sign(self, token: re.Match[str]) -> int:
        """Read what is no tag; return where to go on."""
        kind = token.lastindex
        if kind == LINK:
            self.stack[-1].pieces.append(text_of_link([token[1]]))
        elif kind == LABELLED_LINK:
            self.stack[-1].pieces.append(text_of_link([token[1], token[2]]))
        elif kind == TEMPLATE:
            self.stack[-1].pieces.append(text_of_template(token[3].split("|")))
        elif token[0] == "|":
            self.bar()
        elif token[0] in OPENING:
            self.open(OPENING[token[0]], token[0])
        else:
            self.close(CLOSED[token[0]], token[0])
        return token.end()

    def bar(self) -> None:
        if self.stack[-1].kind in DIVIDED:
            self.stack[-1].divide()
        else:
            self.stack[-1].pieces.append("|")

    def open(self, kind: str, sign: str) -> None:
        if len(self.stack) > limits().wikitext_depth:
            self.stack[-1].pieces.append(sign)
        else:
            self.stack.append(_Open(kind))

    def give_up(self) -> None:
        """Take what is open but never closed for text."""
        one = self.stack.pop()
        self.stack[-1].pieces.append("|".join(one.whole()))

    def close(self, kind: str, sign: str) -> None:
        """Close the last that is open of a kind, and say its text; a link is not closed beyond what it is in."""
        depth = len(self.stack) - 1
        while (
            depth
            and self.stack[depth].kind != kind
            and (kind != "link" or self.stack[depth].kind in CROSSED_BY_LINKS)
        ):
            depth -= 1
        if self.stack[depth].kind != kind:
            self.stack[-1].pieces.append(sign)
            return
        while len(self.stack) - 1 > depth:
            self.give_up()
        said = self.said(self.stack.pop())
        self.stack[-1].pieces.append(said)

    def said(self, one: _Open) -> str:
        parts = one.whole()
        if one.kind == "template":
            return text_of_template(parts)
        if one.kind == "link":
            return text_of_link(parts)
        if one.kind == "variants":
            return text_of_variants(parts)
        if one.kind == "raised":
            return text_of_exponent(parts[0])
        if one.kind == "code":
            code = self.with_asides(unescape(EMPHASIS.sub("", parts[0].replace(BREAK, " "))))
            return self.put_aside(f"`{' '.join(code.split())}`") if code.strip() else ""
        if one.kind == "quote":
            if any(outer.kind == "quote" for outer in self.stack):
                return f"\n\n{parts[0]}\n\n"
            lines = [line.strip() for line in parts[0].strip().split("\n")]
            return "\n\n" + "\n".join(f"> {line}" if line else ">" for line in lines) + "\n\n"
        return self.table(parts[0], is_layout=one.has_table)

    def table(self, text: str, *, is_layout: bool) -> str:
        """Return a table, put aside where it is in another one, which has its place as a cell."""
        table = table_of_wikitext(text, is_layout=is_layout)
        outer = next((outer for outer in reversed(self.stack) if outer.kind == "table"), None)
        if not outer:
            return table
        outer.has_table = True
        if is_layout:
            return table
        return self.put_aside(self.with_asides(unescape(EMPHASIS.sub("", table))).strip(), "\n")

    def tag(self, token: re.Match[str]) -> int:
        """Read a tag, and what it contains where that is no markup; return where to go on."""
        is_closing, name, attributes = token[4], token[5].lower(), token[6]
        if (
            name in OPAQUE
            and not is_closing
            and not attributes.endswith("/")
            and name not in self.never_closed
        ):
            end = CLOSING[name].search(self.text, token.end())
            if end:
                said = (
                    ""
                    if name in DROPPED
                    else self.kept(name, attributes, self.text[token.end() : end.start()])
                )
                self.stack[-1].pieces.append(said)
                return end.end()
            self.never_closed.add(name)
        if name in FRAMES and not attributes.endswith("/"):
            (self.close if is_closing else self.open)(FRAMES[name], "")
        elif name not in INLINE and name not in OPAQUE and name not in FRAMES:
            shown = token[0] if name not in BREAKS else BREAKS[name]
            self.stack[-1].pieces.append("\n" if is_closing and name in {"li", "dd", "dt"} else shown)
        return token.end()

    def kept(self, name: str, attributes: str, content: str) -> str:
        """Put what is no markup aside, as Markdown, and return what stands for it."""
        if name in CODE:
            named = LANGUAGE.search(attributes)
            longest = max(map(len, BACKTICKS.findall(content)), default=2)
            fence = "`" * (longest + 1)
            code = unescape(NOWIKI.sub("", content)).strip("\n")
            return self.put_aside(f"{fence}{named[1] if named else ''}\n{code}\n{fence}", "\n\n")
        content = unescape(content)
        if name == "nowiki":
            return self.put_aside(content)
        formula = " ".join(content.split())
        is_block = "block" in attributes
        return self.put_aside(f"$${formula}$$" if is_block else f"${formula}$", "\n\n" if is_block else "")

    def put_aside(self, text: str, around: str = "") -> str:
        self.aside.append(text)
        return f"{around}\0{len(self.aside) - 1}\0{around}"

    def with_asides(self, text: str) -> str:
        """Return a text with what was put aside; that is put where it stands once."""
        return ASIDE.sub(lambda place: self.aside[int(place[1])], text)


OPENING = {"{{": "template", "[[": "link", "{|": "table", "-{": "variants"}
CLOSED = {"}}": "template", "]]": "link", "|}": "table", "}-": "variants"}
DIVIDED = {"template", "link", "variants"}


def unescape(text: str) -> str:
    """Return a text with its references to characters resolved; as in MediaWiki, they end with a semicolon."""
    return ENTITY.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def text_of_exponent(text: str) -> str:
    """Return a number as an exponent, and other raised text, as in `1st`, as it is."""
    number = unescape(text).strip()
    return number.translate(RAISED) if all(ord(one) in RAISED for one in number) else text


def text_of_link(parts: list[str]) -> str:
    """Return the label of a link, or nothing for a picture, a category or the same page in another language."""
    target = parts[0].strip()
    space, colon, _ = target.partition(":")
    if (colon and space.replace("_", " ").strip().lower() in UNSHOWN) or (
        len(parts) == 1 and LANGUAGE_LINK.match(target)
    ):
        return ""
    if len(parts) == 1:
        return target.removeprefix(":")
    # An empty label stands for the target without what is in parentheses.
    return "|".join(parts[1:]) or target.partition(":")[2].partition(" (")[0] or target.partition(" (")[0]


def without_marks(wikitext: str) -> str:
    """Return wikitext without the characters of which marks are made here."""
    for character in ("\0", BREAK, "\r"):
        wikitext = wikitext.replace(character, "")
    return wikitext


def wikitext_article(page: Bytes) -> str:
    """Return the text of an article in UTF-8, without its back matter."""
    return text_of_wikitext(str(page.data, "utf-8"), BACK_MATTER)


def text_of_wikitext(wikitext: str, dropped_sections: Collection[str] = ()) -> str:
    """Return the readable text of a page as Markdown; a redirect has none.

    Links are their labels. Pictures, categories, references, comments and templates go, but for those whose text
    belongs to a sentence (`tasks.extraction.wikitext_templates`). Tables, code and formulas stay.

    dropped_sections: titles of sections, in small letters, that go with all below them, such as BACK_MATTER.
    """
    if REDIRECT.match(wikitext):
        return ""
    reader = _Reader(COMMENT.sub("", without_marks(wikitext)))
    text = OUTER_LINK.sub(lambda link: (link[1] or "").strip(" \t"), reader.read())
    text = unescape(EMPHASIS.sub("", text))
    text = markdown_of_lines(text, dropped_sections)
    return reader.with_asides(text)
