"""Models of fastText, as DCLM's classifier: a file .bin or .ftz, here or on the hub.

This module is a form of `tasks.quality.forms`. A text is judged whole, as one line. Scores are fastText's
probabilities in float32, which are not rounded, because thresholds are small: DCLM keeps documents above 0.018112.
"""

from collections.abc import Callable
from functools import partial
from hashlib import file_digest
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality.encoder_files import Fault
from zyda_flows.tasks.quality.heads import ModelHead
from zyda_flows.textkernels.fasttext.model import FasttextModel

ENDINGS = (".bin", ".ftz")
EXPECTED = "expected a file .bin or .ftz, or owner/repository/file of the hub"
MODULES: tuple[str, ...] = ()  # which workers share
DECIDED = ("pred", "prob")
WINDOW = 1 << 24  # numbers of a matrix that are checked together


def missing_libraries() -> str:
    return ""


def is_named(name: str) -> bool:
    """Return whether a name in a recipe is the name of such a model."""
    return name.endswith(ENDINGS)


def locate(name: str, revision: str | None) -> Path:
    """Return the local file of a model; a model of the hub is downloaded."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if name.startswith((".", "/", "~")) or name.count("/") < 2:
        raise FileNotFoundError(f"there is no file {name}")
    from huggingface_hub import hf_hub_download  # late: it imports much

    owner, repository, file = name.split("/", 2)
    return Path(hf_hub_download(f"{owner}/{repository}", file, revision=revision))


def check(path: Path) -> tuple[ModelHead, ...]:
    """Check a model and return its head. Raises Fault."""
    if path.stat().st_size > limits().model_bytes:
        raise Fault(f"it has more than {limits().model_bytes:,} bytes")
    model = read(path)
    numbers = (model.matrix.numbers, model.matrix.centroids, model.matrix.norms, model.output)
    if not all(is_finite(array) for array in numbers):
        raise Fault("its numbers are not all finite; train it again")
    return (ModelHead(labels=model.labels),)


def read(path: Path) -> FasttextModel:
    from zyda_flows.textkernels.fasttext.file import read_model  # late: it imports numba

    try:
        return read_model(path.read_bytes())
    except ValueError as error:
        raise Fault(f"{error}; copy the file again, or train the model again") from error


def is_finite(numbers: NDArray[np.uint8 | np.float32]) -> bool:
    read = np.frombuffer(numbers, "<f4")
    return all(np.isfinite(read[i : i + WINDOW]).all() for i in range(0, len(read), WINDOW))


def digest_of_model(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()[:20]


def precision(device: str | None) -> str:
    """Return the number format, on which answers depend: the same on each device."""
    return "float32"


def columns(heads: tuple[ModelHead, ...], judge: str, *, every_label: bool = True) -> list[pa.Field]:
    """Return the columns of the answers: the most probable label, its probability, and that of each label."""
    pred, prob = (f"{judge}_{name}" for name in DECIDED)
    each = [pa.field(f"{judge}_{label}", pa.float32()) for label in heads[0].labels]
    return [pa.field(pred, pa.string()), pa.field(prob, pa.float32()), *each]


def load(
    path: Path, max_tokens: int, device: str | None, *, every_label: bool = True
) -> Callable[[pa.ChunkedArray], list[pa.Array]]:
    """Load a model; return a function that takes texts and returns the columns of the answers."""
    return partial(answers, read(path))


def answers(model: FasttextModel, texts: pa.ChunkedArray) -> list[pa.Array]:
    from zyda_flows.textkernels.fasttext.prediction import probabilities_of

    each = [probabilities_of(model, chunk) for chunk in texts.cast(pa.large_string()).chunks]
    probabilities = np.concatenate([np.empty((0, len(model.labels)), np.float32), *each])
    best = pa.array(model.labels, pa.string()).take(pa.array(probabilities.argmax(axis=1)))
    return [
        best,
        *map(pa.array, (probabilities.max(axis=1, initial=0), *np.ascontiguousarray(probabilities.T))),
    ]
