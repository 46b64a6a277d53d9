"""Measure the extraction of the main content of web pages: precision, recall and speed, beside other extractors.

FOLDER has `pages.warc.gz`, with pages as WARC responses, and `truth.json`: for each address the strings that the
text must contain (`with`) and must not contain (`without`). Strings are counted as in trafilatura's evaluation.
trafilatura is measured if it is installed. Times are CPU time of one core. `benchmarks.structure` measures code
and tables.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType
from resiliparse.extract.html2text import extract_plain_text

from benchmarks.harness import InputFolder, Table, benchmark, timed
from zyda_flows.tasks.extraction.decoding import decode_page
from zyda_flows.tasks.extraction.pages import main_content
from zyda_flows.tasks.extraction.structured import structured_text

Extract = Callable[[str], str]
Truth = dict[str, dict[str, list[str]]]


def read_pages(path: Path) -> dict[str, str]:
    """Return the pages of a WARC file by address."""
    with path.open("rb") as file:
        records = ArchiveIterator(file, record_types=WarcRecordType.response)
        return {
            record.headers["WARC-Target-URI"]: decode_page(record.reader.read(), record.http_charset)
            for record in records
        }


def scores(texts: dict[str, str], truth: Truth) -> tuple[float, float, float]:
    """Return precision, recall and F1 over the strings."""
    right = wrong = wanted = 0
    for address, text in texts.items():
        right += sum(string in text for string in truth[address]["with"])
        wanted += len(truth[address]["with"])
        wrong += sum(string in text for string in truth[address]["without"])
    precision, recall = right / max(1, right + wrong), right / max(1, wanted)
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def extractors() -> dict[str, Extract]:
    known: dict[str, Extract] = {
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

        known["trafilatura, fast"] = lambda html: extract(html, fast=True) or ""
    return known


@benchmark("extraction", as_worker=False)
def measure(folder: InputFolder) -> Iterator[Table]:
    pages = read_pages(folder / "pages.warc.gz")
    truth = {
        address.strip(): strings
        for address, strings in json.loads((folder / "truth.json").read_text()).items()
    }
    size = sum(len(html.encode()) for html in pages.values()) / 1e6
    rows = []
    for name, extract in extractors().items():
        extract(next(iter(pages.values())))  # compiles
        texts, seconds = timed(
            lambda extract=extract: {address: extract(html) for address, html in pages.items()},
            time.process_time,
        )
        precision, recall, f1 = (f"{share:.3f}" for share in scores(texts, truth))
        rows.append(
            {"extractor": name, "MB/s": size / seconds, "precision": precision, "recall": recall, "F1": f1}
        )
    yield Table(f"Extraction, {len(pages):,} pages, {size:.1f} MB, one core", rows)


if __name__ == "__main__":
    measure.main()
