"""Document ids: the origin of a document in 64 bits.

doc_id = source (10 bits) | file (24 bits) | row (30 bits). The numbers of a source and of a file are assigned
once, in the corpus's register, and never reused. The row is the document's position in its file, counted from 0,
including invalid and unsampled rows. So the id of a source, file and row never changes, even if other files are
added or removed.
"""

import numpy as np
from numpy.typing import NDArray

BITS = (10, 24, 30)  # of source, file and row
MAX_SOURCES, MAX_FILES, MAX_ROWS = (1 << bits for bits in BITS)
# The finaliser of MurmurHash3, and its inverse: a shift by more than half of the bits is its own inverse.
SHIFT = np.uint64(33)
MIX_1, MIX_2 = 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53
UNMIX_1, UNMIX_2 = pow(MIX_1, -1, 1 << 64), pow(MIX_2, -1, 1 << 64)
FILE_SHIFT = BITS[2]
SOURCE_SHIFT = BITS[1] + BITS[2]

Ids = NDArray[np.uint64]  # doc_ids, (n,)


def first_id(source: int, file: int) -> int:
    """Return the doc_id of row 0 of a file."""
    if not (0 <= source < MAX_SOURCES and 0 <= file < MAX_FILES):
        raise ValueError(f"source {source} or file {file} does not fit in a doc_id")
    return source << SOURCE_SHIFT | file << FILE_SHIFT


def split(doc_id: int, bits: tuple[int, int, int] = BITS) -> tuple[int, int, int]:
    """Return the source number, file number and row of a doc_id. bits: their sizes, if its corpus has others."""
    _, file_bits, row_bits = bits
    # (1 << bits) - 1 is a mask of all bits of a field.
    return (
        doc_id >> file_bits + row_bits,
        doc_id >> row_bits & ((1 << file_bits) - 1),
        doc_id & ((1 << row_bits) - 1),
    )


def sources_of(doc_ids: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the source number of each doc_id: (n,) uint64 to (n,) uint16."""
    return (doc_ids >> np.uint64(SOURCE_SHIFT)).astype(np.uint16)


def files_of(doc_ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the file number of each doc_id: (n,) uint64 to (n,) int64."""
    # 34 bits remain after the shift, which fit in int64; the mask removes the source's bits.
    return (doc_ids >> np.uint64(FILE_SHIFT)).astype(np.int64) & (MAX_FILES - 1)


def hash_ids(ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash ids without collisions: (n,) uint64 to (n,)."""
    hashes = (ids ^ (ids >> SHIFT)) * np.uint64(MIX_1)  # wraps around
    hashes = (hashes ^ (hashes >> SHIFT)) * np.uint64(MIX_2)
    return np.asarray(hashes ^ (hashes >> SHIFT))


def ids_of_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the ids for results of `hash_ids`: (n,) uint64 to (n,)."""
    ids = (hashes ^ (hashes >> SHIFT)) * np.uint64(UNMIX_2)
    ids = (ids ^ (ids >> SHIFT)) * np.uint64(UNMIX_1)
    return np.asarray(ids ^ (ids >> SHIFT))


def parse(text: str) -> int | None:
    """Parse a doc_id in decimal or, with 0x, in hexadecimal; return None if it is not a number of 64 bits."""
    try:
        number = int(text, 0)
    except ValueError:
        return None
    return number if 0 <= number < 1 << 64 else None
