"""Vectors for cosines by models of token ids (`tasks.quality.token_models`), in integers.

A text is read whole. The vector of a model in the form of Luxical is the input of its head. The vector of a model
of pooled embeddings is the mean of all tokens. Its head also reads the largest and the smallest means of windows,
which are not used here: their distance grows with the number of windows, so they differ for texts of other lengths.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.quality import token_vectors
from zyda_flows.tasks.quality.similarity_mean import write_mean
from zyda_flows.tasks.quality.text_vectors import TextVectors, of_length_unit
from zyda_flows.tasks.quality.token_models import TokenModel, precision, read

__all__ = ["digest_of_vectors", "dims_of", "load", "precision", "write_mean_of"]


def dims_of(folder: Path) -> int:
    """Check a model and return the length of its vectors. Raises Fault."""
    model, dims = read(folder), token_vectors.body(folder, 0).dims
    return dims if model.config.form == "luxical" else dims // 3


def digest_of_vectors(folder: Path) -> str:
    """Hash all on which the vectors depend: the tokenizer, the form and the tensors, except the head's."""
    return token_vectors.body(folder, 0).digest


def load(folder: Path, device: str | None) -> Callable[[pa.ChunkedArray], TextVectors]:
    """Load a model; return the function of its vectors. device: of other forms; the sums are of integers."""
    return partial(vectors, read(folder), dims_of(folder))


def vectors(model: TokenModel, dims: int, texts: pa.ChunkedArray) -> TextVectors:
    numbers = token_vectors.vectors(model, texts)[:, :dims]
    return TextVectors(of_length_unit(numbers), np.zeros(len(texts), np.int64))


def write_mean_of(folder: Path, texts: pa.LargeStringArray) -> None:
    """Write the mean of the vectors of texts into the folder of their model."""
    write_mean(folder, load(folder, None)(pa.chunked_array([texts])).vectors)
