"""Write the boundaries of documents in packed sequences, for attention within documents and for masks of the loss."""

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.mixing.formats import Batch, Target

NAME = "boundaries"
Counts = NDArray[np.int64]


class Boundaries:
    """A folder of NumPy arrays about the sequences of a file, in their order.

    `cu_seqlens.npy`, int32: for each sequence 0, then the end of each piece of a document in the sequence, then the
    length of the sequence if the last piece ends before it. `offsets.npy`, (sequences + 1,) int64: the positions of
    sequences in `cu_seqlens`. `document_tokens.npy`, (sequences,) int32: the number of tokens of documents; all
    further tokens of a sequence fill it.
    """

    def __init__(self, target: Target) -> None:
        self.folder = target.folder / target.name
        self.folder.mkdir()
        self.ends, self.counts, self.used = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
        self.tokens = 0

    def add(self, batch: Batch) -> None:
        cumulative, counts, used = boundaries_of(batch)
        self.ends.append(cumulative)
        self.counts.append(counts)
        self.used.append(used)
        self.tokens += int(batch.ends[-1])

    def close(self) -> None:
        np.save(self.folder / "cu_seqlens.npy", np.concatenate(self.ends))
        np.save(self.folder / "offsets.npy", np.cumsum(np.concatenate(self.counts)))
        np.save(self.folder / "document_tokens.npy", np.concatenate(self.used))

    def check(self, tokens: int) -> None:
        if self.tokens != tokens:
            raise NotConserved(f"{self.folder.name} has boundaries of {self.tokens:,} tokens, not {tokens:,}")


def pieces_of(batch: Batch) -> tuple[Counts, Counts]:
    """Return the sequence of each piece in its batch, from 0 and ascending, and its tokens: (p,) each."""
    sequence = batch.origins.column("sequence").to_numpy().astype(np.int64)
    return sequence - (sequence[0] if len(sequence) else 0), batch.origins.column("tokens").to_numpy()


def boundaries_of(batch: Batch) -> tuple[NDArray[np.int32], Counts, NDArray[np.int32]]:
    """Return the boundaries in each sequence, (b,), their number in each, (n,), and its tokens of documents, (n,).

    Every sequence of the batch has at least one piece.
    """
    sequence, tokens = pieces_of(batch)
    sizes = np.diff(batch.ends)
    used = np.bincount(sequence, tokens, minlength=len(sizes)).astype(np.int64)
    pieces = np.bincount(sequence, minlength=len(sizes))
    counts = 1 + pieces + (used < sizes)
    first = np.cumsum(counts) - counts
    cumulative = np.repeat(sizes, counts)  # remains where a sequence is filled
    cumulative[first] = 0
    before = np.cumsum(used) - used
    rank = np.arange(len(sequence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cumulative[first[sequence] + 1 + rank] = np.cumsum(tokens) - before[sequence]
    return cumulative.astype(np.int32), counts, used.astype(np.int32)


def lengths_of(batch: Batch) -> tuple[NDArray[np.int32], Counts]:
    """Return the lengths of pieces and a length of 1 for each filled token, and the offsets of sequences in these.

    Trainers that restart positions at each length also leave the first token of each out of the loss, so that the
    loss has no filled token.
    """
    sequence, tokens = pieces_of(batch)
    sizes = np.diff(batch.ends)
    used = np.bincount(sequence, tokens, minlength=len(sizes)).astype(np.int64)
    pieces = np.bincount(sequence, minlength=len(sizes))
    counts = pieces + sizes - used
    ends = np.append(0, np.cumsum(counts))
    lengths = np.ones(ends[-1], np.int32)
    rank = np.arange(len(sequence)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    lengths[ends[sequence] + rank] = tokens
    return lengths, ends
