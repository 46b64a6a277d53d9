"""Document ids: where a document came from, in 64 bits.

doc_id = source (10 bits) | file (24 bits) | row (30 bits). The source's number and the file's are
given once, in the corpus's register, and never used again; the row is the document's place in its
file, counted from 0, bad and unsampled rows included. So an id names a source, file and row for
ever, whatever is added or taken away beside it.
"""

import numpy as np
from numpy.typing import NDArray

BITS = (10, 24, 30)  # of source, file and row
MAX_SOURCES, MAX_FILES, MAX_ROWS = (1 << bits for bits in BITS)
# The finaliser of MurmurHash3, and what undoes it: a shift of more than half of the bits undoes itself.
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
    """Return the source number, file number and row of a doc_id. bits: of each, where its corpus has others."""
    _, of_file, of_row = bits
    # One less than a power of two is a mask of all the bits of its field.
    return doc_id >> of_file + of_row, doc_id >> of_row & ((1 << of_file) - 1), doc_id & ((1 << of_row) - 1)


def sources_of(doc_ids: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the source number of each doc_id: (n,) uint64 to (n,) uint16."""
    return (doc_ids >> np.uint64(SOURCE_SHIFT)).astype(np.uint16)


def files_of(doc_ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the file number of each doc_id: (n,) uint64 to (n,) int64."""
    # 34 bits are left, so int64 holds them; the mask takes the source's off.
    return (doc_ids >> np.uint64(FILE_SHIFT)).astype(np.int64) & (MAX_FILES - 1)


def hash_ids(ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash ids, no two to the same number: (n,) uint64 to (n,)."""
    hashes = (ids ^ (ids >> SHIFT)) * np.uint64(MIX_1)  # which wraps
    hashes = (hashes ^ (hashes >> SHIFT)) * np.uint64(MIX_2)
    return np.asarray(hashes ^ (hashes >> SHIFT))


def ids_of_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the ids that `hash_ids` made hashes of: (n,) uint64 to (n,)."""
    ids = (hashes ^ (hashes >> SHIFT)) * np.uint64(UNMIX_2)
    ids = (ids ^ (ids >> SHIFT)) * np.uint64(UNMIX_1)
    return np.asarray(ids ^ (ids >> SHIFT))


def parse(text: str) -> int | None:
    """Read a doc_id written in decimal or, with 0x, in hexadecimal; None where it is none of 64 bits."""
    try:
        number = int(text, 0)
    except ValueError:
        return None
    return number if 0 <= number < 1 << 64 else None
