"""Code blocks of a page as fenced Markdown, with their language, and without what highlighters add to them."""

import re

from selectolax.lexbor import LexborNode

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
COPY_BUTTON = 24  # characters of its label at the most
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
# As highlighters name what is no language, and what their own classes are.
NO_LANGUAGE = {
    "default", "none", "text", "txt", "plain", "plaintext", "nohighlight", "no-highlight", "notranslate", "output",
    "raw", "highlight", "hljs", "code", "source", "sourcecode", "line", "numbers", "line-numbers", "linenums",
    "wrapper", "rouge", "prettyprinted", "block", "copy", "table", "dark", "light", "wrap", "numberlines", "box",
    "container", "content", "group", "inline", "listing", "snippet", "toolbar", "unknown", "undefined",
    "literal-block", "code-block",
    "en", "en-us", "de", "fr", "es", "it", "pt", "nl", "ja", "zh", "ru",  # of words, around code
}  # fmt: skip
SAME = {
    "python3": "python", "py": "python", "ipython": "python", "ipython3": "python", "py3": "python",
    "js": "javascript",
    "ts": "typescript", "shellsession": "shell-session", "c++": "cpp",
    "c#": "csharp", "cs": "csharp", "rb": "ruby", "rs": "rust", "yml": "yaml", "golang": "go", "md": "markdown",
    "jscript": "javascript", "objective-c": "objectivec",
}  # fmt: skip
MOST_BESIDE = 4  # elements within one that is a block, its title, its buttons
ANCESTORS = 4  # around a block, whose classes may say its language


def code_text(block: LexborNode) -> str:
    """Return the code of an element line by line, without numbers of lines and without buttons."""
    parts, last, itself = list[str](), "\n", block.mem_id  # nodes are compared by all that they contain
    pending: list[tuple[LexborNode, int]] = [(block, -1)]  # with the parts there were when a block began
    while pending:
        node, begun = pending.pop()
        if begun >= 0:
            if last != "\n" or begun == len(parts):
                parts.append("\n")
                last = "\n"
            continue
        if node.is_text_node:
            text = node.text_content or ""
        elif node.tag == "br":
            text = "\n"
        elif not node.is_element_node or (node.mem_id != itself and is_added(node)):
            continue
        else:
            if node.tag in BLOCKS and node.mem_id != itself:
                if last != "\n":
                    parts.append("\n")
                    last = "\n"
                if node.tag not in {"ol", "ul", "table"}:
                    pending.append((node, len(parts)))
            pending.extend((child, -1) for child in children_backwards(node))
            continue
        if text:
            parts.append(text)
            last = text[-1]
    return trimmed("".join(parts))


def children_backwards(node: LexborNode) -> list[LexborNode]:
    found, child = list[LexborNode](), node.last_child
    while child is not None:
        found.append(child)
        child = child.prev
    return found


def is_added(node: LexborNode) -> bool:
    """Say whether a highlighter added an element: numbers of lines, or a button."""
    if node.tag in DROPPED:
        return True
    attributes = node.attributes
    if "data-line-number" in attributes or "user-select" in (attributes.get("style") or ""):
        return NUMBERS.fullmatch(node.text()) is not None
    if not (name := attributes.get("class")):
        return False
    if NUMBERING.search(name):
        return NUMBERS.fullmatch(node.text()) is not None
    return COPYING.search(name) is not None and len(node.text().strip()) <= COPY_BUTTON


def trimmed(code: str) -> str:
    """Return code without empty lines around it and with plain spaces and ends of lines."""
    lines = code.replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    return "\n".join(lines[first:])


def language_of(block: LexborNode) -> str:
    """Return the language that classes of a block, of `<code>` in it, or of elements around it name, or ""."""
    inner = block.css_first("code")
    around = [block] if inner is None else [block, inner]
    node = block.parent
    while node is not None and len(around) < ANCESTORS + 2 and node.tag not in {"body", "html", "-document"}:
        if has_many(node):
            break  # whose classes say something of more than the block
        around.append(node)
        node = node.parent
    return next(filter(None, map(named_language, around)), "")


def has_many(node: LexborNode) -> bool:
    """Say whether an element has more elements in it than a block with its title and its buttons."""
    child, count = node.first_child, 0
    while child is not None and count <= MOST_BESIDE:
        count += child.is_element_node
        child = child.next
    return count > MOST_BESIDE


def named_language(node: LexborNode) -> str:
    attributes = node.attributes
    for name in ATTRIBUTES:
        if found := known_language(attributes.get(name) or ""):
            return found
    classes = attributes.get("class") or ""
    for expression in LANGUAGE if classes else ():
        for match in expression.finditer(classes):
            if found := known_language(match[1]):
                return found
    return ""


def known_language(name: str) -> str:
    name = name.strip().lower().removeprefix("source-").rstrip(";")
    if name in NO_LANGUAGE or not re.fullmatch(r"[a-z][\w+#.-]{0,24}", name):
        return ""
    return SAME.get(name, name)


def fenced(code: str, language: str) -> str:
    """Write code as a block of Markdown, in a fence longer than any in it."""
    longest = max((len(run) for run in re.findall("`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"
