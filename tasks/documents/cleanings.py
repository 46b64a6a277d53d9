"""Cleaning as a recipe asks for it: what is to be done to a text, in one order."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from textkernels.texts.cleaning import ZYDA1, with_newlines, without_control_characters, without_long_runs

Changed = tuple[pa.LargeStringArray, NDArray[np.bool_]]


class Clean(Protocol):
    """Changes texts: returns them, and which are others now, (n,) bool."""

    def __call__(self, texts: pa.LargeStringArray, /) -> Changed: ...


def cleanings(cleaning: Mapping[str, Any]) -> Iterator[Clean]:
    """Return what a recipe's Cleaning, as a mapping, asks for."""
    if cleaning["unicode"]:
        from textkernels.texts.repair import repaired  # ftfy: where it is wanted

        yield partial(repaired, options=cleaning["unicode"] if isinstance(cleaning["unicode"], dict) else {})
    if cleaning["newlines"]:
        yield with_newlines
    if cleaning["control_characters"]:
        yield without_control_characters
    if cleaning["runs"]:
        yield partial(without_long_runs, longest=ZYDA1 if cleaning["runs"] == "zyda1" else cleaning["runs"])
    if lines := cleaning["lines"]:
        from textkernels.texts.line_rules import without_c4_lines, without_refinedweb_lines

        if lines["rules"] == "c4":
            yield partial(without_c4_lines, terminal=lines["terminal_punctuation"])
        else:
            yield without_refinedweb_lines


def clean_texts(texts: pa.LargeStringArray, cleaning: Mapping[str, Any]) -> Changed:
    """Do all that a recipe's Cleaning asks for."""
    is_changed = np.zeros(len(texts), np.bool_)
    for clean in cleanings(cleaning):
        texts, by_this = clean(texts)
        is_changed |= by_this
    return texts, is_changed
