"""The bytes of a column of text, as the compiled kernels take them."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

AT_ONCE = 64  # bytes that kernels look at together


def text_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of a column of text and its (n + 1,) offsets, without a copy.

    Raises TypeError for anything but one array with offsets of 64 bits: kernels would read beyond its memory.
    """
    if not isinstance(texts, pa.Array) or texts.type not in (pa.large_string(), pa.large_binary()):
        raise TypeError(f"texts are one array of large_string, not {getattr(texts, 'type', type(texts))}")
    # Part of a column has the buffers of the whole, and offsets that count from their beginning.
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    found = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    found.flags.writeable = False  # for arrays of both kinds numba would compile all kernels twice
    return found, ends


def roomy_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what `text_buffers` does, but with zeros after the text where it has fewer bytes than AT_ONCE."""
    data, ends = text_buffers(texts)
    if len(data) < AT_ONCE:
        data = np.pad(data, (0, AT_ONCE - len(data)))
        data.flags.writeable = False
    return data, ends


def check_buffers(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
    """Check that documents lie within their bytes: kernels look at nothing but their offsets.

    Raises TypeError for other types, and ValueError where offsets do not ascend from 0 to len(data) at the most.
    """
    for name, array, kind in (("data", data, np.uint8), ("offsets", offsets, np.int64)):
        if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
            raise TypeError(f"{name}: a one-dimensional array of {np.dtype(kind)} is expected")
    if not len(offsets) or offsets[0] < 0 or offsets[-1] > len(data) or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError(f"offsets: they have to ascend, from 0 to {len(data)} at the most")
