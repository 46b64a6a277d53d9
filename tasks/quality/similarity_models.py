"""Models of similar meaning: vectors of texts, whose cosines propose and confirm pairs of documents.

Two forms have such vectors. Models of token ids (`tasks.quality.similarity_tokens`) are cheap, read texts whole,
and return the same bits on every machine. Encoders of sentences (`tasks.quality.similarity_encoders`) read texts by
windows, and their vectors depend on the class of the device and on the number format.

A model is checked once, before other work, and its digest is part of the keys of results. The digest depends on all
files on which the vectors depend, and on the mean of the vectors (`tasks.quality.similarity_mean`). It does not
depend on the heads of a judge.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput, first_line, one_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality import similarity_encoders, similarity_tokens
from zyda_flows.tasks.quality.encoder_files import MEAN, Fault, digest_of_file
from zyda_flows.tasks.quality.forms import FORMS, commit_of, form_of
from zyda_flows.tasks.quality.loading import Loaded, Loader, load_unchanged
from zyda_flows.tasks.quality.similarity_encoders import MOST_WINDOWS
from zyda_flows.tasks.quality.similarity_mean import read_mean
from zyda_flows.tasks.quality.text_vectors import UNIT, TextVectors
from zyda_flows.tasks.storage.records import Record, digest_of

__all__ = [
    "MOST_WINDOWS", "UNIT", "SimilarityModel", "TextVectors", "VectorsOfTexts", "load_similarity", "mean_of",
    "similarity_model",
]  # fmt: skip

VERSION = 1  # raised if the same files give other vectors
EXPECTED = "expected an encoder of sentences, or a judge of the form luxical or pooled"

VectorsOfTexts = Callable[[pa.ChunkedArray], TextVectors]


class SimilarityForm(Protocol):
    """A kind of model: a module with these functions.

    dims_of: checks a model and returns the length of its vectors; raises Fault.
    digest_of_vectors: hashes all on which its vectors depend.
    precision: returns the class of the device and the number format on which its vectors depend.
    load: returns a function that takes texts and returns vectors.
    """

    def dims_of(self, folder: Path) -> int: ...
    def digest_of_vectors(self, folder: Path) -> str: ...
    def precision(self, device: str | None) -> str: ...
    def load(self, folder: Path, device: str | None) -> VectorsOfTexts: ...


SIMILARITY_FORMS: dict[str, SimilarityForm] = {"tokens": similarity_tokens, "encoder": similarity_encoders}


class SimilarityModel(Record):
    """A model that was checked.

    revision: the commit of a model of the hub. form: its name in SIMILARITY_FORMS. digest: of all on which its
    vectors depend, and of its mean. dims: the length of a vector.
    """

    name: str
    revision: str | None
    form: str
    digest: str
    dims: int

    @property
    def folder(self) -> Path:
        """The local folder of the model; a model of the hub is downloaded."""
        return FORMS[self.form].locate(self.name, self.revision)

    def precision(self, device: str | None) -> str:
        """Return the class of the device and the number format, on which the vectors depend, for keys."""
        return SIMILARITY_FORMS[self.form].precision(device)


def similarity_model(field: str, name: str, revision: str | None) -> SimilarityModel:
    """Find and check a model. Raises BadInput if it cannot be loaded or has no vectors.

    field: of the recipe that names the model, for messages.
    """
    try:
        form = known_form(name)
        folder = FORMS[form].locate(name, revision)
        form = known_form(str(folder))
        dims, digest = SIMILARITY_FORMS[form].dims_of(folder), digest_with_mean(form, folder)
        if dims > limits().model_dims:
            raise Fault(f"its vectors have {dims:,} numbers, expected at most {limits().model_dims:,}")
        read_mean(folder, dims)
    except Fault as error:
        raise BadInput(one_line(f"{field}: {name}: {error}")) from error
    except Exception as error:  # transformers, torch and the hub raise many kinds of errors
        raise BadInput(
            one_line(f"{field}: {name} cannot be loaded: {first_line(error)}; {EXPECTED}")
        ) from error
    commit = None if Path(name).expanduser().exists() else commit_of(folder)
    return SimilarityModel(name=name, revision=commit, form=form, digest=digest, dims=dims)


def known_form(name: str) -> str:
    """Return the form of a model by its name or its path. Raises Fault if it has no vectors or lacks libraries."""
    form = form_of(name)
    if form not in SIMILARITY_FORMS:
        raise Fault(f"a model of {form} has no vectors; {EXPECTED}")
    if missing := FORMS[form].missing_libraries():
        raise Fault(missing)
    return form


def digest_with_mean(form: str, folder: Path) -> str:
    """Return the digest of a model."""
    mean = digest_of_file(folder / MEAN) if (folder / MEAN).is_file() else ""
    return digest_of([VERSION, form, SIMILARITY_FORMS[form].digest_of_vectors(folder), mean])


def load_similarity(model: SimilarityModel, device: str | None) -> VectorsOfTexts:
    """Load a model, which is cached for all shards and threads of a worker.

    Args:
        device: cpu, cuda, or None for the best device of this machine.

    Returns:
        The function of its vectors, which raises BadInput for a vector that is not finite.

    Raises:
        BadInput: the files have changed since the digest was taken, or libraries are missing.
    """
    return cached_vectors(model, device)


@Loader
def cached_vectors(model: SimilarityModel, device: str | None) -> VectorsOfTexts:
    if missing := FORMS[model.form].missing_libraries():
        raise BadInput(f"model {model.name}: a worker cannot run it: {missing}")
    return partial(finite_vectors, model, unchanged(model, partial(loaded, model, device)))


def loaded(model: SimilarityModel, device: str | None) -> VectorsOfTexts:
    return SIMILARITY_FORMS[model.form].load(model.folder, device)


def finite_vectors(model: SimilarityModel, vectors: VectorsOfTexts, texts: pa.ChunkedArray) -> TextVectors:
    try:
        return vectors(texts)
    except Fault as error:
        raise BadInput(f"model {model.name}: {error}") from error


def mean_of(model: SimilarityModel) -> NDArray[np.int32]:
    """Return the mean of the vectors of a model in 1/UNIT, (dims,); zeros if its folder has none.

    Raises BadInput if the files have changed since the digest was taken.
    """
    return unchanged(model, lambda: read_mean(model.folder, model.dims))


def unchanged(model: SimilarityModel, load: Callable[[], Loaded]) -> Loaded:
    current_digest = partial(digest_with_mean, model.form, model.folder)
    return load_unchanged(model.name, model.digest, current_digest, load)
