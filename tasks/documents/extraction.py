"""Texts out of pages, wikitext and LaTeX, each by itself: what fails is a text of nothing, and has its reason."""

from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.extraction.extractors import extractor_named
from zyda_flows.tasks.storage.artifacts import CleaningCounts
from zyda_flows.textkernels.buffers import text_buffers

FAILED = "failed"
LONGEST = 200  # characters of why one failed
MOST_REPLACED = 0.01  # share of characters that are U+FFFD, which stands for bytes in another encoding


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
    """Extract texts, (n,). Raises ValueError for an unknown name."""
    extract = extractor_named(name).load()
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
