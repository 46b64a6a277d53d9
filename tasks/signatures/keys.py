"""The keys of a text: one for each band of its MinHash signature, or one of the text itself.

What is here needs neither Prefect nor Dask, so that a text is looked up in a moment.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.recipe.dedup import Dedup
from tasks.signatures.exact import text_keys
from tasks.signatures.shingles import UNICODE, shingle_parameters, word_hashes
from textkernels import sketch
from textkernels.buffers import text_buffers

VERSION = 1  # raised when a text gets other keys


def signature_parameters(dedup: Dedup) -> dict[str, Any]:
    """Return what a band key depends on; the scope decides later who goes."""
    if dedup.exact:
        return {"exact": dedup.exact} | ({"unicode": UNICODE} if dedup.exact == "normalised" else {})
    return dedup.model_dump(include={"values", "bands"}) | shingle_parameters(dedup)


def index_parameters(dedup: Dedup) -> dict[str, Any]:
    """Return what the keys of two corpora have to have in common, for their documents to meet."""
    return {"version": VERSION, **signature_parameters(dedup)}


def signatures(texts: pa.LargeStringArray, dedup: Dedup) -> NDArray[np.uint64]:
    """Return the signature of each text: (n, values) uint64, all EMPTY where it has no shingle."""
    size: dict[str, Any] = {"width": dedup.width, "values": dedup.values}
    if dedup.shingle == "words":
        sketches: NDArray[np.uint64] = sketch.word_signatures(*word_hashes(texts), **size)
    else:
        sketches = sketch.signatures(*text_buffers(texts), **size)
    return sketches


def band_keys(texts: pa.LargeStringArray, dedup: Dedup) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the band keys of each text, (n, bands) uint64, and which texts have any, (n,) bool."""
    sketches = signatures(texts, dedup)
    keys: NDArray[np.uint64] = sketch.band_keys(sketches, bands=dedup.bands)
    return keys, sketches[:, 0] != sketch.EMPTY


def keys_of_texts(texts: pa.LargeStringArray, dedup: Dedup) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the keys of each text in a round, (n, bands) or (n, 1, 2) uint64, and which texts have any."""
    return text_keys(texts, dedup) if dedup.exact else band_keys(texts, dedup)
