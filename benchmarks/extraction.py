"""The main content of web pages: precision, recall and speed beside other extractors, what is left of structure.

python -m benchmarks.extraction FOLDER [PAGES_WITH_STRUCTURE [KATEX]]

FOLDER has `pages.warc.gz`, pages as WARC responses, and `truth.json`: by address, the strings that must (`with`)
and must not (`without`) be in the text. Counted over strings, as trafilatura's evaluation does; trafilatura is
measured where it is installed. On one core, in CPU time. The rest is of `benchmarks.structure`.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text

from benchmarks.measure import show
from zyda_flows.tasks.extraction.decoding import decoded
from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text

Extract = Callable[[str], str]


def pages_of(folder: Path) -> dict[str, str]:
    """Return the pages of a folder by address."""
    with (folder / "pages.warc.gz").open("rb") as file:
        records = ArchiveIterator(file, record_types=WarcRecordType.response)
        return {
            one.headers["WARC-Target-URI"]: decoded(one.reader.read(), one.http_charset) for one in records
        }


def truth_of(folder: Path) -> dict[str, dict[str, list[str]]]:
    said = json.loads((folder / "truth.json").read_text())
    return {address.strip(): strings for address, strings in said.items()}


def scores(texts: dict[str, str], truth: dict[str, dict[str, list[str]]]) -> tuple[float, float, float]:
    """Return precision, recall and F1 over the strings."""
    right = wrong = missed = 0
    for address, text in texts.items():
        found = sum(string in text for string in truth[address]["with"])
        right, missed = right + found, missed + len(truth[address]["with"]) - found
        wrong += sum(string in text for string in truth[address]["without"])
    precision, recall = right / max(1, right + wrong), right / max(1, right + missed)
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def extractors() -> dict[str, Extract]:
    found: dict[str, Extract] = {
        "resiliparse, everything": extract_plain_text,
        "resiliparse, main content": lambda html: extract_plain_text(html, main_content=True),
        "resiliparse, minimal_html": lambda html: extract_plain_text(
            html, main_content=True, preserve_formatting="minimal_html"
        ),
        "ours, fast": main_content,
        "ours, structured": structured_text,
    }
    with suppress(ImportError):
        from trafilatura import extract

        found["trafilatura, fast"] = lambda html: extract(html, fast=True) or ""
    return found


def timed(extract: Extract, pages: dict[str, str]) -> tuple[dict[str, str], float]:
    """Extract all pages, after one to warm up; return the texts and the seconds of CPU time."""
    extract(next(iter(pages.values())))
    start = time.process_time()
    texts = {address: extract(html) for address, html in pages.items()}
    return texts, time.process_time() - start


def main(folder: Path, structure: Path | None = None, katex: Path | None = None) -> None:
    pages, truth = pages_of(folder), truth_of(folder)
    size = sum(len(html.encode()) for html in pages.values()) / 1e6
    rows: list[dict[str, str | float]] = []
    for name, extract in extractors().items():
        texts, seconds = timed(extract, pages)
        precision, recall, f1 = (f"{share:.3f}" for share in scores(texts, truth))
        rows.append(
            {"extractor": name, "MB/s": size / seconds, "precision": precision, "recall": recall, "F1": f1}
        )
    show(f"Extraction, {len(pages):,} pages, {size:.1f} MB, one core", rows)
    if structure:
        from benchmarks.structure import main as of_structure  # needs lxml

        of_structure(structure, katex)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    main(*map(Path, sys.argv[1:]))
