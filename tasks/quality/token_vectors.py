"""The vectors of models of token ids: the inputs of their heads, in integers (`tasks.quality.token_models`)."""

import re
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.quality.integer_layers import outputs_of
from zyda_flows.tasks.quality.text_vectors import UNIT
from zyda_flows.tasks.quality.token_models import (
    TokenModel,
    answers_of_outputs,
    config_of,
    read,
    tensors_of,
)
from zyda_flows.tasks.quality.vector_body import VectorBody, VectorFunctions
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.tokens.engine import batches

HEAD = re.compile(r"[0-9]+\.(weight|scale|bias)")
POOLED_UNITS = 256  # of a mean of embeddings


def body(folder: Path, max_tokens: int) -> VectorBody:
    """Return the body of a model: its tokenizer, its form and its tensors without those of the head."""
    from zyda_flows.tasks.quality.ngram_vectors import DIMS  # late: it imports numba

    config, tensors = config_of(folder), tensors_of(folder)
    names = sorted(name for name in tensors if not HEAD.fullmatch(name))
    parts = [[name, str(tensors[name].dtype), tensors[name].shape] for name in names]
    digests = [sha256(tensors[name].tobytes()).hexdigest() for name in names]
    is_luxical = config.form == "luxical"
    return VectorBody(
        digest=digest_of([config.form, config.window, config.tokenizer, parts, digests]),
        dims=DIMS if is_luxical else 3 * tensors["table"].shape[1],
        kind="int32",
        unit=1 / UNIT if is_luxical else 1 / POOLED_UNITS,
    )


def load(folder: Path, max_tokens: int, device: str | None, *, every_label: bool) -> VectorFunctions:
    """Load a model; return the function of its vectors, and the function of its answers for vectors.

    max_tokens, device: of other forms; texts are read whole, and the sums are of integers.
    """
    model = read(folder)
    return VectorFunctions(partial(vectors, model), partial(answers, model, every_label=every_label))


def vectors(model: TokenModel, texts: pa.ChunkedArray) -> NDArray[np.int32]:
    """Return the vectors of texts: (n, dims)."""
    chunks = texts.cast(pa.large_string()).chunks
    parts = [model.body.features(model.tokens(batch)) for chunk in chunks for batch in batches(chunk)]
    return np.concatenate(parts) if parts else np.empty((0, model.layers[0].weight.shape[1]), np.int32)


def answers(model: TokenModel, inputs: NDArray[np.int32], *, every_label: bool) -> list[pa.Array]:
    """Return the columns of the answers for vectors."""
    return answers_of_outputs(model, outputs_of(model.layers, inputs), every_label=every_label)
