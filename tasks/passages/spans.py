"""Spans: sets of intervals of bytes, of the repeated passages of texts, and of what is cut of them.

A set of spans is two ascending arrays, (n,) int64 each: begins, and ends, each at most the next begin.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


class Spans(NamedTuple):
    """A set of bytes: disjoint, ascending intervals."""

    starts: Places
    stops: Places

    @property
    def sizes(self) -> Places:
        return self.stops - self.starts


def none() -> Spans:
    return Spans(np.empty(0, np.int64), np.empty(0, np.int64))


def union(starts: Places, stops: Places) -> Spans:
    """Return the union of intervals in any order; intervals that touch each other are joined."""
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    is_filled = stops > starts
    starts, stops = starts[is_filled], stops[is_filled]
    if not len(starts):
        return none()
    reach = np.maximum.accumulate(stops)
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = starts[1:] > reach[:-1]
    firsts = np.flatnonzero(is_first)
    return Spans(starts[firsts], reach[np.append(firsts[1:], len(starts)) - 1])


def both(a: Spans, b: Spans) -> Spans:
    return union(np.concatenate([a.starts, b.starts]), np.concatenate([a.stops, b.stops]))


def without(a: Spans, b: Spans) -> Spans:
    """Return the bytes of a that are not in b."""
    if not (len(a.starts) and len(b.starts)):
        return a
    borders = np.concatenate([a.starts, a.stops, b.starts, b.stops])
    change = np.repeat([1, -1, -2, 2], [len(a.starts), len(a.stops), len(b.starts), len(b.stops)])
    order = np.argsort(borders, kind="stable")
    level = np.cumsum(change[order])
    borders = borders[order]
    is_inside = level[:-1] == 1
    return union(borders[:-1][is_inside], borders[1:][is_inside])


def divided(a: Spans, borders: Places) -> Spans:
    """Return a with spans divided at some places, ascending; so the spans may touch each other."""
    inside = borders[covered(a, borders) & ~np.isin(borders, a.starts)]
    return Spans(np.sort(np.concatenate([a.starts, inside])), np.sort(np.concatenate([a.stops, inside])))


def covered(a: Spans, places: Places) -> NDArray[np.bool_]:
    """Return which bytes are in a: (n,)."""
    at = np.searchsorted(a.starts, places, side="right") - 1
    if not len(a.starts):
        return np.zeros(len(places), np.bool_)
    return (at >= 0) & (places < a.stops[at])


def bytes_before(a: Spans, places: Places) -> Places:
    """Return how many bytes of a are before each place: (n,)."""
    sums = np.concatenate([[0], np.cumsum(a.sizes)])
    at = np.searchsorted(a.starts, places, side="right")
    beyond = (
        np.where(at > 0, np.maximum(0, a.stops[np.maximum(at, 1) - 1] - places), 0) if len(a.starts) else 0
    )
    return np.asarray(sums[at] - beyond, np.int64)


def grown(a: Spans, starts: Places, stops: Places, contents: Places, limits: Spans) -> Spans:
    """Return a, grown to the segments that it touches, and up to the next byte of `limits`.

    starts, stops: (s,) of consecutive segments. contents: their stops without the punctuation and white space at
    their ends. A segment of which a span has only this end is not touched, and the span begins after it. limits:
    spans that a does not touch.
    """
    if not len(a.starts) or not len(starts):
        return a
    first = np.maximum(np.searchsorted(starts, a.starts, side="right") - 1, 0)
    last = np.maximum(np.searchsorted(starts, a.stops, side="left") - 1, 0)
    is_before = stops[first] <= a.starts
    begins = np.where(is_before, a.starts, np.minimum(starts[first], a.starts))
    has_only_end = ~is_before & (starts[first] < a.starts) & (contents[first] <= a.starts)
    begins = np.where(has_only_end, stops[first], begins)
    ends = np.maximum(stops[last], a.stops)
    if len(limits.starts):
        before = np.searchsorted(limits.stops, a.starts, side="right")
        after = np.searchsorted(limits.starts, a.stops, side="left")
        begins = np.where(before > 0, np.maximum(begins, limits.stops[np.maximum(before, 1) - 1]), begins)
        last_limit = len(limits.starts) - 1
        ends = np.where(
            after <= last_limit, np.minimum(ends, limits.starts[np.minimum(after, last_limit)]), ends
        )
    is_left = begins < ends
    return union(begins[is_left], ends[is_left])
