"""The keys of a text: a key for each band of its MinHash signature, or a key of the text itself.

This module imports neither Prefect nor Dask, so that looking a text up starts quickly.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.kinds import ExactRound, MinHashRound
from zyda_flows.tasks.signatures.exact import text_keys
from zyda_flows.tasks.signatures.letters import LettersRound, letter_keys
from zyda_flows.tasks.signatures.shingles import word_hashes
from zyda_flows.textkernels import sketch
from zyda_flows.textkernels.buffers import text_buffers

VERSION = 1  # raise it if the keys of a text change

MaskedKeys = tuple[NDArray[np.uint64], NDArray[np.bool_]]


def index_parameters(dedup: Dedup) -> dict[str, Any]:
    """Return the parameters that the keys of two corpora must share to be comparable."""
    return {"version": VERSION, **dedup.key_parameters}


def signatures(texts: pa.LargeStringArray, dedup: MinHashRound) -> NDArray[np.uint64]:
    """Return the signature of each text: (n, values) uint64, all EMPTY where it has no shingle."""
    size: dict[str, Any] = {"width": dedup.width, "values": dedup.values}
    if dedup.shingle == "words":
        sketches: NDArray[np.uint64] = sketch.word_signatures(*word_hashes(texts), **size)
    else:
        sketches = sketch.signatures(*text_buffers(texts), **size)
    return sketches


def band_keys(texts: pa.LargeStringArray, dedup: MinHashRound) -> MaskedKeys:
    """Return the band keys of each text, (n, bands) uint64, and which texts have keys, (n,) bool."""
    sketches = signatures(texts, dedup)
    keys: NDArray[np.uint64] = sketch.band_keys(sketches, bands=dedup.bands)
    return keys, sketches[:, 0] != sketch.EMPTY


# The function that computes the keys of texts, for each kind of round.
KEY_FUNCTIONS: dict[type[Dedup], Callable[[pa.LargeStringArray, Any], MaskedKeys]] = {
    ExactRound: text_keys,
    LettersRound: letter_keys,
    MinHashRound: band_keys,
}


def keys_of_texts(texts: pa.LargeStringArray, dedup: Dedup) -> MaskedKeys:
    """Return the keys of each text in a round, (n, bands) or (n, bands, 2) uint64, and which texts have keys.

    Raises ValueError if their width differs from the round's `is_wide`: half of each key would be lost.
    """
    keys, has_keys = KEY_FUNCTIONS[type(dedup)](texts, dedup)
    width = (len(texts), dedup.key_bands, *((2,) if dedup.is_wide else ()))
    if keys.shape != width:
        raise ValueError(f"keys of {type(dedup).__name__}: expected the shape {width}, got {keys.shape}")
    return keys, has_keys
