"""Measure how much of the code, tables and formulas of documentation pages extractors keep.

FOLDER has a folder of HTML for each package, for example unpacked packages of documentation. At most 2,000 pages
with code, tables or formulas are taken, evenly from all packages. The right answers are those of another parser,
lxml.
`benchmarks.formulas` measures rendered formulas.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import lxml.html
from resiliparse.extract.html2text import extract_plain_text

from benchmarks.harness import InputFolder, Row, Table, benchmark
from zyda_flows.tasks.extraction.structured import structured_text

PAGES = 2000
FENCE = re.compile(r"^([ ]*)(`{3,})([^\n`]*)\n(.*?)^[ ]*\2[ ]*$", re.MULTILINE | re.DOTALL)
PRE = re.compile(r"<pre>(.*?)</pre>", re.DOTALL)
TABLE_ROW = re.compile(r"^ *\|(.*)\| *$", re.MULTILINE)
TABLE_RULE = re.compile(r"[|\s:-]+")
# Classes of navigation by DocBook, Sphinx and Texinfo.
NAVIGATION = {
    "navheader", "navfooter", "related", "nav-panel", "index-entries-printindex", "index-cp", "index-vr",
    "index-fn", "menu", "indextable", "genindextable", "modindextable",
}  # fmt: skip
NO_LANGUAGE = ("default", "none", "text")
FORMULA = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
NO_LETTER = re.compile(r"\W+|_")


@dataclass
class Structure:
    """Code as (language, text), tables as rows of cells without empty cells, formulas as text."""

    code: list[tuple[str, str]] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)


def classes(element: lxml.html.HtmlElement) -> set[str]:
    return {*(element.get("class") or "").split()}


def structure_by_lxml(source: str) -> Structure:
    tree = lxml.html.document_fromstring(source.encode(), parser=lxml.html.HTMLParser(encoding="utf-8"))
    formulas = [
        "".join("".join(parts).split())
        for element in tree.xpath('//*[contains(concat(" ", @class, " "), " math ")]')
        for parts in FORMULA.findall(element.text_content())
    ]
    tables = [rows_of(table) for table in tree.iter("table") if is_data(table)]
    return Structure(
        code=[(language_of(pre), text) for pre in tree.iter("pre") if (text := trim(pre.text_content()))],
        tables=[
            [[cell for cell in row if cell] for row in rows if any(row)]
            for rows in tables
            if len(rows) > 1 and max(map(len, rows)) > 1
        ],
        formulas=formulas,
    )


def language_of(pre: lxml.html.HtmlElement) -> str:
    """Return the language of Sphinx's highlighting, or nothing."""
    names = " ".join(element.get("class") or "" for element in pre.iterancestors("div"))
    named = re.search(r"highlight-([\w+-]+)", names)
    language = named[1].replace("python3", "python").replace("c++", "cpp") if named else ""
    return "" if language in NO_LANGUAGE else language


def is_data(table: lxml.html.HtmlElement) -> bool:
    """Return whether a table is neither navigation nor a layout around other tables."""
    is_navigation = any(NAVIGATION & classes(element) for element in (table, *table.iterancestors()))
    return not is_navigation and table.find(".//table") is None


def rows_of(table: lxml.html.HtmlElement) -> list[list[str]]:
    return [
        [letters(cell.text_content()) for cell in row if cell.tag in {"td", "th"}] for row in table.iter("tr")
    ]


def trim(text: str) -> str:
    """Return text without empty lines around it and without white space at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.replace("\xa0", " ").split("\n")).strip("\n")


def letters(text: str) -> str:
    return NO_LETTER.sub("", text.replace("<br>", " "))


def structure_of_markdown(text: str) -> Structure:
    code = [
        (language.strip(), trim("\n".join(line.removeprefix(indent) for line in body.split("\n"))))
        for indent, _, language, body in FENCE.findall(text)
    ]
    rows = [
        [letters(cell) for cell in re.split(r"(?<!\\)\|", match[1])]
        for match in TABLE_ROW.finditer(FENCE.sub("", text))
        if not TABLE_RULE.fullmatch(match[0])
    ]
    return Structure(code=code, tables=[[[cell for cell in row if cell] for row in rows]])


def structure_of_minimal_html(text: str) -> Structure:
    return Structure(
        code=[("", trim(html.unescape(re.sub("<[^>]*>", "", body)))) for body in PRE.findall(text)]
    )


@dataclass
class Extractor:
    """An extractor, and the function that reads the structure of its texts."""

    extract: Callable[[str], str]
    structure: Callable[[str], Structure]


def extractors() -> dict[str, Extractor]:
    known = {
        "ours, structured": Extractor(structured_text, structure_of_markdown),
        "resiliparse, minimal_html": Extractor(
            lambda page: extract_plain_text(page, main_content=True, preserve_formatting="minimal_html"),
            structure_of_minimal_html,
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
        by_trafilatura = lambda page: extract(page, **options) or ""  # noqa: E731
        known["trafilatura, markdown"] = Extractor(by_trafilatura, structure_of_markdown)
    return known


def count_kept(pages: list[str], extractor: Extractor) -> Counter[str]:
    """Count the structures of pages, and those that an extractor keeps ("... kept")."""
    count: Counter[str] = Counter()

    def add(name: str, wanted: Counter[object], got: Counter[object]) -> None:
        count.update({name: wanted.total(), f"{name} kept": (wanted & got).total()})

    for page in pages:
        truth, text = structure_by_lxml(page), extractor.extract(page)
        structure = extractor.structure(text)
        add("code", Counter(code for _, code in truth.code), Counter(code for _, code in structure.code))
        add("named", Counter(code for code in truth.code if code[0]), Counter(structure.code))
        written = cells_of(structure)
        add("cells", cells_of(truth), written)
        count["cells written"] += written.total()
        rows = Counter(tuple(row) for table in structure.tables for row in table)
        count["tables"] += len(truth.tables)
        count["tables kept"] += sum(all(rows[tuple(row)] for row in table) for table in truth.tables)
        flat = "".join(html.unescape(text).split())
        count["formulas"] += len(truth.formulas)
        count["formulas kept"] += sum(formula in flat for formula in truth.formulas)
    return count


def cells_of(structure: Structure) -> Counter[object]:
    return Counter(cell for table in structure.tables for row in table for cell in row)


def row_of(name: str, count: Counter[str]) -> Row:
    def share(part: str) -> str:
        return f"{count[f'{part} kept'] / max(1, count[part]):.3f}"

    kept = 2 * count["cells kept"] / max(1, count["cells"] + count["cells written"])
    return {
        "extractor": name, f"code of {count['code']:,}": share("code"),
        f"with language, of {count['named']:,}": share("named"),
        f"tables of {count['tables']:,}": share("tables"), "F1 of cells": f"{kept:.3f}",
        f"formulas in text, of {count['formulas']:,}": share("formulas"),
    }  # fmt: skip


def read_pages(folder: Path) -> list[str]:
    """Return pages with code, tables or formulas, evenly taken, and equally many of each package."""
    pages, packages = list[str](), sorted(package for package in folder.iterdir() if package.is_dir())
    for package in packages:
        files = sorted(path for path in package.rglob("*.html") if not path.is_symlink())
        texts = (path.read_text("utf-8", "replace") for path in files)
        fit = [
            text for text in texts if len(text) < 1_000_000 and re.search(r'<pre|<table|class="math', text)
        ]
        pages += fit[:: max(1, -(-len(fit) * len(packages) // PAGES))]
    return pages


@benchmark("structure", as_worker=False)
def measure(folder: InputFolder) -> Iterator[Table]:
    pages = read_pages(folder)
    rows = [row_of(name, count_kept(pages, extractor)) for name, extractor in extractors().items()]
    yield Table(f"Structure, {len(pages):,} pages", rows)


if __name__ == "__main__":
    measure.main()
