"""Check that prose and names are plain English, by counting words that the style of this project avoids.

Prose is the docstrings and comments of Python files and the text of Markdown files without code. The result is the
number of occurrences per 10,000 words for each group of words in WORDS. `make check` fails if a limit is exceeded.
"""

import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("tasks", "flows", "textkernels", "deployments", "tests", "docs")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
# Highest numbers per 10,000 words, which other well-kept Python projects meet.
WORDS = {
    ("what",): 20,
    ("say", "says", "said", "saying"): 5,
    ("one", "ones", "those"): 40,
    ("go", "goes", "gone", "went", "let", "lets"): 8,
    ("nobody", "somebody", "whoever", "whatever", "anew", "thereof"): 2,
}
MOST_OF_NAMES = 2  # variables called `of_...`
MOST_REPEATED_CLASSES = 2  # class names that the product defines twice
NOT_PROSE = re.compile(r"```[\s\S]*?```|^(?: {4}|\t).*$|`[^`]*`|https?://\S+", re.MULTILINE)


def python_prose(path: Path, tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings and comments of a Python file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            yield re.sub(r"`[^`]*`", " ", ast.get_docstring(node) or "")
    with path.open("rb") as file:
        yield from (
            token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT
        )


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the names of assigned variables and of parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def findings() -> Iterator[str]:
    """Yield a line for each exceeded limit."""
    words, classes, names_with_of = Counter[str](), Counter[str](), Counter[str]()
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        tree = ast.parse(path.read_text())
        for text in python_prose(path, tree):
            words.update(re.findall(r"[a-z']+", text.lower()))
        names_with_of.update(name for name in variables(tree) if name.startswith("of_"))
        if path.relative_to(ROOT).parts[0] not in {"tests", "docs"}:
            classes.update(node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for path in (*sorted((ROOT / "docs").glob("*.md")), *(ROOT / page for page in PAGES)):
        words.update(re.findall(r"[a-z']+", NOT_PROSE.sub(" ", path.read_text()).lower()))
    for group, limit in WORDS.items():
        rate = 10_000 * sum(words[word] for word in group) / words.total()
        if round(rate) > limit:
            yield f"{', '.join(group)}: {rate:.1f} per 10,000 words; the limit is {limit}"
    if names_with_of.total() > MOST_OF_NAMES:
        yield f"variables called of_...: {dict(names_with_of.most_common(10))}; the limit is {MOST_OF_NAMES}"
    repeated = sorted(name for name, number in classes.items() if number > 1)
    if len(repeated) > MOST_REPEATED_CLASSES:
        yield f"class names that are defined twice: {', '.join(repeated)}; the limit is {MOST_REPEATED_CLASSES}"


if __name__ == "__main__":
    sys.exit("\n".join(findings()) or 0)
