"""Clean texts line by line, by the rules of C4 and of RefinedWeb.

C4's rules are datatrove's, RefinedWeb's rules are DCLM-Baseline's. Texts that do not change are not copied.
"""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.textkernels.buffers import roomy_buffers
from zyda_flows.textkernels.counts import Counts, named_counts
from zyda_flows.textkernels.rules import c4_lines, refined_lines
from zyda_flows.textkernels.rules.breaks import line_breaks
from zyda_flows.textkernels.texts.english import token_classes

COUNTER = re.compile(
    r"\W*\d[\d,.]*[kmb]?\s+(?:likes|shares|comments|retweets|reposts|quotes|bookmarks|upvotes|downvotes|downloads"
    r"|views|followers)\W*"
)
PHRASES = (
    re.compile(r"\s?items in cart", re.IGNORECASE),
    re.compile(r"\s?read more...$", re.IGNORECASE),  # any three characters, as in DCLM
    re.compile(r"^sign-in\s?", re.IGNORECASE),
)
WORD = re.compile(r"[^ \t-\r\0]+")
REFINED = named_counts("words", "removed_words")
Places = NDArray[np.int64]


def without_c4_lines(
    texts: pa.LargeStringArray, terminal: bool = True
) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Return the texts with only the lines that C4 keeps, and which have changed, (n,) bool.

    Curly brackets and lorem ipsum, for which C4 removes a whole document, remove no lines. terminal: lines that do
    not end in a terminal punctuation mark are removed.
    """
    data, offsets = roomy_buffers(texts)
    is_changed, kept, ends = c4_lines.keep_c4_lines(
        data, offsets, token_classes(), terminal, line_breaks(data, offsets)
    )
    if not is_changed.any():
        return texts, is_changed
    return pc.replace_with_mask(texts, pa.array(is_changed), _column(kept, ends)), is_changed


def without_refinedweb_lines(texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, NDArray[np.bool_]]:
    """Return the texts with only the lines that DCLM's rules keep, and which have changed, (n,) bool."""
    data, offsets = roomy_buffers(texts)
    breaks = line_breaks(data, offsets)
    _, states, kept, ends = refined_lines.refine_lines(data, offsets, token_classes(), True, breaks)
    is_changed = states != refined_lines.AS_IT_IS
    if not is_changed.any():
        return texts, is_changed
    refined = _column(kept, ends)
    is_edited = states[is_changed] == refined_lines.EDITED
    if is_edited.any():
        changing = texts.filter(pa.array(is_changed))
        mask = pa.array(is_edited)
        edited = [refined_text(text) for text in changing.filter(mask).to_pylist()]
        refined = pc.replace_with_mask(refined, mask, pa.array(edited, pa.large_string()))
        is_changed[is_changed] = pc.not_equal(refined, changing).to_numpy(zero_copy_only=False)
    return pc.replace_with_mask(texts, pa.array(states > 0), refined), is_changed


def refined_words(data: NDArray[np.uint8], offsets: Places, breaks: Places) -> Counts:
    """Count REFINED of each document, (n,): its words, and the words that DCLM's rules for lines remove.

    breaks: from `line_breaks`.
    """
    words, states, _, _ = refined_lines.refine_lines(data, offsets, token_classes(), False, breaks)
    for place in np.flatnonzero(states == refined_lines.EDITED).tolist():
        text = data[offsets[place] : offsets[place + 1]].tobytes().decode()
        words[place, 1] = len([word for word in WORD.findall(refined_text(text)) if word[0].isalnum()])
    counts = np.empty(len(words), REFINED)
    counts["words"], counts["removed_words"] = words[:, 0], words[:, 0] - words[:, 1]
    return counts


def refined_text(text: str) -> str:
    """Apply DCLM's rules for lines to a text, by regular expressions: for the few texts with phrases to remove."""
    for is_dropped in (_is_loud, _is_numeric, _is_counter):
        text = "\n".join(line for line in text.split("\n") if not is_dropped(line)).strip()
    lines = [line for line in text.split("\n") if line == "" or len(line.split()) > 1]
    for phrase in PHRASES:
        lines = "\n".join(_without(phrase, lines)).strip().split("\n")
    return "\n".join(lines)


def _is_loud(line: str) -> bool:
    return 2 * sum(map(str.isupper, line)) > len(line)


def _is_numeric(line: str) -> bool:
    return line != "" and sum(map(str.isdigit, line)) / len(line) > refined_lines.MOST_NUMERALS


def _is_counter(line: str) -> bool:
    return COUNTER.fullmatch(line.lower()) is not None


def _without(phrase: re.Pattern[str], lines: list[str]) -> list[str]:
    """Remove a phrase from lines of few words, and lines that are empty without it."""
    left = [phrase.sub("", line) if len(line.split()) <= refined_lines.MOST_WORDS else line for line in lines]
    return [new for old, new in zip(lines, left, strict=True) if old == "" or (new and not new.isspace())]


def _column(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> pa.LargeStringArray:
    return pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data))
