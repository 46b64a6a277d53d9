"""Names of documents: invertible hashes of their ids, which are divided into parts of about equal size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids, hash_ids, ids_of_hashes

PART_ROWS = 6 << 20  # in a part at most, about: 1.2 GiB of memory if all clusters are pairs
# Difference of the ids that are hashed in successive rounds: odd, so that all rounds differ.
STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Naming:
    """The names of documents in a round, by its number, and the 2**bits parts into which names are divided."""

    number: int
    bits: int

    @classmethod
    def for_rows(cls, rows: int, number: int = 0) -> "Naming":
        """Return a naming with as many parts as this number of rows needs."""
        return cls(number, (rows // PART_ROWS).bit_length())

    def names(self, ids: Ids) -> Ids:
        """Return the names of documents: (n,) to (n,)."""
        return hash_ids(ids + self.offset)

    def ids(self, names: Ids) -> Ids:
        """Return the documents with these names: (n,) to (n,)."""
        return np.asarray(ids_of_hashes(names) - self.offset)

    def parts(self, names: Ids) -> NDArray[np.uint32]:
        """Return the part of each name, which ascends with the names: (n,) to (n,)."""
        # In two steps: NumPy does not shift a number by all of its 64 bits.
        return (names >> np.uint64(63 - self.bits) >> np.uint64(1)).astype(np.uint32)

    @property
    def offset(self) -> np.uint64:
        return np.uint64(self.number * STEP % (1 << 64))

    @property
    def numbers(self) -> range:
        """The numbers of all parts."""
        return range(1 << self.bits)
