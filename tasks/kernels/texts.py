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
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends


def roomy_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what `text_buffers` does, but with zeros after the text where it has fewer bytes than AT_ONCE."""
    data, ends = text_buffers(texts)
    if len(data) < AT_ONCE:
        data = np.pad(data, (0, AT_ONCE - len(data)))
        data.flags.writeable = False  # as buffers are: for others numba would compile all kernels once more
    return data, ends
