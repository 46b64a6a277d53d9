"""All calls of RAPIDS are listed, and exist in RAPIDS."""

import pytest
import rapids_calls

OF_OTHERS = {"BytesIO", "asarray", "asnumpy", "astype", "dtype", "empty", "zeros", "ndarray"} | {
    "Device", "MemoryPointer", "UnownedMemory", "free_all_blocks", "get_default_memory_pool", "get_default_pinned_memory_pool", "synchronize",
}  # fmt: skip


def test_every_call_of_rapids_is_listed():
    looked_at = {name.rpartition(".")[2] for name in rapids_calls.CALLS}
    assert rapids_calls.calls_made() - OF_OTHERS == looked_at


@pytest.mark.skipif(
    rapids_calls.folder_of("cudf", None) is None, reason="needs cuDF and cuGraph to be installed"
)
def test_listed_calls_exist_in_rapids():
    assert [*rapids_calls.faults()] == []
