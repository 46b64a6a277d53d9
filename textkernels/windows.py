"""Equal windows in the contexts of equal anchors, with their owners. Compiled by numba.

Windows are compared by two polynomials in their units modulo the prime 2**61 - 1, in two bases, together 122 bits.
Two different windows of L units agree in a polynomial with a probability of at most L / 2**61 (Karp and Rabin,
1987), in both of at most L**2 / 2**122. If all pairs of 10**13 windows were compared, 10**-5 false pairs would be
expected at L = 1,000, and 10**-6 at L = 200. Only windows with the same fingerprint are compared: far fewer.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zyda_flows.textkernels.anchors import Values
from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.utf8 import mix

PRIME = np.uint64(2**61 - 1)
BASE_1, BASE_2 = np.uint64(0x0F3C5B29A7D1E84B), np.uint64(0x1A96E37D5C08F1B3)
BITS_61, BITS_32, BITS_29, THREE, ONE = (np.uint64(n) for n in (61, 32, 29, 3, 1))
LOW_32, LOW_29 = np.uint64(2**32 - 1), np.uint64(2**29 - 1)
CONTEXT, FROM, TO, OWNER, DOCUMENTS = range(5)  # columns of runs
NO_OWNER = np.int64(-1)


@njit(cache=True, nogil=True)
def modulo(x):
    """Return x modulo PRIME."""
    x = (x & PRIME) + (x >> BITS_61)
    return x - PRIME if x >= PRIME else x


@njit(cache=True, nogil=True)
def times(a, b):
    """Return a * b modulo PRIME; both are below PRIME."""
    a_high, a_low, b_high, b_low = a >> BITS_32, a & LOW_32, b >> BITS_32, b & LOW_32
    low, middle = a_low * b_low, a_high * b_low + a_low * b_high
    # 2**61 is 1, so 2**64 is 8, and the upper part of middle * 2**32 moves down by 61 bits.
    high = (a_high * b_high << THREE) + (middle >> BITS_29) + ((middle & LOW_29) << BITS_32)
    return modulo(high + (low & PRIME) + (low >> BITS_61))


@njit(cache=True, nogil=True)
def unit_at(data, start, size, index, half):
    """Return a number of the unit at an index of a context, modulo PRIME. size: bytes of a unit. half: 0 or 1."""
    at = start + index * size
    if size == 16:
        at += 8 * half
        size = 8
    value = np.uint64(0)
    for k in range(size - 1, -1, -1):
        value = value << np.uint64(8) | np.uint64(data[at + k])
    return modulo(modulo(value) + ONE)


@njit(cache=True, nogil=True)
def power(base, exponent):
    result = ONE
    for _ in range(exponent):
        result = times(result, base)
    return result


@njit(cache=True, nogil=True)
def moved(h, new, old, base, oldest):
    """Return the hash of a window that begins a unit earlier: sum of units times base**index."""
    return modulo(new + times(base, modulo(h + PRIME - times(old, oldest))))


@njit(cache=True, nogil=True)
def longer(runs):
    """Return twice the room for runs."""
    more = np.empty((2 * len(runs), runs.shape[1]), runs.dtype)
    more[: len(runs)] = runs
    return more


@njit(cache=True, nogil=True)
def write_run(runs, n, context, first, last, owner, documents):
    if n == len(runs):
        runs = longer(runs)
    row = runs[n]
    row[CONTEXT], row[FROM], row[TO], row[OWNER], row[DOCUMENTS] = context, first, last, owner, documents
    return runs, n + 1


@njit(cache=True, nogil=True)
def find_class(c, first, hashes, slots):
    """Return the first context with the same window as context c, which is entered if there is none."""
    mask = np.uint64(len(slots) - 1)
    slot = mix(hashes[c, 0] ^ hashes[c, 1]) & mask
    while slots[slot] >= 0:
        other = slots[slot]
        if hashes[other, 0] == hashes[c, 0] and hashes[other, 1] == hashes[c, 1]:
            return np.int64(other)
        slot = slot + ONE & mask
    slots[slot] = c
    return np.int64(c)


@njit(cache=True, nogil=True)
def same_units(data, a, b, count, size_a, size_b, step):
    """Return how many units are equal from bytes a and b on, at most `count`. step: 1 forwards, -1 backwards."""
    for k in range(count):
        at, other = a + step * k * size_a, b + step * k * size_b
        for byte in range(max(size_a, size_b)):
            left = data[at + byte] if byte < size_a else np.uint8(0)
            right = data[other + byte] if byte < size_b else np.uint8(0)
            if left != right:
                return k
    return count


@njit(cache=True, nogil=True)
def is_repeated(lowest, highest, documents, occurrences, least, within):
    return (lowest != highest and documents >= least) or (within and occurrences > 1)


@njit(cache=True, nogil=True)
def _runs_of_pair(data, starts, sizes, a, nearest, farthest, facts, length, least, within, runs, n):
    """Write the runs of the contexts a and a + 1, which are compared unit by unit; return runs and their number."""
    b = a + 1
    low, high = max(nearest[a], nearest[b]), min(farthest[a], farthest[b])
    at, other = starts[a] + farthest[a] * sizes[a], starts[b] + farthest[b] * sizes[b]
    before = same_units(data, at - sizes[a], other - sizes[b], max(high, 0), sizes[a], sizes[b], -1)
    after = same_units(data, at, other, max(length - low, 0), sizes[a], sizes[b], 1)
    # Both have the windows at the distances [low, high].
    low, high = max(low, length - after), min(high, before)
    together = facts[a, 2] + facts[b, 2]
    is_shared = is_repeated(
        min(facts[a, 0], facts[b, 0]), max(facts[a, 1], facts[b, 1]), together, facts[a, 3] + facts[b, 3],
        least, within,
    )  # fmt: skip
    for c in range(a, b + 1):
        fact = facts[c]
        own = c if is_repeated(fact[0], fact[1], fact[2], fact[3], least, within) else NO_OWNER
        owner, first, documents = NO_OWNER, nearest[c], fact[2]
        for part in range(3):  # nearer windows, those of both, and farther windows
            start, stop, new, new_documents = nearest[c], min(farthest[c], low - 1), own, fact[2]
            if part == 1:
                start, stop, new, new_documents = low, high, (a if is_shared else NO_OWNER), together
            elif low > high:  # no window of both
                start, stop = (nearest[c], farthest[c]) if part == 0 else (1, 0)
            elif part == 2:
                start = high + 1
                stop = farthest[c]
            if start > stop:
                continue
            if owner != NO_OWNER and new != owner:
                runs, n = write_run(runs, n, c, first, start - 1, owner, documents)
            if new != owner:
                first = start
            owner, documents = new, new_documents
        if owner != NO_OWNER:
            runs, n = write_run(runs, n, c, first, farthest[c], owner, documents)
    return runs, n


@njit(cache=True, nogil=True)
def _runs_of_group(
    data, starts, sizes, first, last, nearest, farthest, facts, length, least, within, runs, n
):
    """Write the runs of the contexts [first, last), which have the same fingerprint; return runs and their number.

    facts: (n, 4) lowest and highest party, documents, occurrences.
    """
    count = last - first
    if count == 1:  # all its windows have the same documents
        fact = facts[first]
        if is_repeated(fact[0], fact[1], fact[2], fact[3], least, within):
            return write_run(runs, n, first, nearest[first], farthest[first], first, fact[2])
        return runs, n
    if count == 2:
        return _runs_of_pair(
            data, starts, sizes, first, nearest, farthest, facts, length, least, within, runs, n
        )
    oldest_1, oldest_2 = power(BASE_1, length - 1), power(BASE_2, length - 1)
    hashes, totals = np.zeros((count, 2), np.uint64), np.zeros((count, 4), np.uint64)
    classes, open_class = np.zeros(count, np.int64), np.full(count, NO_OWNER)
    opened, room = np.zeros(count, np.int64), 2
    open_documents = np.zeros(count, np.uint64)
    while room < 2 * count:
        room *= 2
    slots = np.empty(room, np.int64)
    for distance in range(nearest[first:last].min(), farthest[first:last].max() + 1):
        slots[:] = NO_OWNER
        for c in range(count):
            context = first + c
            if distance < nearest[context] or distance > farthest[context]:
                continue
            start, size, begin = starts[context], sizes[context], farthest[context] - distance
            if distance == nearest[context]:
                h_1, h_2 = np.uint64(0), np.uint64(0)
                for k in range(begin + length - 1, begin - 1, -1):
                    h_1 = modulo(times(h_1, BASE_1) + unit_at(data, start, size, k, 0))
                    h_2 = modulo(times(h_2, BASE_2) + unit_at(data, start, size, k, 1))
            else:
                new, old = unit_at(data, start, size, begin, 0), unit_at(data, start, size, begin + length, 0)
                h_1 = moved(hashes[c, 0], new, old, BASE_1, oldest_1)
                if size == 16:
                    new = unit_at(data, start, size, begin, 1)
                    old = unit_at(data, start, size, begin + length, 1)
                h_2 = moved(hashes[c, 1], new, old, BASE_2, oldest_2)
            hashes[c, 0], hashes[c, 1] = h_1, h_2
            owner = find_class(c, first, hashes, slots)
            classes[c] = owner
            fact, sums = facts[context], totals[owner]
            if owner == c:
                sums[:] = fact
            else:
                sums[0], sums[1] = min(sums[0], fact[0]), max(sums[1], fact[1])
                sums[2] += fact[2]
                sums[3] += fact[3]
        for c in range(count):
            context = first + c
            is_open = nearest[context] <= distance <= farthest[context]
            owner = NO_OWNER
            if is_open:
                sums = totals[classes[c]]
                if is_repeated(sums[0], sums[1], sums[2], sums[3], least, within):
                    owner = classes[c]
            if open_class[c] != NO_OWNER and owner != open_class[c]:
                class_owner = first + open_class[c]
                runs, n = write_run(runs, n, context, opened[c], distance - 1, class_owner, open_documents[c])
            if owner != NO_OWNER:
                if owner != open_class[c]:
                    opened[c] = distance
                open_documents[c] = totals[owner, 2]
            open_class[c] = owner
    for c in range(count):
        if open_class[c] != NO_OWNER:
            owner = first + open_class[c]
            runs, n = write_run(runs, n, first + c, opened[c], farthest[first + c], owner, open_documents[c])
    return runs, n


@njit(cache=True, nogil=True)
def _find_runs(data, starts, sizes, groups, nearest, farthest, facts, length, least, within):
    runs, n = np.empty((1024, 5), np.uint32), 0
    for group in range(groups.size - 1):
        runs, n = _runs_of_group(
            data, starts, sizes, groups[group], groups[group + 1], nearest, farthest, facts, length, least,
            within, runs, n,
        )  # fmt: skip
    return runs[:n]


def find_runs(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    groups: NDArray[np.int64],
    nearest: NDArray[np.int64],
    farthest: NDArray[np.int64],
    facts: NDArray[np.uint64],
    *,
    length: int,
    least: int,
    within: bool,
) -> NDArray[np.uint32]:
    """Return runs of repeated windows: (m, 5) with the columns CONTEXT to DOCUMENTS.

    data: the units of all contexts. starts: (n,) of each. sizes: (n,) the bytes of a unit: 1, 2, 4, or 16 for two
    numbers. groups: (g + 1,) the contexts of each fingerprint; within a group the preferred are first. nearest,
    farthest: (n,) the distances from the first units of a context's windows to the anchor. facts: (n, 4) the
    smallest and the largest number of a document (or source) with the context, documents, and occurrences.

    A window is repeated if its contexts have two different numbers and at least `least` documents, or, if `within`,
    two occurrences. A run is the windows of a context from the distances FROM to TO with the same OWNER: the first
    context that has them. DOCUMENTS are of its window at the distance TO, the first in the text. A
    document with the window in two contexts is counted in both.
    """
    runs: NDArray[np.uint32] = _find_runs(
        data, starts, sizes, groups, nearest, farthest, facts, length, np.uint64(least), within
    )
    return runs


@njit(cache=True, nogil=True)
def _window_hashes(values, lows, firsts, length, hashes):
    for i in range(firsts.size):
        h_1, h_2 = np.uint64(0), np.uint64(0)
        for k in range(firsts[i] + length - 1, firsts[i] - 1, -1):
            h_1 = modulo(times(h_1, BASE_1) + modulo(modulo(np.uint64(values[k])) + ONE))
            h_2 = modulo(times(h_2, BASE_2) + modulo(modulo(np.uint64(lows[k])) + ONE))
        hashes[i, 0], hashes[i, 1] = h_1, h_2


def window_hashes(values: Values, lows: Values, firsts: NDArray[np.int64], length: int) -> NDArray[np.uint64]:
    """Return the two polynomials of windows that begin at some units: (n,) to (n, 2)."""
    hashes = np.empty((len(firsts), 2), np.uint64)
    _window_hashes(values, lows, firsts, length, hashes)
    return hashes


@njit(cache=True, nogil=True)
def _cut_contexts(
    data, starts, sizes, firsts, counts, cores, core_units, nearest, ends, out, keys, core_keys
):
    for i in range(starts.size):
        size, begin, at = sizes[i], starts[i] + firsts[i] * sizes[i], ends[i]
        for byte in range(counts[i] * size):
            out[at + byte] = data[begin + byte]
        high, low = mix(np.uint64(nearest[i])), mix(np.uint64(counts[i]))
        for k in range(firsts[i], firsts[i] + counts[i]):
            high = mix(high + unit_at(data, starts[i], size, k, 0))
            low = mix(low ^ unit_at(data, starts[i], size, k, 1)) * BASE_1
        keys[i, 0], keys[i, 1] = high, low
        core = np.uint64(core_units)
        for k in range(cores[i], cores[i] + core_units):
            core = mix(core + unit_at(data, starts[i], size, k, 0))
        core_keys[i] = core


class CutContexts(NamedTuple):
    """Parts of contexts.

    data, ends: their units as bytes, and the offsets of the parts, (n + 1,). keys: (n, 2) hashes of the parts.
    cores: (n,) hashes of the units that all windows at the distances have.
    """

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    keys: NDArray[np.uint64]
    cores: NDArray[np.uint64]


def cut_contexts(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    farthest: NDArray[np.int64],
    ranges: NDArray[np.int64],
    *,
    length: int,
    low: int,
    high: int,
) -> CutContexts:
    """Return the units of the windows at some distances, from each context.

    data, starts, sizes, farthest: of the contexts, as in `find_runs`. ranges: (n, 2) the first and the last
    distance of each, from `low` to `high`. Two windows at the same distance of these are equal only if the cores
    are.
    """
    counts = ranges[:, 1] - ranges[:, 0] + length
    ends = np.concatenate([[0], np.cumsum(counts * sizes)]).astype(np.int64)
    cut = CutContexts(
        np.empty(ends[-1], np.uint8),
        ends,
        np.empty((len(starts), 2), np.uint64),
        np.empty(len(starts), np.uint64),
    )
    _cut_contexts(
        data, starts, sizes, farthest - ranges[:, 1], counts, farthest - low, low - high + length,
        ranges[:, 0], ends, cut.data, cut.keys, cut.cores,
    )  # fmt: skip
    return cut
