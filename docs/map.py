"""Write docs/map.md: every module of the project with the first sentence of its docstring, folder by folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHAPTERS = ("flows", "tasks", "deployments")
HEAD = """# Map

Every module with the first sentence of its docstring. `make generate` writes this page.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(line for chapter in CHAPTERS for line in lines_of(ROOT / chapter))]) + "\n"


def lines_of(folder: Path) -> Iterator[str]:
    """Yield the lines about a package: its own sentence, then a row for each module, then its packages."""
    place = folder.relative_to(ROOT).as_posix()
    yield f"## {place}/\n\n{sentence(folder / '__init__.py')}\n\n| module | |\n|---|---|"
    for module in sorted(folder.glob("*.py")):
        if not module.name.startswith("__"):
            yield f"| [`{module.stem}`](../{place}/{module.name}) | {sentence(module)} |"
    yield ""
    for package in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from lines_of(package)


def sentence(module: Path) -> str:
    """Return the first sentence of a module's docstring. Raises ValueError where it has none."""
    docstring = ast.get_docstring(ast.parse(module.read_text()))
    if not docstring:
        raise ValueError(f"{module}: a module says in its docstring what it is")
    first = " ".join(docstring.partition("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", first)[0].replace("|", "\\|")


if __name__ == "__main__":
    (ROOT / "docs/map.md").write_text(page())
