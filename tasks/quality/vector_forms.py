"""The models of judges whose answers are computed from a vector of the document: a body, and a head on the vectors.

A body is known by its digest, without the head: judges with the same body and other heads have the same vectors.
The forms are `tokens` (Luxical and pooled embeddings) and `encoder` (encoders of sentences with heads).
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.quality import encoder_vectors, token_vectors
from zyda_flows.tasks.quality.forms import Model, ModelFiles, load_files
from zyda_flows.tasks.quality.loading import Loader
from zyda_flows.tasks.quality.vector_body import VectorBody, VectorFunctions
from zyda_flows.tasks.recipe.judges import Judge


class VectorForm(Protocol):
    """A form of models with vectors: a module with these functions.

    body: returns the body of a model, None if it has no vectors. load: loads a model.
    """

    def body(self, path: Path, max_tokens: int) -> VectorBody | None: ...
    def load(
        self, path: Path, max_tokens: int, device: str | None, *, every_label: bool
    ) -> VectorFunctions: ...


VECTOR_FORMS: dict[str, VectorForm] = {"tokens": token_vectors, "encoder": encoder_vectors}


def body_of(model: Model, max_tokens: int) -> VectorBody | None:
    """Return the body of a model; None for a model without vectors. Raises BadInput if its files changed."""
    if model.form not in VECTOR_FORMS:
        return None
    return cached_body(model.files, max_tokens)


def expect_body(model: Model, max_tokens: int) -> VectorBody:
    """Return the body of a model whose vectors are published. Raises BadInput for a model without vectors."""
    if (body := body_of(model, max_tokens)) is None:
        raise BadInput(
            f"publish_vectors: judge {model.judge}: the model {model.name} has no vectors; name judges with a "
            "model of token ids, or an encoder with head.json"
        )
    return body


@lru_cache(maxsize=64)
def cached_body(files: ModelFiles, max_tokens: int) -> VectorBody | None:
    return load_files(files, lambda path: VECTOR_FORMS[files.form].body(path, max_tokens))


def load_vectors(model: Model, max_tokens: int, device: str | None) -> VectorFunctions:
    """Load a model, cached for all shards and threads of a worker. Raises BadInput if its files changed."""
    return cached_model(model.files, max_tokens, device, every_label=model.every_label)


@Loader
def cached_model(
    files: ModelFiles, max_tokens: int, device: str | None, *, every_label: bool
) -> VectorFunctions:
    form = VECTOR_FORMS[files.form]
    return load_files(files, lambda path: form.load(path, max_tokens, device, every_label=every_label))


def stored_bodies(
    models: Sequence[Model], judges: Sequence[Judge], published: Sequence[str]
) -> dict[str, VectorBody]:
    """Return, by the name of the judge, the bodies whose vectors are stored.

    They are those of judges in `published`, and those that several judges of a source share.
    """
    lengths = {judge.name: judge.max_tokens for judge in judges}
    candidates = [model for model in models if model.form in VECTOR_FORMS]
    if len(candidates) < 2 and not any(model.judge in published for model in candidates):
        return {}  # bodies are read to compute their digests
    bodies = {model.judge: body_of(model, lengths[model.judge]) for model in candidates}
    digests = [body.digest for body in bodies.values() if body]
    wanted = {body.digest for judge, body in bodies.items() if body and judge in published}
    return {
        judge: body
        for judge, body in bodies.items()
        if body and (body.digest in wanted or digests.count(body.digest) > 1)
    }


def quantised(
    vectors: NDArray[Any], unit: float
) -> tuple[NDArray[np.float32], NDArray[np.int8], NDArray[np.float64]]:
    """Return the scale of each vector, its numbers in 8 bits, and its relative error: (n,), (n, dims), (n,).

    A vector is about its scale times its numbers, of which the largest is 127. The error is the length of the
    difference, divided by the length of the vector. unit: of `vectors`.
    """
    exact = vectors.astype(np.float64) * unit
    scales = (np.abs(exact).max(axis=1, initial=0) / 127).astype(np.float32)
    steps = scales.astype(np.float64)[:, None]
    whole = np.rint(np.divide(exact, steps, out=np.zeros_like(exact), where=steps > 0))
    whole = np.clip(whole, -127, 127)
    lengths = np.sqrt((exact * exact).sum(axis=1))
    differences = np.sqrt(((exact - whole * steps) ** 2).sum(axis=1))
    errors = np.divide(differences, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return scales, whole.astype(np.int8), errors
