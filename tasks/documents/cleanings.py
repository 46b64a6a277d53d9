"""Cleaning as a recipe asks for it: what is to be done to a text, in one order, and how much was done."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.storage.artifacts import CleaningCounts
from zyda_flows.textkernels.texts.cleaning import (
    ZYDA1,
    with_newlines,
    without_control_characters,
    without_long_runs,
)

PERSONAL_VERSION = "1"  # raised when other personal data is found in a text
Changed = tuple[pa.LargeStringArray, NDArray[np.bool_]]


class Clean(Protocol):
    """Changes texts: returns them, and which are others now, (n,) bool."""

    def __call__(self, texts: pa.LargeStringArray, /) -> Changed: ...


def cleanings(cleaning: Mapping[str, Any], is_markdown: bool) -> Iterator[Clean]:
    """Return what a recipe's Cleaning, as a mapping, asks for. is_markdown: of its lines, those of prose."""
    if cleaning["unicode"]:
        from zyda_flows.textkernels.texts.repair import repair_texts  # ftfy: where it is wanted

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
    """Do all that a recipe's Cleaning asks for; return the texts, which changed, and counts of parts by name."""
    is_changed = np.zeros(len(texts), np.bool_)
    for clean in cleanings(cleaning, is_markdown):
        texts, by_this = clean(texts)
        is_changed |= by_this
    if not (kinds := cleaning.get("pii")):
        return texts, is_changed, {}
    left, by_this, counts = without_personal_data(texts, kinds)
    return left, is_changed | by_this, counts


def without_personal_data(
    texts: pa.LargeStringArray, kinds: Mapping[str, bool | str]
) -> tuple[pa.LargeStringArray, NDArray[np.bool_], dict[str, CleaningCounts]]:
    """Replace kinds of personal data, true by what is usual; return what `clean_texts` does, counts by kind."""
    from zyda_flows.textkernels.texts.personal import (  # late: compiled kernels, where they are wanted
        KINDS,
        replace_matches,
    )

    left, counts = texts, dict[str, CleaningCounts]()
    for name, kind in KINDS.items():
        if name in kinds:
            said, before = kinds[name], left
            left, numbers = replace_matches(before, kind, None if said is True else str(said))
            counts[name] = cleaning_counts(before, left, numbers > 0, int(numbers.sum()))
    is_same = pc.fill_null(pc.equal(left, texts), True)  # a null of a column beside the text
    return left, ~is_same.to_numpy(zero_copy_only=False), counts


def cleaning_counts(
    before: pa.LargeStringArray, after: pa.LargeStringArray, is_changed: NDArray[np.bool_], replaced: int = 0
) -> CleaningCounts:
    """Count the texts that a cleaning changed, (n,) bool, and their characters."""
    if not is_changed.all():
        before, after = (texts.filter(pa.array(is_changed)) for texts in (before, after))
    characters = [pc.sum(pc.utf8_length(texts)).as_py() or 0 for texts in (before, after)]
    return CleaningCounts(
        documents=int(is_changed.sum()),
        characters_before=characters[0],
        characters_after=characters[1],
        replaced=replaced,
    )
