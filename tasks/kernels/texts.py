"""The bytes of a column of text, as the compiled kernels take them."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text_buffers(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of a column of text and its (n + 1,) offsets, without a copy."""
    # Part of a column has the buffers of the whole, and offsets that count from their beginning.
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), ends
