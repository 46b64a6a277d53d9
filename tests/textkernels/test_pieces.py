"""Pieces are copied to their positions, and no byte outside of an array is read or written."""

import numpy as np
import pytest

from zyda_flows.textkernels.pieces import copy_pieces


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_pieces_are_copied_to_their_positions(kind):
    chance = np.random.default_rng(3)
    lengths = chance.integers(0, 200, 300)
    ends = np.append(0, np.cumsum(lengths))
    source, order = chance.integers(0, 250, ends[-1]).astype(kind), chance.permutation(300)
    target = np.full(ends[-1] + 7, 251, kind)
    copy_pieces(
        source, ends[:-1][order], lengths[order], target, np.append(0, np.cumsum(lengths[order]))[:-1] + 3
    )
    expected = [source[ends[i] : ends[i + 1]] for i in order]
    assert target.tolist() == [251] * 3 + np.concatenate(expected).tolist() + [251] * 4
    copy_pieces(source, ends[:0], lengths[:0], target, ends[:0])


@pytest.mark.parametrize("piece", [(0, 11, 0), (5, 6, 0), (0, 5, 16), (-1, 2, 0), (0, 2, -1), (3, -1, 0)])
def test_piece_outside_of_its_array_raises(piece):
    source, target = np.arange(10, dtype=np.uint16), np.zeros(20, np.uint16)
    start, length, place = (np.array([one]) for one in piece)
    with pytest.raises(ValueError, match="a piece lies outside of its array"):
        copy_pieces(source, start, length, target, place)
    with pytest.raises(ValueError, match="target: expected an array of uint16, got uint8"):
        copy_pieces(source, start, length, target.astype(np.uint8), place)
