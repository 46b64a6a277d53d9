"""The bytes and offsets of a column of text, in the form that the compiled kernels take."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

AT_ONCE = 64  # bytes that kernels read together


def text_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of a column of text and its (n + 1,) offsets, without a copy.

    Raises TypeError for anything but one array with 64-bit offsets: kernels would read beyond its memory.
    """
    if not isinstance(texts, pa.Array) or texts.type not in (pa.large_string(), pa.large_binary()):
        raise TypeError(
            f"texts: expected one array of large_string, got {getattr(texts, 'type', type(texts))}"
        )
    # A slice of a column has the buffers of the whole column, and offsets that count from the beginning of these.
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    found = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    found.flags.writeable = False  # with both kinds of arrays numba would compile all kernels twice
    return found, ends


def roomy_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes and offsets of `text_buffers`, padded with zeros to AT_ONCE bytes if there are fewer."""
    data, ends = text_buffers(texts)
    if len(data) < AT_ONCE:
        data = np.pad(data, (0, AT_ONCE - len(data)))
        data.flags.writeable = False
    return data, ends


def check_buffers(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    """Check that the offsets lie within the data: kernels rely on them without further checks.

    Raises TypeError for other types, and ValueError unless the offsets ascend within 0 to len(data).
    """
    for name, array, kind in (("data", data, np.uint8), ("offsets", offsets, np.int64)):
        if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
            raise TypeError(f"{name}: expected a one-dimensional array of {np.dtype(kind)}")
    if not len(offsets) or offsets[0] < 0 or offsets[-1] > len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError(f"offsets: expected ascending numbers from 0 to at most {len(data)}")
