"""The keys of a text: one for each band of its MinHash signature, or one of the text itself.

What is here needs neither Prefect nor Dask, so that a text is looked up in a moment.
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

VERSION = 1  # raised when a text gets other keys

MaskedKeys = tuple[NDArray[np.uint64], NDArray[np.bool_]]


def index_parameters(dedup: Dedup) -> dict[str, Any]:
    """Return what the keys of two corpora have to have in common, for their documents to meet."""
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
    """Return the band keys of each text, (n, bands) uint64, and which texts have any, (n,) bool."""
    sketches = signatures(texts, dedup)
    keys: NDArray[np.uint64] = sketch.band_keys(sketches, bands=dedup.bands)
    return keys, sketches[:, 0] != sketch.EMPTY


# What makes the keys of texts in a round of each kind.
KEYS: dict[type[Dedup], Callable[[pa.LargeStringArray, Any], MaskedKeys]] = {
    ExactRound: text_keys,
    LettersRound: letter_keys,
    MinHashRound: band_keys,
}


def keys_of_texts(texts: pa.LargeStringArray, dedup: Dedup) -> MaskedKeys:
    """Return the keys of each text in a round, (n, bands) or (n, bands, 2) uint64, and which texts have any.

    Raises ValueError where they are of another width than the round says: half of each would be lost.
    """
    keys, has_keys = KEYS[type(dedup)](texts, dedup)
    width = (len(texts), dedup.key_bands, *((2,) if dedup.is_wide else ()))
    if keys.shape != width:
        raise ValueError(f"keys of {type(dedup).__name__} are {keys.shape}, and is_wide asks for {width}")
    return keys, has_keys
