"""The mean of the vectors of a model, which is subtracted before vectors are compared by the signs of projections.

It is the file `mean.safetensors` in the folder of the model, with the tensor `mean`: float32, (dims,), the mean of
vectors of length 1. The file is optional.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality.encoder_files import MEAN, Fault
from zyda_flows.tasks.quality.text_vectors import UNIT

TENSOR = "mean"
MOST_HEADER = 1 << 16  # bytes of the file beside its numbers
SLACK = 1e-3  # by which a mean of vectors of length 1, in float32, may be longer than 1


def read_mean(folder: Path, dims: int) -> NDArray[np.int32]:
    """Return the mean of the vectors of a model in 1/UNIT, (dims,); zeros without a file. Raises Fault."""
    path = folder / MEAN
    if not path.is_file():
        return np.zeros(dims, np.int32)
    if path.stat().st_size > 4 * limits().model_dims + MOST_HEADER:
        raise Fault(f"{MEAN} has {path.stat().st_size:,} bytes, expected {dims} numbers of float32")
    try:
        tensors = load(path.read_bytes())
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise Fault(f"{MEAN}: {first_line(error)}; copy the file again") from error
    mean = tensors.get(TENSOR)
    if mean is None or mean.dtype != np.float32 or mean.shape != (dims,):
        got = "no such tensor" if mean is None else f"{mean.dtype} of {list(mean.shape)}"
        raise Fault(f"{MEAN}: expected the tensor {TENSOR}, float32 of the shape [{dims}], got {got}")
    numbers = mean.astype(np.float64)
    if not np.isfinite(numbers).all() or np.linalg.norm(numbers) > 1 + SLACK:
        raise Fault(f"{MEAN}: expected a mean of vectors of length 1, got a longer or infinite one")
    return np.rint(numbers * UNIT).astype(np.int32)


def write_mean(folder: Path, vectors: NDArray[np.int32]) -> None:
    """Write the mean of vectors of length UNIT, (n, dims), into the folder of their model.

    Vectors of zeros, which belong to texts without a token, are left out.
    """
    found = vectors[vectors.any(axis=1)]
    mean = found.sum(axis=0, dtype=np.int64) / (max(1, len(found)) * UNIT)
    (folder / MEAN).write_bytes(save({TENSOR: mean.astype(np.float32)}))
