"""Bounds of all input from outside: sizes, counts, depths and ratios, in one frozen record.

Each bound is checked while the input is decoded, before memory or time is spent on it. A value is about ten times
the largest of many real inputs, except where a library or a format sets a lower one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any


def bound(value: int, unit: str, description: str) -> Any:
    """Return a field of `Limits` with its unit and description, which docs/limits.md lists."""
    return field(default=value, metadata={"unit": unit, "description": description})


@dataclass(frozen=True)
class Limits:
    """The bounds. Code reads them with `limits()`; tests replace them with `replaced_limits`."""

    # Compressed input and HTTP bodies.

    # Records of WARC files and pages.

    # HTML.

    # LaTeX and e-prints.

    # Wikitext and dumps of MediaWiki.

    # Rows of Parquet, Arrow, JSON Lines, CSV and text files.

    # Lists, deny lists, evaluation sets, tokenizers and models.

    # Expressions.
    expression_characters: int = bound(20_000, "characters", "An expression of `keep` or `where`.")
    expression_levels: int = bound(200, "parts", "Parts of an expression, nested or in a row.")
    expression_growth: int = bound(256, "times", "A text that an expression makes, by its row's text.")
    expression_padding: int = bound(1000, "characters", "A text that `lpad` or `rpad` fills up.")
    expression_joined: int = bound(32, "texts", "Texts and numbers that an expression joins or adds.")
    expression_sql: int = bound(100_000, "characters", "The SQL that an expression is translated into.")


LIMITS = Limits()


def limits() -> Limits:
    """Return the bounds in force."""
    return LIMITS


@contextmanager
def replaced_limits(**values: int) -> Iterator[Limits]:
    """Replace some bounds in this process, and in the processes that it forks, until the block ends."""
    global LIMITS
    before = LIMITS
    LIMITS = replace(before, **values)
    try:
        yield LIMITS
    finally:
        LIMITS = before
