"""Compute the boundaries and lengths of the pieces of documents in packed sequences."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Counts = NDArray[np.int64]


class PackedPieces(NamedTuple):
    """The p pieces in the n sequences of a batch, in their order.

    sequence, rank, tokens: of each piece, its sequence, its number in it, and its tokens: (p,) each. sizes, pieces,
    used: of each sequence, its tokens, its pieces, and the tokens of these: (n,) each.
    """

    sequence: Counts
    rank: Counts
    tokens: Counts
    sizes: Counts
    pieces: Counts
    used: Counts


def packed_pieces(origins: pa.Table, ends: Counts) -> PackedPieces:
    """Return the pieces of consecutive sequences, each of which has at least one.

    origins: `gathering.ORIGINS`. ends: offsets of the sequences, (n + 1,), from 0.
    """
    sequence = origins.column("sequence").to_numpy().astype(np.int64)
    tokens = origins.column("tokens").to_numpy()
    sequence -= sequence[0] if len(sequence) else 0
    sizes = np.diff(ends)
    pieces = np.bincount(sequence, minlength=len(sizes))
    rank = np.arange(len(sequence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    used = np.bincount(sequence, tokens, minlength=len(sizes)).astype(np.int64)
    return PackedPieces(sequence, rank, tokens, sizes, pieces, used)


def boundaries_of(packed: PackedPieces) -> tuple[Counts, NDArray[np.int32]]:
    """Return the number of boundaries in each sequence, (n,), and all boundaries, (b,)."""
    sequence, rank, tokens, sizes, pieces, used = packed
    counts = 1 + pieces + (used < sizes)
    first = np.cumsum(counts) - counts
    boundaries = np.repeat(sizes, counts)  # the last boundary of a sequence that is filled
    boundaries[first] = 0
    boundaries[first[sequence] + 1 + rank] = np.cumsum(tokens) - (np.cumsum(used) - used)[sequence]
    return counts, boundaries.astype(np.int32)


def lengths_of(packed: PackedPieces) -> tuple[Counts, NDArray[np.int32]]:
    """Return the offsets of sequences, (n + 1,), in the lengths of pieces, and 1 for each token that fills, (l,).

    Trainers restart positions at each length, and leave the first token of each out of the loss. Therefore the loss
    includes no token that fills.
    """
    sequence, rank, tokens, sizes, pieces, used = packed
    offsets = np.append(0, np.cumsum(pieces + sizes - used))
    lengths = np.ones(offsets[-1], np.int32)
    lengths[offsets[sequence] + rank] = tokens
    return offsets, lengths
