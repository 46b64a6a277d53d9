"""The cleanings of a recipe: change texts in a fixed order, and count the changes."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.storage.counts import CleaningCounts
from zyda_flows.textkernels.texts.cleaning import (
    ZYDA1,
    with_newlines,
    without_control_characters,
    without_long_runs,
)

PERSONAL_VERSION = "1"  # raised when the detection of personal data changes
Changed = tuple[pa.LargeStringArray, NDArray[np.bool_]]


class Clean(Protocol):
    """Changes texts: returns the texts, and a mask of the changed texts, (n,) bool."""

    def __call__(self, texts: pa.LargeStringArray, /) -> Changed: ...


def cleanings(cleaning: Mapping[str, Any], is_markdown: bool) -> Iterator[Clean]:
    """Yield the changes of a Cleaning, given as a mapping. is_markdown: line rules change prose only."""
    if cleaning["unicode"]:
        from zyda_flows.textkernels.texts.repair import repair_texts  # late: it imports ftfy

        yield partial(
            repair_texts, options=cleaning["unicode"] if isinstance(cleaning["unicode"], dict) else {}
        )
    if cleaning["newlines"]:
        yield with_newlines
    if cleaning["control_characters"]:
        yield without_control_characters
    if cleaning["runs"]:
        yield partial(without_long_runs, longest=ZYDA1 if cleaning["runs"] == "zyda1" else cleaning["runs"])
    if lines := cleaning["lines"]:
        from zyda_flows.textkernels.texts.line_rules import without_c4_lines, without_refinedweb_lines
        from zyda_flows.textkernels.texts.markdown import with_clean_prose

        by_line: Clean = without_refinedweb_lines
        if lines["rules"] == "c4":
            by_line = partial(without_c4_lines, terminal=lines["terminal_punctuation"])
        yield partial(with_clean_prose, clean=by_line) if is_markdown else by_line


def clean_texts(
    texts: pa.LargeStringArray, cleaning: Mapping[str, Any], is_markdown: bool = False
) -> tuple[pa.LargeStringArray, NDArray[np.bool_], dict[str, CleaningCounts]]:
    """Make all changes of a Cleaning.

    Returns the texts, a mask of the changed texts, (n,) bool, and counts of personal data by kind.
    """
    is_changed = np.zeros(len(texts), np.bool_)
    for clean in cleanings(cleaning, is_markdown):
        texts, changed_now = clean(texts)
        is_changed |= changed_now
    if not (kinds := cleaning.get("pii")):
        return texts, is_changed, {}
    texts, changed_now, counts = without_personal_data(texts, kinds)
    return texts, is_changed | changed_now, counts


def without_personal_data(
    texts: pa.LargeStringArray, kinds: Mapping[str, bool | str]
) -> tuple[pa.LargeStringArray, NDArray[np.bool_], dict[str, CleaningCounts]]:
    """Replace personal data. kinds: by kind, a replacement, or true for the default replacement.

    Returns the texts, a mask of the changed texts, (n,) bool, and counts by kind.
    """
    from zyda_flows.textkernels.texts.personal import KINDS, replace_matches  # late: compiled kernels

    result, counts = texts, dict[str, CleaningCounts]()
    for name, kind in KINDS.items():
        if name in kinds:
            replacement, before = kinds[name], result
            result, numbers = replace_matches(before, kind, None if replacement is True else str(replacement))
            counts[name] = cleaning_counts(before, result, numbers > 0, int(numbers.sum()))
    is_same = pc.fill_null(pc.equal(result, texts), True)  # columns other than the text have nulls
    return result, ~is_same.to_numpy(zero_copy_only=False), counts


def cleaning_counts(
    before: pa.LargeStringArray, after: pa.LargeStringArray, is_changed: NDArray[np.bool_], replaced: int = 0
) -> CleaningCounts:
    """Return counts of changed texts and of their characters. is_changed: (n,) bool."""
    if not is_changed.all():
        before, after = (texts.filter(pa.array(is_changed)) for texts in (before, after))
    characters = [pc.sum(pc.utf8_length(texts)).as_py() or 0 for texts in (before, after)]
    return CleaningCounts(
        documents=int(is_changed.sum()),
        characters_before=characters[0],
        characters_after=characters[1],
        replaced=replaced,
    )
