"""Extract texts from pages, wikitext and LaTeX. A text whose extraction fails becomes empty and has a reason."""

from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.extraction.extractors import extractor_named
from zyda_flows.tasks.storage.counts import CleaningCounts
from zyda_flows.textkernels.buffers import text_buffers

FAILED = "failed"
LONGEST = 200  # characters of the reason of a failure
MOST_REPLACED = 0.01  # share of U+FFFD characters, which replace bytes in an unknown encoding


def check_decoded(text: str) -> str:
    """Return a text. Raises ValueError if too many of its characters were lost in decoding."""
    if "\ufffd" in text and (lost := text.count("\ufffd")) > MOST_REPLACED * len(text):
        raise ValueError(
            f"{lost:,} of {len(text):,} characters are U+FFFD, expected at most {MOST_REPLACED:.0%}: "
            "its bytes are not in the encoding that the server or the page declares"
        )
    return text


class ExtractedTexts(NamedTuple):
    """Extracted texts, (n,), the reason of each failure, (n,) or null, and counts of characters."""

    texts: pa.LargeStringArray
    reasons: pa.StringArray
    counts: CleaningCounts


def extract_texts(texts: pa.LargeStringArray, name: str) -> ExtractedTexts:
    """Extract texts, (n,), with the extractor `name`. Raises ValueError for an unknown name."""
    extract = extractor_named(name).load()
    extracts, reasons, after = list[bytes](), list[str | None](), 0
    data, offsets = text_buffers(texts)
    for start, end in pairwise(offsets.tolist()):
        reason = None
        try:
            text = check_decoded(extract(data[start:end]))
            extracts.append(text.encode())
            after += len(text)
        except Exception as error:  # noqa: BLE001 (an error of a library for a page must not stop the batch)
            extracts.append(b"")
            kind = (
                "" if type(error) is ValueError else f"{type(error).__name__}: "
            )  # our messages need no type
            reason = f"{kind}{first_line(error)}"[:LONGEST]
        reasons.append(reason)
    before = pc.sum(pc.utf8_length(texts)).as_py() or 0
    counts = CleaningCounts(documents=len(texts), characters_before=before, characters_after=after)
    return ExtractedTexts(
        pa.array(extracts, pa.large_binary()).cast(pa.large_string()), pa.array(reasons, pa.string()), counts
    )
