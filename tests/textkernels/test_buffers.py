"""Arrays that a kernel does not accept raise a Python error, and never crash the process."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from zyda_flows.tasks.signatures.shingles import folded_characters
from zyda_flows.textkernels import sketch, words
from zyda_flows.textkernels.buffers import roomy_buffers, text_buffers
from zyda_flows.textkernels.texts.prose import SETS, measure_texts

KERNELS = {
    "signatures": lambda data, offsets: sketch.signatures(data, offsets, width=5, values=16),
    "shingle_hashes": lambda data, offsets: sketch.shingle_hashes(data, offsets, width=5),
    "hash_words": lambda data, offsets: words.hash_words(data, offsets, folded_characters()),
    "fold": lambda data, offsets: words.fold(data, offsets, folded_characters()),
    "may_change": lambda data, offsets: words.may_change(data, offsets, folded_characters()),
}
DATA = np.frombuffer(b"some text", np.uint8)
WRONG = {
    "offsets of 32 bits": (DATA, np.array([0, 9], np.int32), TypeError),
    "offsets that are no array": (DATA, [0, 9], TypeError),
    "characters for bytes": (np.array(list("some text")), np.array([0, 9]), TypeError),
    "two dimensions": (DATA.reshape(3, 3), np.array([0, 3]), TypeError),
    "beyond the end": (DATA, np.array([0, 1 << 40]), ValueError),
    "before the beginning": (DATA, np.array([-5, 9]), ValueError),
    "backwards": (DATA, np.array([0, 9, 4, 9]), ValueError),
    "none": (DATA, np.array([], np.int64), ValueError),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("wrong", WRONG)
def test_mismatching_bytes_and_offsets_raise(kernel, wrong):
    data, offsets, error = WRONG[wrong]
    with pytest.raises(error):
        KERNELS[kernel](data, offsets)


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["a"]),
        pa.array([b"a"]),
        pa.chunked_array([["a"]], pa.large_string()),
        pa.array([1]),
        ["a"],
        None,
    ],
    ids=["string", "binary", "chunked", "numbers", "list", "nothing"],
)
def test_texts_of_another_type_raise(texts):
    for call in (text_buffers, lambda texts: measure_texts(texts, SETS)):
        with pytest.raises(TypeError, match="texts: expected one array of large_string"):
            call(texts)


def test_null_counts_as_an_empty_text():
    texts = pa.array(["a text", None, ""], pa.large_string())
    rows = sketch.signatures(*text_buffers(texts), width=5, values=16)
    assert (rows[1] == sketch.EMPTY).all()
    assert (rows[1] == rows[2]).all()


@pytest.mark.parametrize("texts", [["a", "b"], [], ["", None]])
def test_buffers_are_always_read_only(texts):
    """Otherwise numba would compile every kernel twice: results of Arrow's arithmetic are in writable memory."""
    column = pa.array(texts, pa.large_string())
    changed = pc.utf8_upper(column)
    for one in (column, changed, column.filter(pa.array([False] * len(column), pa.bool_()))):
        for bytes_of in (text_buffers, roomy_buffers):
            assert not bytes_of(one)[0].flags.writeable
