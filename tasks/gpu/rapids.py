"""All calls of cuDF, cuGraph and CuPy, for the versions that docs/gpu.md names."""

import io
from collections.abc import Sequence
from typing import Any

import cudf
import cugraph
import cupy
import pylibcudf
import rmm

xp = cupy


def to_device(array: Any) -> Any:
    """Copy a NumPy array to the device."""
    return cupy.asarray(array)


def to_host(array: Any) -> Any:
    """Copy an array of the device to NumPy."""
    return cupy.asnumpy(array)


def wait() -> None:
    """Wait until the device has finished all its work."""
    cupy.cuda.Device().synchronize()


def give_back() -> None:
    """Free the unused memory of CuPy's pools, on the device and on the host."""
    cupy.get_default_memory_pool().free_all_blocks()
    cupy.get_default_pinned_memory_pool().free_all_blocks()


def use_pool() -> None:
    """Use the memory pool of the driver, as workers that dask-cuda starts do."""
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())


def text_of(content: bytes, groups: Sequence[int]) -> tuple[Any, Any, Any]:
    """Read some row groups of a shard to the device.

    content: of the whole file. Returns `doc_id`, (n,) uint64, the bytes of all texts, uint8, and their offsets,
    (n + 1,) int64.
    """
    table = cudf.read_parquet(
        io.BytesIO(content), columns=["doc_id", "text"], row_groups=[list(groups)], use_pandas_metadata=False
    )
    column, _ = table["text"].to_pylibcudf()
    if not column.size():
        return cupy.empty(0, "u8"), cupy.empty(0, "u1"), cupy.zeros(1, "i8")
    offsets, characters = column.child(0), column.data()
    is_long = offsets.type().id() == pylibcudf.TypeId.INT64  # if the texts have 2**31 bytes or more
    ends = over(offsets.data(), "i8" if is_long else "i4")[column.offset() :][: column.size() + 1]
    data = over(characters, "u1") if characters is not None else cupy.empty(0, "u1")
    return table["doc_id"].to_cupy(), data, ends.astype("i8")


def over(span: Any, kind: str) -> Any:
    """Return the memory of a cuDF column as an array, without a copy."""
    size = span.size // cupy.dtype(kind).itemsize
    if not size:  # no memory, so CuPy could not find its device
        return cupy.empty(0, kind)
    memory = cupy.cuda.UnownedMemory(span.ptr, span.size, span)
    return cupy.ndarray(size, kind, cupy.cuda.MemoryPointer(memory, 0))


def components(count: int, a: Any, b: Any) -> Any:
    """Label the connected components of edges between indices, (m,) int32 or int64 twice: (count,) labels."""
    graph = cugraph.Graph(directed=False)
    edges = cudf.DataFrame({"a": a, "b": b})
    graph.from_cudf_edgelist(edges, source="a", destination="b", renumber=False)
    found = cugraph.weakly_connected_components(graph)
    labels = cupy.empty(count, found["labels"].dtype)
    labels[found["vertex"].to_cupy()] = found["labels"].to_cupy()
    return labels
