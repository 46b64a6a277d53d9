"""The bounds of rules, and the rules that documents break by their statistics."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.rule_settings import Limits
from zyda_flows.tasks.storage.records import Record


class Bound(Record):
    """A rule: a column of the statistics, and the values of documents that are kept.

    A bound without `low`, `high` and `languages` removes every document whose column is not null; that text is
    published as `note`. by_language: low and high by language, in place of `low` and `high`. languages: the column
    of the statistics with the language of each document.
    """

    rule: str
    column: str
    low: float | None = None
    high: float | None = None
    languages: str = ""
    by_language: dict[str, Limits] = {}

    @property
    def is_noted(self) -> bool:
        return self.low is None and self.high is None and not self.languages


def breaks(columns: Mapping[str, pa.Array], bound: Bound) -> NDArray[np.bool_]:
    """Return which documents break a rule: (n,) bool. A document without the statistic breaks no rule."""
    column = columns[bound.column]
    if bound.is_noted:
        return pc.is_valid(column).to_numpy(zero_copy_only=False)
    values = column.to_numpy(zero_copy_only=False)  # null becomes nan, for which comparisons are false
    low, high = limits(columns, bound)
    return (values < low) | (values > high)


def limits(columns: Mapping[str, pa.Array], bound: Bound) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and highest values of documents that are kept, infinite for no limit: (n,) or () each.

    If the rule has limits by language, the limits of the language of each document.
    """
    pairs = np.array([(bound.low, bound.high), *bound.by_language.values()], np.float64)
    lows, highs = np.where(np.isnan(pairs), (-np.inf, np.inf), pairs).T
    if not bound.languages:
        return lows[0], highs[0]
    known = pa.array([*bound.by_language], pa.string())
    places = pc.index_in(columns[bound.languages], known).fill_null(-1).to_numpy() + 1
    return lows[places], highs[places]


def broken_rules(columns: Mapping[str, pa.Array], bounds: Sequence[Bound]) -> NDArray[np.bool_]:
    """Return the rules that each document breaks: (rules, n) bool."""
    n = len(next(iter(columns.values()))) if columns else 0
    rows = [breaks(columns, bound) for bound in bounds]
    return np.array(rows, np.bool_).reshape(len(bounds), n)


def first_broken(is_broken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the index of the first rule that each document breaks, or -1: (n,) int64. is_broken: (rules, n)."""
    if not len(is_broken):
        return np.full(is_broken.shape[1], -1)
    return np.where(is_broken.any(axis=0), is_broken.argmax(axis=0), -1)
