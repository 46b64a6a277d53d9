"""Code: the lines of code in a text, in their order, with comparable spacing.

A line is code if it is

- in a fenced block (``` or ~~~);
- in an indented block (four spaces or a tab after an empty line) that has a line in a form of code, or that has few
  function words: less than PROSE_SHARE of its words;
- in a form of code: a statement, a call, an assignment, a prompt, or an end in `;`, `{` or `}`;
- in a text of which more than half of the lines are code by these rules.

A comment in code is code. Lines without letters and digits are left out.
"""

import re
from collections.abc import Iterator

from zyda_flows.tasks.dedup.fact_words import FUNCTION_WORDS

PROSE_SHARE = 0.15
FENCE = re.compile(r"[ \t]{0,3}(```+|~~~+)")
INDENTED = re.compile(r"(?: {4}|\t)")
FORM = re.compile(
    r"(?:>>> |\.\.\. |\$ \S|PS[^>\n]{0,80}> ?\S|[#@]\w+[(\[<]|#(?:include|define|ifdef|ifndef|endif|pragma)\b"
    r"|(?:def|class|return|func|fn|var|const|static|void|int|double|float|char|bool)\b[^.,]*[=({;:*<]"
    r"|(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER) [\w.*]|import [\w.*]+(?: as \w+)?$|from [\w.]+ import "
    r"|(?:if|for|while|elif|else|try|except|switch|match|with)\b.*[:{]$|(?:git|pip|npm|apt|docker|sudo|curl) \w"
    r"|[\w.\[\]\"'$*]+(?:,? [\w.*]+)? ?(?:[-+*/|&%]|:|<<|>>)?= ?[\w\"'\[({$-]"
    r"|[\w.$:>-]+\([^()]*(?:\([^()]*\)[^()]*)*\)$"
    r"|[^\n]*(?:[;{}]|&&|\|\|| \\)$)"
)
WORD = re.compile(r"\w+")
SPACES = re.compile(r"(?<!\w) | (?!\w)")


def code_lines(text: str) -> list[str]:
    """Return the lines of code of a text, in their order: a single space between words, no others."""
    lines = [(line, is_code) for line, is_code in marked_lines(text) if WORD.search(line)]
    code = sum(is_code for _, is_code in lines)
    is_whole = 2 * code > len(lines)
    return [SPACES.sub("", " ".join(line.split())) for line, is_code in lines if is_code or is_whole]


def marked_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a text, and whether each is code by itself or its block."""
    fence, is_after_empty = "", True
    block = list[str]()
    for line in text.split("\n"):
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                yield line, True
            continue
        if block or is_after_empty:
            if INDENTED.match(line) or (block and not line.strip()):
                block.append(line)
                continue
            is_code = is_code_block(block)
            yield from ((other, is_code) for other in block)
            block = []
        is_after_empty = not line.strip()
        if opened := FENCE.match(line):
            fence = opened[1]
        elif not is_after_empty:
            yield line, FORM.match(line.strip()) is not None
    is_code = is_code_block(block)
    yield from ((other, is_code) for other in block)


def is_code_block(lines: list[str]) -> bool:
    """Return whether an indented block is code, and no indented prose."""
    if any(FORM.match(line.strip()) for line in lines):
        return True
    words = [word for line in lines for word in WORD.findall(line.lower())]
    return sum(word in FUNCTION_WORDS for word in words) < PROSE_SHARE * max(1, len(words))
