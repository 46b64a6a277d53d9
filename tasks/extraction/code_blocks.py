"""Write the code blocks of a page as fenced Markdown with their language.

The line numbers and buttons that syntax highlighters add are removed.
"""

import re

from selectolax.lexbor import LexborNode

from zyda_flows.tasks.extraction.nodes import attribute, children_backwards

CODE_CELLS = "td.code, td.rouge-code, td.hljs-ln-code, td.blob-code, td.lntd, td.crayon-code"
BLOCKS = frozenset({"div", "li", "p", "tr", "dd", "dt", "ol", "ul", "table"})
DROPPED = frozenset({"button", "script", "style", "svg", "template", "select", "textarea"})
NUMBERING = re.compile(
    r"(?:^|[\s_-])(?:line-?no|line-?nos|line-?numbers?(?:-rows)?|lnt|ln|ln-num|gutter|gl|blob-num|hljs-ln-n"
    r"|prompt-num)",
    re.IGNORECASE,
)
COPYING = re.compile(r"copy|clipboard|toolbar", re.IGNORECASE)
NUMBERS = re.compile(r"[\d\s:.|]*")
MAX_BUTTON_LABEL = 24  # characters of the label of a copy button
LANGUAGE = (
    re.compile(
        r"(?:^|\s)(?:(?:highlight-source|mw-highlight-lang|language|lang|src|highlight)[-:]|brush:)\s?([\w+#.-]+)"
    ),
    re.compile(
        r"(?:^|\s)(?:sourceCode|highlight|hljs|codehilite|prettyprint|code|src)\s+([a-zA-Z][\w+#.-]*)"
    ),
    re.compile(r"^\s*([a-zA-Z][\w+#.-]*)\s+(?:hljs|sourceCode)\b"),
)
ATTRIBUTES = ("data-lang", "data-language", "data-enlighter-language", "data-code-lang")
# Classes that match LANGUAGE but name no programming language.
NO_LANGUAGE = {
    "default", "none", "text", "txt", "plain", "plaintext", "nohighlight", "no-highlight", "notranslate", "output",
    "raw", "highlight", "hljs", "code", "source", "sourcecode", "line", "numbers", "line-numbers", "linenums",
    "wrapper", "rouge", "prettyprinted", "block", "copy", "table", "dark", "light", "wrap", "numberlines", "box",
    "container", "content", "group", "inline", "listing", "snippet", "toolbar", "unknown", "undefined",
    "literal-block", "code-block",
    "en", "en-us", "de", "fr", "es", "it", "pt", "nl", "ja", "zh", "ru",  # natural languages
}  # fmt: skip
ALIASES = {
    "python3": "python", "py": "python", "ipython": "python", "ipython3": "python", "py3": "python",
    "js": "javascript",
    "ts": "typescript", "shellsession": "shell-session", "c++": "cpp",
    "c#": "csharp", "cs": "csharp", "rb": "ruby", "rs": "rust", "yml": "yaml", "golang": "go", "md": "markdown",
    "jscript": "javascript", "objective-c": "objectivec",
}  # fmt: skip
MAX_WRAPPER_CHILDREN = 4  # elements in an element around one block: the block, its title and its buttons
MAX_ANCESTORS = 4  # elements around a block whose classes may name its language


class CodeLines:
    """The text of a code block, which is collected piece by piece."""

    def __init__(self) -> None:
        self.parts, self.last_character = list[str](), "\n"

    def add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.last_character = text[-1]

    def begin_block(self) -> None:
        """Begin a new line, unless the text is at the beginning of a line."""
        if self.last_character != "\n":
            self.add("\n")

    def end_block(self, parts_before: int) -> None:
        """End the line of a block element; an empty element is an empty line.

        parts_before: the number of parts at the beginning of the element.
        """
        if self.last_character != "\n" or parts_before == len(self.parts):
            self.add("\n")


def code_text(block: LexborNode) -> str:
    """Return the code in an element line by line, without line numbers and buttons."""
    lines = CodeLines()
    pending = unvisited_children(block)
    while pending:
        node, parts_before = pending.pop()
        if parts_before is not None:
            lines.end_block(parts_before)
        elif node.is_text_node:
            lines.add(node.text_content or "")
        elif node.tag == "br":
            lines.add("\n")
        elif node.is_element_node and not is_decoration(node):
            if node.tag in BLOCKS:
                lines.begin_block()
                if node.tag not in {"ol", "ul", "table"}:
                    pending.append((node, len(lines.parts)))
            pending += unvisited_children(node)
    return trim_code("".join(lines.parts))


def unvisited_children(node: LexborNode) -> list[tuple[LexborNode, int | None]]:
    """Return the children of a node in reverse order, each with None.

    `code_text` visits a block element again at its end, then with the number of parts before it.
    """
    return [(child, None) for child in children_backwards(node)]


def is_decoration(node: LexborNode) -> bool:
    """Return whether an element of a code block is a line number or a button of a syntax highlighter."""
    if node.tag in DROPPED:
        return True
    attributes = node.attributes
    if "data-line-number" in attributes or "user-select" in attribute(node, "style"):
        return NUMBERS.fullmatch(node.text()) is not None
    if not (name := attributes.get("class")):
        return False
    if NUMBERING.search(name):
        return NUMBERS.fullmatch(node.text()) is not None
    return COPYING.search(name) is not None and len(node.text().strip()) <= MAX_BUTTON_LABEL


def trim_code(code: str) -> str:
    r"""Return code without empty lines at its beginning and end, with `\n` as line ends and plain spaces."""
    lines = code.replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    return "\n".join(lines[first:])


def block_language(block: LexborNode) -> str:
    """Return the language of a code block, or "" if it is unknown.

    The attributes of the block name it, those of the `<code>` in the block, or those of the elements around it.
    """
    inner = block.css_first("code")
    elements = [block] if inner is None else [block, inner]
    node = block.parent
    while (
        node is not None
        and len(elements) < MAX_ANCESTORS + 2
        and node.tag not in {"body", "html", "-document"}
    ):
        if has_other_content(node):
            break
        elements.append(node)
        node = node.parent
    return next(filter(None, map(named_language, elements)), "")


def has_other_content(node: LexborNode) -> bool:
    """Return whether an element has more children than a block, its title and its buttons."""
    child, count = node.first_child, 0
    while child is not None and count <= MAX_WRAPPER_CHILDREN:
        count += child.is_element_node
        child = child.next
    return count > MAX_WRAPPER_CHILDREN


def named_language(node: LexborNode) -> str:
    """Return the language that the attributes or classes of an element name, or ""."""
    names = [attribute(node, name) for name in ATTRIBUTES]
    classes = attribute(node, "class")
    names += [match[1] for expression in LANGUAGE for match in expression.finditer(classes)]
    return next(filter(None, map(known_language, names)), "")


def known_language(name: str) -> str:
    """Return the usual name of a language, or "" if the name is not that of a language."""
    name = name.strip().lower().removeprefix("source-").rstrip(";")
    if name in NO_LANGUAGE or not re.fullmatch(r"[a-z][\w+#.-]{0,24}", name):
        return ""
    return ALIASES.get(name, name)


def fence_code(code: str, language: str) -> str:
    """Return code as a block of Markdown, with a fence that is longer than the fences in the code."""
    longest = max((len(run) for run in re.findall("`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"
