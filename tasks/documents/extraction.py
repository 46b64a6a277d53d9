"""Texts out of pages, wikitext and LaTeX, each by itself: what fails is a text of nothing, and has its reason."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.extraction.nesting import Bytes
from zyda_flows.tasks.storage.artifacts import CleaningCounts
from zyda_flows.textkernels.buffers import text_buffers

Extractor = Callable[[Bytes], str]  # of a text in UTF-8
FAILED = "failed"
LONGEST = 200  # characters of why one failed
VERSION = "1"  # raised when an extractor of ours gives other texts
MOST_REPLACED = 0.01  # share of characters that are U+FFFD, which stands for bytes in another encoding
MARKDOWN = ("structured", "wikitext", "latex")  # which write it
LIBRARIES = {"fast": "resiliparse", "structured": "resiliparse", "trafilatura": "trafilatura"}


def known_as(name: str) -> str:
    """Return an extractor with the versions its texts depend on. Raises ValueError where it is not installed."""
    library = LIBRARIES.get(name)
    try:
        return " ".join([name, VERSION, *([library, version(library)] if library else [])])
    except PackageNotFoundError as error:
        needed = f"extract: {library} is not installed here; pip install 'zyda-flows[{library}]'"
        raise ValueError(needed) from error


def extractor_named(name: str) -> Extractor:
    """Return an extractor of ours. It is imported late: most recipes need none."""
    if name == "fast":
        from zyda_flows.tasks.extraction.pages import main_content

        return main_content
    if name == "structured":
        from zyda_flows.tasks.extraction.structured import structured_text

        return structured_text
    if name == "trafilatura":
        from zyda_flows.tasks.extraction.by_trafilatura import trafilatura_text

        return trafilatura_text
    if name == "wikitext":
        from zyda_flows.tasks.extraction.wikitext import BACK_MATTER, text_of_wikitext

        return lambda text: text_of_wikitext(str(text.data, "utf-8"), BACK_MATTER)
    from zyda_flows.tasks.extraction.latex import text_of_latex

    return lambda text: text_of_latex(str(text.data, "utf-8"))


def whole(text: str) -> str:
    """Return a text; raise ValueError where too much of it was lost when its page was decoded."""
    if "\ufffd" in text and (lost := text.count("\ufffd")) > MOST_REPLACED * len(text):
        raise ValueError(
            f"{lost:,} of {len(text):,} characters are U+FFFD, expected at most {MOST_REPLACED:.0%}: "
            "its bytes are not in the encoding that the server or the page names"
        )
    return text


class Extracted(NamedTuple):
    """Extracted texts, (n,), why each failed that did, (n,) and null for the others, and how much it was."""

    texts: pa.LargeStringArray
    reasons: pa.StringArray
    counts: CleaningCounts


def extracted(texts: pa.LargeStringArray, name: str) -> Extracted:
    """Extract texts, (n,)."""
    extract = extractor_named(name)
    found, reasons, after = list[bytes](), list[str | None](), 0
    data, offsets = text_buffers(texts)
    for start, end in pairwise(offsets.tolist()):
        reason = None
        try:
            text = whole(extract(data[start:end]))
            found.append(text.encode())
            after += len(text)
        except Exception as error:  # noqa: BLE001 (whatever a page brings about in a library costs that page alone)
            found.append(b"")
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "  # ours say it all
            reason = f"{kind}{first_line(error)}"[:LONGEST]
        reasons.append(reason)
    before = pc.sum(pc.utf8_length(texts)).as_py() or 0
    counts = CleaningCounts(documents=len(texts), characters_before=before, characters_after=after)
    return Extracted(
        pa.array(found, pa.large_binary()).cast(pa.large_string()), pa.array(reasons, pa.string()), counts
    )
