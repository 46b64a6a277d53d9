"""Anchors of windows, by which windows that occur twice are found. Compiled by numba.

A text is a sequence of units, for example code points, each with two numbers: `values` and `lows`, which are
equal if a number identifies a unit. A window is `length` consecutive units. Its anchor is the rightmost smallest
hash of `width` consecutive units in it: winnowing (Schleimer, Wilkerson and Aiken, "Winnowing: Local Algorithms for
Document Fingerprinting", SIGMOD 2003). The anchor depends on the window only, so equal windows have equal anchors
at equal distances from their beginnings. Consecutive windows usually share an anchor. The context of an anchor is
the units of the windows that share it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.sketch import BASE, GOLDEN, ONE, roll
from zyda_flows.textkernels.utf8 import MIX_1, MIX_2, mix

WINDOWS_AT_ONCE = 1 << 18  # each may have an anchor of its own, in a text of equal letters
ZERO, LATER, LOWEST = np.uint64(0), np.uint64(29), np.uint64(255)
Values = NDArray[np.uint8] | NDArray[np.uint32] | NDArray[np.uint64]


class Anchors(NamedTuple):
    """Anchors, (n,) each: fingerprint (uint64), position of its first unit, first and last window (int64)."""

    fingerprints: NDArray[np.uint64]
    places: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lasts: NDArray[np.int64]

    def take(self, rows: NDArray[np.bool_] | slice) -> "Anchors":
        return Anchors(self.fingerprints[rows], self.places[rows], self.firsts[rows], self.lasts[rows])


def width_of(length: int) -> int:
    """Return the units that are hashed for windows of a length: wider hashes repeat less, but are more."""
    return max(1, length // 3)


@njit(cache=True, nogil=True)
def rightmost_least(hashes, first, last):
    """Return the last index in [first, last] with the smallest hash, and that hash."""
    place, least = first, hashes[first]
    for i in range(first + ONE, last + ONE):
        value = hashes[i]
        if value <= least:
            place, least = i, value
    return place, least


@njit(cache=True, nogil=True)
def _find_anchors(values, starts, stops, length, width, hashes, fingerprints, places, firsts, lasts):
    # Indices are unsigned: signed ones are tested for being negative.
    n, span, oldest = ZERO, np.uint64(length - width), ONE
    for _ in range(width):
        oldest *= BASE
    for part in range(starts.size):
        start, count = starts[part], np.uint64(stops[part] - starts[part])
        roll(values[start : stops[part] + length - 1], np.int64(count + span), width, oldest, hashes)
        for i in range(count + span):
            hashes[i] = mix(hashes[i])
        window = ZERO
        while window < count:  # a window without the anchor of the window before
            place, least = rightmost_least(hashes, window, window + span)
            newest = window + span
            while True:
                stop = min(place, count - ONE) + span  # of the last window with this anchor
                newest += ONE
                while newest <= stop and hashes[newest] > least:
                    newest += ONE
                # Mixed again: the smallest hashes are not evenly distributed.
                fingerprints[n], places[n] = mix(least + GOLDEN), start + np.int64(place)
                firsts[n], lasts[n] = start + np.int64(window), start + np.int64(newest - span) - 1
                n += ONE
                window = newest - span
                if newest > stop:
                    break
                place, least = newest, hashes[newest]
    return np.int64(n)


def find_anchors(values: Values, ends: NDArray[np.int64], length: int) -> Iterator[Anchors]:
    """Yield the anchors of all windows of some texts, of at most WINDOWS_AT_ONCE windows at a time.

    values: (n,) of all texts. ends: (t + 1,), where text i is values[ends[i]:ends[i + 1]]. An anchor whose windows
    are in two parts of a long text is yielded twice.
    """
    width = width_of(length)
    scratch = np.empty(WINDOWS_AT_ONCE + length, np.uint64)
    for starts, stops in window_parts(ends, length):
        size = int((stops - starts).sum())
        found = Anchors(np.empty(size, np.uint64), *np.empty((3, size), np.int64))
        n = _find_anchors(values, starts, stops, length, width, scratch, *found)
        yield found.take(slice(n))


def window_parts(
    ends: NDArray[np.int64], length: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield ranges of windows, at most WINDOWS_AT_ONCE, each of a text: starts and stops, (m,) each."""
    counts = np.maximum(0, np.diff(ends) - length + 1)
    pieces = -(-counts // WINDOWS_AT_ONCE)
    text = np.repeat(np.arange(len(counts)), pieces)
    number = np.arange(len(text)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = ends[text] + number * WINDOWS_AT_ONCE
    stops = np.minimum(starts + WINDOWS_AT_ONCE, ends[text] + counts[text])
    at, sums = 0, np.concatenate([[0], np.cumsum(stops - starts)])
    while at < len(starts):
        to = int(np.searchsorted(sums, sums[at] + WINDOWS_AT_ONCE, side="right")) - 1
        yield starts[at:to], stops[at:to]
        at = to


@njit(cache=True, nogil=True)
def _context_keys(values, lows, places, firsts, lasts, fingerprints, length, keys):
    # Units from the first of context i up to `equal` are known to equal those `distance` before.
    distance, equal = np.int64(0), np.int64(0)
    for i in range(places.size):
        if i and fingerprints[i] == fingerprints[i - 1]:
            if firsts[i] - firsts[i - 1] != distance:
                distance, equal = firsts[i] - firsts[i - 1], firsts[i]
            equal, stop = max(equal, firsts[i]), lasts[i] + length
            while equal < stop and values[equal] == values[equal - distance]:
                if lows[equal] != lows[equal - distance]:
                    break
                equal += 1
            if (
                equal >= stop
                and places[i] - places[i - 1] == distance
                and lasts[i] - lasts[i - 1] == distance
            ):
                keys[i] = keys[i - 1]
                continue
        high = mix(fingerprints[i] + np.uint64(places[i] - firsts[i]))
        low = mix(fingerprints[i] ^ np.uint64(lasts[i] - firsts[i] + 1) * GOLDEN)
        for k in range(firsts[i], lasts[i] + length):
            high = (high + np.uint64(values[k]) + ONE) * MIX_1
            high ^= high >> LATER
            low = (low ^ (np.uint64(lows[k]) + ONE)) * MIX_2
            low ^= low >> LATER
        keys[i, 0], keys[i, 1] = mix(high), mix(low)


@njit(cache=True, nogil=True)
def _unit_sizes(values, firsts, stops, sizes):
    for i in range(firsts.size):
        most = np.uint64(0)
        for k in range(firsts[i], stops[i]):
            most = max(most, np.uint64(values[k]))
        sizes[i] = 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4


@njit(cache=True, nogil=True)
def _write_units(values, lows, firsts, stops, sizes, data):
    at = 0
    for i in range(firsts.size):
        for k in range(firsts[i], stops[i]):
            value, low = np.uint64(values[k]), np.uint64(lows[k])
            for byte in range(min(sizes[i], 8)):
                data[at + byte] = value >> np.uint64(8 * byte) & LOWEST
                if sizes[i] == 16:
                    data[at + 8 + byte] = low >> np.uint64(8 * byte) & LOWEST
            at += sizes[i]


def units_as_bytes(
    values: Values, lows: Values, firsts: NDArray[np.int64], stops: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return ranges of units as bytes, with the offsets of the ranges, (n + 1,).

    A unit has 16 bytes if it has two numbers; otherwise 1, 2 or 4, by the largest of its range.
    """
    sizes = np.full(len(firsts), 16)
    if values is lows:
        _unit_sizes(values, firsts, stops, sizes)
    offsets = np.concatenate([[0], np.cumsum((stops - firsts) * sizes)]).astype(np.int64)
    data = np.empty(offsets[-1], np.uint8)
    _write_units(values, lows, firsts, stops, sizes, data)
    return data, offsets


def context_keys(values: Values, lows: Values, anchors: Anchors, length: int) -> NDArray[np.uint64]:
    """Hash the context of each anchor, and the place of the anchor in it, to 128 bits: (n, 2)."""
    keys = np.empty((len(anchors.places), 2), np.uint64)
    _context_keys(
        values, lows, anchors.places, anchors.firsts, anchors.lasts, anchors.fingerprints, length, keys
    )
    return keys
