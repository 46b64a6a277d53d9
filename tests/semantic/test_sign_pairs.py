"""Pairs of similar keys equal those of a comparison of all pairs, and bands find the promised share of similar vectors."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zyda_flows.tasks.semantic.bands import (
    bands_for,
    bits_for,
    found_share,
    most_different,
    sign_keys,
)
from zyda_flows.textkernels.sign_pairs import similar_pairs

MASK = (1 << 64) - 1


def different_bits(a, b):
    return (int(a[0]) ^ int(b[0])).bit_count() + (int(a[1]) ^ int(b[1])).bit_count()


def plain_pairs(keys, bits, most_different, most_of_bucket, most_partners, sides=None):
    """Return the pairs of sorted keys and the numbers of pairs that were not compared and left out, in plain Python."""
    sides = sides or [*range(len(keys))]
    buckets, pending, uncompared = {}, [(list(range(len(keys))), 0)], 0
    while pending:
        rows, bit = pending.pop()
        if bit >= bits and len(rows) <= most_of_bucket:
            buckets |= {row: set(rows) for row in rows}
        elif bit == 64:
            for place, row in enumerate(rows):
                run = place // most_of_bucket
                buckets[row] = {rows[0], *rows[run * most_of_bucket : (run + 1) * most_of_bucket]}
            compared = {(min(a, b), max(a, b)) for a in rows for b in buckets[a] if a != b}
            uncompared += len(rows) * (len(rows) - 1) // 2 - len(compared)
        else:
            halves = [
                [row for row in rows if int(keys[row][0]) >> (63 - bit) & 1 == value] for value in (0, 1)
            ]
            if bit >= bits:
                uncompared += len(halves[0]) * len(halves[1])
            pending += [(half, bit + 1) for half in halves if half]
    found, left_out = [], 0
    for row in range(len(keys)):
        distances = {other: different_bits(keys[row], keys[other]) for other in buckets[row]
                     if other < row and sides[other] != sides[row]}  # fmt: skip
        own = [other for other in sorted(distances) if distances[other] <= most_different]
        nearest = sorted(own, key=lambda other: (distances[other], other))[:most_partners]
        found += [(other, row) for other in sorted(nearest)]
        left_out += len(own) - len(nearest)
    return found, uncompared, left_out


words = st.integers(0, 15).map(lambda number: (number << 60 | number * 0x9E3779B97F4A7C15 >> 30) & MASK)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(words, st.integers(0, 7)), max_size=40),
    st.integers(0, 4),
    st.integers(0, 20),
    st.integers(1, 9),
    st.integers(1, 9),
    st.none() | st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_pairs_equal_comparing_all_rows_of_each_bucket(
    keys, bits, most_different, most_of_bucket, most_partners, sides
):
    keys.sort(key=lambda key: key[0])
    array = np.array(keys, np.uint64).reshape(-1, 2)
    found = similar_pairs(
        np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1]), bits=bits,
        most_different=most_different, most_of_bucket=most_of_bucket, most_partners=most_partners,
        sides=None if sides is None else np.array(sides[: len(keys)], np.bool_),
    )  # fmt: skip
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert (pairs, found.uncompared, found.left_out) == plain_pairs(
        keys, bits, most_different, most_of_bucket, most_partners, sides
    )


def test_bands_for_documents_and_cosines():
    """The shares are those of the formula: 12 bands of 16 bits, and 120 of 32, at a cosine of 0.95."""
    assert found_share(16, 12, 0.95) == pytest.approx(0.91, abs=0.005)
    assert found_share(32, 120, 0.95) == pytest.approx(0.98, abs=0.005)
    assert [bits_for(documents) for documents in (0, 1, 2048, 2049, 4096, 10**8)] == [0, 0, 0, 1, 1, 16]
    for documents in (1, 5000, 10**6, 10**8):
        for cosine in (0.9, 0.95, 0.99):
            bits, bands = bits_for(documents), bands_for(documents, cosine)
            assert found_share(bits, bands, cosine) >= 0.985
            assert bands == 1 or found_share(bits, bands - 1, cosine) < 0.985


def similar_vectors(count, dims, cosine, seed):
    """Return vectors of 8 bits whose neighbours, 0 and 1, 2 and 3 and so on, have about a cosine."""
    chance = np.random.default_rng(seed)
    first, other = chance.normal(size=(2, count // 2, dims))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    other -= (other * first).sum(axis=1, keepdims=True) * first
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    second = cosine * first + np.sqrt(1 - cosine**2) * other
    vectors = np.stack([first, second], axis=1).reshape(count, dims)
    return np.rint(vectors / np.abs(vectors).max(axis=1, keepdims=True) * 127).astype(np.int8)


@pytest.mark.parametrize("cosine", [0.85, 0.92, 0.97])
def test_bands_find_the_pairs_of_brute_force(cosine):
    vectors = similar_vectors(8000, 64, cosine, 7)
    exact = vectors.astype(np.float64) / np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = cosine - 0.01
    expected = {
        (int(a), int(b)) for a, b in zip(*np.nonzero(np.triu(exact @ exact.T >= asked, 1)), strict=True)
    }
    bits = 6  # more than for 8,000 documents, so that pairs are missed
    bands = next(bands for bands in range(1, 256) if found_share(bits, bands, asked) >= 0.985)
    keys, found = sign_keys(vectors, bands), set()
    for band in range(bands):
        order = np.argsort(keys[:, band, 0], kind="stable")
        upper, lower = (np.ascontiguousarray(keys[order, band, word]) for word in (0, 1))
        pairs = similar_pairs(
            upper, lower, bits=bits, most_different=most_different(bits, asked), most_of_bucket=1 << 15,
            most_partners=64,
        )  # fmt: skip
        found |= {
            (min(a, b), max(a, b))
            for a, b in zip(order[pairs.first].tolist(), order[pairs.second].tolist(), strict=True)
        }
    assert len(expected) >= 3900
    assert len(found & expected) / len(expected) >= 0.98
    assert len(found) < len(list(combinations(range(400), 2)))  # of 32 million pairs


def test_keys_of_fewer_bands_are_the_first():
    vectors = similar_vectors(20, 48, 0.9, 1)
    assert (sign_keys(vectors, 3) == sign_keys(vectors, 9)[:, :3]).all()
