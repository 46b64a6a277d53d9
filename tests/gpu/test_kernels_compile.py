"""The kernels compile for old and new GPUs, without a GPU."""

from types import SimpleNamespace

import pytest
from numba import types

from zyda_flows.textkernels.cuda import sketching, wording

BYTES, SMALL, PLACES, HASHES = types.uint8[::1], types.uint32[::1], types.int64[::1], types.uint64[::1]
ROWS, FLAGS = types.uint64[:, ::1], types.boolean[:, ::1]
NUMBER = SHIFT = types.int64  # the type of launch arguments that are Python integers


def kernels():
    """Yield each kernel with the types of its arguments."""
    for kind, text in (("characters", BYTES), ("words", HASHES)):
        whole, play, fill = sketching.CHARACTER_KERNELS if kind == "characters" else sketching.WORD_KERNELS
        tiles = (text, PLACES, PLACES, PLACES, NUMBER, NUMBER)
        yield f"{kind}, whole", whole, (text, PLACES, PLACES, NUMBER, SHIFT, ROWS)
        yield f"{kind}, a round", play, (*tiles, NUMBER, SHIFT, ROWS)
        yield f"{kind}, the rest", fill, (*tiles, SHIFT, FLAGS, ROWS)
    yield "bands", sketching.hash_bands, (ROWS, ROWS)
    yield "first characters", wording.begin_words, (BYTES, PLACES, SMALL, BYTES, BYTES)
    yield "words", wording.hash_words, (BYTES, PLACES, PLACES, SMALL, HASHES)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)], ids=str)
def test_kernels_compile_without_floats_and_with_atomic_minima(capability, monkeypatch):
    pytest.importorskip("numba_cuda", reason="needs numba-cuda, which is in the extra of the tests")
    from numba import cuda
    from numba.cuda import dispatcher

    assert cuda.implementation == "NVIDIA"
    assert not dispatcher.config.CUDA_LOW_OCCUPANCY_WARNINGS, "small launches are no fault"
    # Functions of a device are compiled for the GPU that is there.
    monkeypatch.setattr(
        dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=capability)
    )
    for name, kernel, arguments in kernels():
        code, _ = cuda.compile_ptx(kernel.py_func, types.void(*arguments), cc=capability)
        assert ".f64" not in code, name  # as for int64 combined with uint64
        has_minima = "min.u64" in code and "atom." in code
        assert has_minima == any(part in name for part in ("whole", "a round", "the rest")), name
