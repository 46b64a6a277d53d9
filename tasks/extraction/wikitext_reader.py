"""Read the inline markup of wikitext: links, templates, tables and tags.

A regular expression matches what opens and closes an element. A stack holds the open elements. When an element is
closed, its text is added to the element around it, so a character is copied at most `wikitext_depth` times. Code,
formulas and the content of <nowiki>, which contain no markup, are replaced by marks until the end.
"""

import re
from collections.abc import Callable

from zyda_flows.tasks.extraction.wikitext_inline import text_of_exponent, text_of_link, unescape
from zyda_flows.tasks.extraction.wikitext_lines import BREAK
from zyda_flows.tasks.extraction.wikitext_tables import table_of_wikitext
from zyda_flows.tasks.extraction.wikitext_templates import text_of_template
from zyda_flows.tasks.extraction.wikitext_variants import text_of_variants
from zyda_flows.tasks.limits import limits

TOKEN = re.compile(
    # Most links and templates contain no markup, so one token contains the whole link or template.
    r"\[\[([^][{}|<\n]*)(?:\|([^][{}|<]*))?\]\]|\{\{([^][{}<]*)\}\}|<(/?)([a-zA-Z][a-zA-Z0-9]*)\b([^<>]*)>"
    r"|\{\{|\}\}|\[\[|\]\]|-\{(?!\{)|\}-|(?<!\S)\|\}(?!\})|\||(?<![^\s:])\{\|(?![|}])"
)
LINK, LABELLED_LINK, TEMPLATE, TAG = 1, 2, 3, 6  # the numbers of their last groups
EMPHASIS = re.compile(r"'{2,}")
PROTECTED = re.compile(r"\0([0-9]+)\0")
LANGUAGE = re.compile(r"""lang\s*=\s*["']?([\w+#.-]+)""", re.IGNORECASE)
NOWIKI = re.compile(r"</?nowiki\s*/?>", re.IGNORECASE)
BACKTICKS = re.compile("`{3,}")
DROPPED = frozenset({
    "ref", "references", "gallery", "timeline", "score", "hiero", "imagemap", "templatestyles", "templatedata",
    "mapframe", "maplink", "graph", "chart", "indicator", "style", "script", "inputbox", "categorytree",
})  # fmt: skip
CODE = frozenset({"syntaxhighlight", "source", "pre"})
OPAQUE = DROPPED | CODE | {"math", "chem", "ce", "nowiki"}
FRAMES = {
    "blockquote": "quote",
    "code": "code",
    "sup": "raised",
}  # tags whose contents are markup, and their kinds
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
CROSSED_BY_LINKS = {"link", "code", "raised"}
CLOSING_TAGS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in OPAQUE}


class OpenElement:
    """An open template, link, table or quotation.

    parts: the parts before bars. pieces: the pieces of the current part. has_table: whether it contains a table.
    """

    __slots__ = ("has_table", "kind", "parts", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.has_table = False
        self.parts = list[str]()
        self.pieces = list[str]()

    def end_part(self) -> None:
        self.parts.append("".join(self.pieces))
        self.pieces = []

    def all_parts(self) -> list[str]:
        self.end_part()
        return self.parts


class WikitextReader:
    """Reads wikitext once from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stack = [OpenElement("text")]
        self.protected = list[str]()  # code, formulas and text of <nowiki>, in Markdown
        self.never_closed = set[str]()  # tags that are not closed in the rest of the text

    def read(self) -> str:
        """Return the text, with marks in the places of protected texts."""
        position, tokens = 0, TOKEN.finditer(self.text)
        while token := next(tokens, None):
            self.stack[-1].pieces.append(self.text[position : token.start()])
            position = self.tag(token) if token.lastindex == TAG else self.sign(token)
            if position != token.end():  # after an element whose content is not markup
                tokens = TOKEN.finditer(self.text, position)
        self.stack[-1].pieces.append(self.text[position:])
        while len(self.stack) > 1:
            self.give_up()
        return "".join(self.stack[0].pieces)

    def sign(self, token: re.Match[str]) -> int:
        """Read a token that is not a tag, and return its end."""
        kind = token.lastindex
        if kind == LINK:
            self.stack[-1].pieces.append(text_of_link([token[1]]))
        elif kind == LABELLED_LINK:
            self.stack[-1].pieces.append(text_of_link([token[1], token[2]]))
        elif kind == TEMPLATE:
            self.stack[-1].pieces.append(text_of_template(token[3].split("|")))
        elif token[0] == "|":
            self.bar()
        elif token[0] in KIND_OF_OPENING:
            self.open(KIND_OF_OPENING[token[0]], token[0])
        else:
            self.close(KIND_OF_CLOSING[token[0]], token[0])
        return token.end()

    def bar(self) -> None:
        if self.stack[-1].kind in KINDS_WITH_PARTS:
            self.stack[-1].end_part()
        else:
            self.stack[-1].pieces.append("|")

    def open(self, kind: str, sign: str) -> None:
        if len(self.stack) > limits().wikitext_depth:
            self.stack[-1].pieces.append(sign)
        else:
            self.stack.append(OpenElement(kind))

    def give_up(self) -> None:
        """Keep the content of an element that is never closed as text."""
        element = self.stack.pop()
        self.stack[-1].pieces.append("|".join(element.all_parts()))

    def close(self, kind: str, sign: str) -> None:
        """Close the innermost open element of a kind and add its text to the element around it.

        A closing sign without an open element is text. A link ends only inside the innermost other element.
        """
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
        text = self.closed_text(self.stack.pop())
        self.stack[-1].pieces.append(text)

    def closed_text(self, element: OpenElement) -> str:
        """Return the text of an element that is closed."""
        parts = element.all_parts()
        if element.kind in TEXT_WRITERS:
            return TEXT_WRITERS[element.kind](parts)
        if element.kind == "code":
            return self.inline_code(parts[0])
        if element.kind == "quote":
            return self.quotation(parts[0])
        return self.table(parts[0], is_layout=element.has_table)

    def inline_code(self, text: str) -> str:
        code = self.with_protected(unescape(EMPHASIS.sub("", text.replace(BREAK, " "))))
        return self.protect(f"`{' '.join(code.split())}`") if code.strip() else ""

    def quotation(self, text: str) -> str:
        """Return a quotation with `>` before each line; a quotation in a quotation has none."""
        if any(outer.kind == "quote" for outer in self.stack):
            return f"\n\n{text}\n\n"
        lines = [line.strip() for line in text.strip().split("\n")]
        return "\n\n" + "\n".join(f"> {line}" if line else ">" for line in lines) + "\n\n"

    def table(self, text: str, *, is_layout: bool) -> str:
        """Return a table. A table in a cell of another table is protected, so that it is not read again."""
        table = table_of_wikitext(text, is_layout=is_layout)
        outer = next((outer for outer in reversed(self.stack) if outer.kind == "table"), None)
        if not outer:
            return table
        outer.has_table = True
        if is_layout:
            return table
        return self.protect(self.with_protected(unescape(EMPHASIS.sub("", table))).strip(), "\n")

    def tag(self, token: re.Match[str]) -> int:
        """Read a tag, with the content of an element that contains no markup; return where it ends."""
        is_closing, name, attributes = token[4], token[5].lower(), token[6]
        if name in OPAQUE:
            return self.opaque(token, name, attributes)
        if name in FRAMES:
            if not attributes.endswith("/"):
                (self.close if is_closing else self.open)(FRAMES[name], "")
        elif name not in INLINE:
            text = BREAKS.get(name, token[0])
            self.stack[-1].pieces.append("\n" if is_closing and name in {"li", "dd", "dt"} else text)
        return token.end()

    def opaque(self, token: re.Match[str], name: str, attributes: str) -> int:
        """Read an element that contains no markup; return where it ends. A tag that is never closed is removed."""
        if token[4] or attributes.endswith("/") or name in self.never_closed:
            return token.end()
        end = CLOSING_TAGS[name].search(self.text, token.end())
        if end is None:
            self.never_closed.add(name)
            return token.end()
        if name not in DROPPED:
            content = self.text[token.end() : end.start()]
            self.stack[-1].pieces.append(self.opaque_content(name, attributes, content))
        return end.end()

    def opaque_content(self, name: str, attributes: str, content: str) -> str:
        """Protect code, a formula or text that is not markup, and return its mark."""
        if name in CODE:
            named = LANGUAGE.search(attributes)
            longest = max(map(len, BACKTICKS.findall(content)), default=2)
            fence = "`" * (longest + 1)
            code = unescape(NOWIKI.sub("", content)).strip("\n")
            return self.protect(f"{fence}{named[1] if named else ''}\n{code}\n{fence}", "\n\n")
        content = unescape(content)
        if name == "nowiki":
            return self.protect(content)
        formula = " ".join(content.split())
        is_block = "block" in attributes
        return self.protect(f"$${formula}$$" if is_block else f"${formula}$", "\n\n" if is_block else "")

    def protect(self, text: str, around: str = "") -> str:
        """Store Markdown that is not read again, and return its mark. around: text before and after the mark."""
        self.protected.append(text)
        return f"{around}\0{len(self.protected) - 1}\0{around}"

    def with_protected(self, text: str) -> str:
        """Return a text in which the protected texts replace their marks."""
        return PROTECTED.sub(lambda mark: self.protected[int(mark[1])], text)


KIND_OF_OPENING = {"{{": "template", "[[": "link", "{|": "table", "-{": "variants"}
KIND_OF_CLOSING = {"}}": "template", "]]": "link", "|}": "table", "}-": "variants"}
KINDS_WITH_PARTS = {"template", "link", "variants"}
TEXT_WRITERS: dict[str, Callable[[list[str]], str]] = {
    "template": text_of_template,
    "link": text_of_link,
    "variants": text_of_variants,
    "raised": lambda parts: text_of_exponent(parts[0]),
}
