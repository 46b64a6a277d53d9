"""Write the boundaries of documents in packed sequences, for attention within documents and masks of the loss."""

import numpy as np

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.mixing.formats import Batch, Target
from zyda_flows.tasks.mixing.packed_pieces import boundaries_of, packed_pieces

NAME = "boundaries"  # the folder of these files in a version


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
        self.ends, self.used = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        self.counts, self.tokens = [np.zeros(1, np.int64)], 0

    def add(self, batch: Batch) -> None:
        packed = packed_pieces(batch.origins, batch.ends)
        counts, ends = boundaries_of(packed)
        self.counts.append(counts)
        self.ends.append(ends)
        self.used.append(packed.used.astype(np.int32))
        self.tokens += int(batch.ends[-1])

    def close(self) -> None:
        np.save(self.folder / "cu_seqlens.npy", np.concatenate(self.ends))
        np.save(self.folder / "offsets.npy", np.cumsum(np.concatenate(self.counts)))
        np.save(self.folder / "document_tokens.npy", np.concatenate(self.used))

    def check(self, tokens: int) -> None:
        if self.tokens != tokens:
            raise NotConserved(f"{self.folder.name} has boundaries of {self.tokens:,} tokens, not {tokens:,}")
