"""What extractors leave of code, tables and formulas, on pages that have many, by parsers of another kind.

python -m benchmarks.structure FOLDER [KATEX]

FOLDER has a folder of HTML for each package, such as packages of documentation unpacked; of their pages some are
taken, evenly. The truth is what lxml finds in the page, and for `_sources/*.rst.txt` of Sphinx, code blocks as they
stand there. With KATEX, what `benchmarks.formulas` measures.
"""

import html
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import lxml.html
from resiliparse.extract.html2text import extract_plain_text

from benchmarks.measure import show
from zyda_flows.tasks.extraction.structured import structured_text

PAGES = 2000  # at the most, of all packages
FENCE = re.compile(r"^([ ]*)(`{3,})([^\n`]*)\n(.*?)^[ ]*\2[ ]*$", re.MULTILINE | re.DOTALL)
PRE = re.compile(r"<pre>(.*?)</pre>", re.DOTALL)
ROW = re.compile(r"^ *\|(.*)\| *$", re.MULTILINE)
RULE = re.compile(r"[|\s:-]+")
# Navigation: of DocBook, Sphinx and Texinfo.
CHROME = {
    "navheader", "navfooter", "related", "nav-panel", "index-entries-printindex", "index-cp", "index-vr",
    "index-fn", "menu", "indextable", "genindextable", "modindextable",
}  # fmt: skip
NO_LANGUAGE = ("default", "none", "text")
IN_PROSE = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
LETTERS = re.compile(r"\W+|_")
Cells = list[list[str]]


@dataclass
class Structure:
    """Code as (language, text), tables as rows of cells, formulas as text."""

    code: list[tuple[str, str]] = field(default_factory=list)
    tables: list[Cells] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)


def of_page(source: str) -> Structure:
    """Return what lxml finds in a page."""
    tree, found = (
        lxml.html.document_fromstring(source.encode(), parser=lxml.html.HTMLParser(encoding="utf-8")),
        Structure(),
    )
    for pre in tree.iter("pre"):
        if text := lines(pre.text_content()):
            names = " ".join(one.get("class") or "" for one in pre.iterancestors("div"))
            named = re.search(r"highlight-([\w+-]+)", names)
            language = named[1].replace("python3", "python").replace("c++", "cpp") if named else ""
            found.code.append(("" if language in NO_LANGUAGE else language, text))
    for table in tree.iter("table"):
        around = [table, *table.iterancestors()]
        if (
            any(CHROME & {*(one.get("class") or "").split()} for one in around)
            or table.find(".//table") is not None
        ):
            continue
        rows = [
            [letters(cell.text_content()) for cell in row if cell.tag in {"td", "th"}]
            for row in table.iter("tr")
        ]
        if len(rows) > 1 and max(map(len, rows)) > 1:
            found.tables.append([[cell for cell in row if cell] for row in rows if any(row)])
    for one in tree.xpath('//*[contains(concat(" ", @class, " "), " math ")]'):
        found.formulas += ["".join("".join(parts).split()) for parts in IN_PROSE.findall(one.text_content())]
    return found


def lines(text: str) -> str:
    """Return text without empty lines around it and white space at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.replace("\xa0", " ").split("\n")).strip("\n")


def letters(text: str) -> str:
    return LETTERS.sub("", text.replace("<br>", " "))


def of_markdown(text: str) -> Structure:
    found = Structure()
    for indent, _, language, body in FENCE.findall(text):
        code = "\n".join(line.removeprefix(indent) for line in body.split("\n"))
        found.code.append((language.strip(), lines(code)))
    rows = [cells_of(match[1]) for match in ROW.finditer(FENCE.sub("", text)) if not RULE.fullmatch(match[0])]
    found.tables = [[[cell for cell in row if cell] for row in rows]]
    return found


def cells_of(row: str) -> list[str]:
    return [letters(cell) for cell in re.split(r"(?<!\\)\|", row)]


def of_minimal_html(text: str) -> Structure:
    code = [("", lines(html.unescape(re.sub("<[^>]*>", "", body)))) for body in PRE.findall(text)]
    return Structure(code=code)


@dataclass
class Extractor:
    """An extractor, and how the structure of its texts is read."""

    extract: Callable[[str], str]
    structure: Callable[[str], Structure]


def extractors() -> dict[str, Extractor]:
    found = {
        "ours, structured": Extractor(structured_text, of_markdown),
        "resiliparse, minimal_html": Extractor(
            lambda page: extract_plain_text(page, main_content=True, preserve_formatting="minimal_html"),
            of_minimal_html,
        ),
    }
    with suppress(ImportError):
        from trafilatura import extract

        options = {
            "output_format": "markdown",
            "include_tables": True,
            "include_formatting": True,
            "fast": True,
        }
        found["trafilatura, markdown"] = Extractor(lambda page: extract(page, **options) or "", of_markdown)
    return found


def counted(pages: list[str], extractor: Extractor) -> Counter[str]:
    """Count what there is, and of that what is left."""
    count: Counter[str] = Counter()
    for page in pages:
        truth, text = of_page(page), extractor.extract(page)
        left = extractor.structure(text)
        wanted, got = Counter(code for _, code in truth.code), Counter(code for _, code in left.code)
        count["code"] += wanted.total()
        count["code kept"] += (wanted & got).total()
        named = Counter(one for one in truth.code if one[0])
        count["named"] += named.total()
        count["named kept"] += (named & Counter(left.code)).total()
        cells = Counter(cell for table in truth.tables for row in table for cell in row)
        ours = Counter(cell for table in left.tables for row in table for cell in row)
        count.update(
            {"cells": cells.total(), "cells written": ours.total(), "cells kept": (cells & ours).total()}
        )
        rows = Counter(tuple(row) for table in left.tables for row in table)
        count["tables"] += len(truth.tables)
        count["tables kept"] += sum(all(rows[tuple(row)] for row in table) for table in truth.tables)
        flat = "".join(html.unescape(text).split())
        count["formulas"] += len(truth.formulas)
        count["formulas kept"] += sum(formula in flat for formula in truth.formulas)
    return count


def shown(name: str, count: Counter[str]) -> dict[str, str | float]:
    def share(part: str, whole: str) -> str:
        return f"{count[part] / max(1, count[whole]):.3f}"

    kept = 2 * count["cells kept"] / max(1, count["cells"] + count["cells written"])
    return {
        "extractor": name,
        f"code of {count['code']:,}": share("code kept", "code"),
        f"with language, of {count['named']:,}": share("named kept", "named"),
        f"tables of {count['tables']:,}": share("tables kept", "tables"),
        "F1 of cells": f"{kept:.3f}",
        f"formulas in text, of {count['formulas']:,}": share("formulas kept", "formulas"),
    }


def with_structure(folder: Path) -> list[str]:
    """Return some pages of a folder that have code, tables or formulas, evenly taken, as many of each package."""
    found, packages = list[str](), sorted(one for one in folder.iterdir() if one.is_dir())
    for package in packages:
        files = sorted(one for one in package.rglob("*.html") if not one.is_symlink())
        texts = (one.read_text("utf-8", "replace") for one in files)
        fit = [
            text for text in texts if len(text) < 1_000_000 and re.search(r'<pre|<table|class="math', text)
        ]
        found += fit[:: max(1, -(-len(fit) * len(packages) // PAGES))]
    return found


def sphinx_sources(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield pages with the literal blocks of their sources."""
    for source in sorted(folder.rglob("_sources/**/*.rst.txt")):
        root = next(one for one in source.parents if one.name == "_sources").parent
        page = root / source.relative_to(root / "_sources").with_suffix("").with_suffix(".html")
        if page.exists():
            yield page.read_text("utf-8", "replace"), literal_blocks(source.read_text("utf-8", "replace"))


def literal_blocks(source: str) -> list[str]:
    """Return the blocks of reStructuredText that `::` or a directive for code announces."""
    found, rows = list[str](), source.expandtabs(8).split("\n")
    for k, row in enumerate(rows):
        directive = re.match(r"^\s*\.\. (?:code-block|sourcecode|highlight-block)::", row)
        if not directive and (not row.rstrip().endswith("::") or row.lstrip().startswith("..")):
            continue
        margin, body = len(row) - len(row.lstrip()), list[str]()
        for line in rows[k + 1 :]:
            if line.strip() and len(line) - len(line.lstrip()) <= margin:
                break
            body.append(line)
        while body and (not body[0].strip() or (directive and body[0].strip().startswith(":"))):
            body.pop(0)
        inner = [len(line) - len(line.lstrip()) for line in body if line.strip()]
        if inner:
            found.append(lines("\n".join(line[min(inner) :] for line in body)))
    return [one for one in found if "doctest:" not in one]


def by_sources(folder: Path) -> list[dict[str, str | float]]:
    pages = [(page, Counter(blocks)) for page, blocks in sphinx_sources(folder)]
    total, rows = sum(blocks.total() for _, blocks in pages), list[dict[str, str | float]]()
    for name, one in extractors().items():
        kept = sum(
            (blocks & Counter(code for _, code in one.structure(one.extract(page)).code)).total()
            for page, blocks in pages
        )
        rows.append(
            {"extractor": name, f"code blocks of {total:,} in sources": f"{kept / max(1, total):.3f}"}
        )
    return rows


def main(folder: Path, katex: Path | None = None) -> None:
    pages = with_structure(folder)
    show(
        f"Structure, {len(pages):,} pages",
        [shown(name, counted(pages, one)) for name, one in extractors().items()],
    )
    show("Code by its sources", by_sources(folder))
    if katex:
        from benchmarks.formulas import by_katex  # late: it needs this module

        show("Formulas by KaTeX", by_katex(pages, katex))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*map(Path, sys.argv[1:]))
