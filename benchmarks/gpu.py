"""Measure a GPU beside one core of the same machine: signatures, shards, edges, clusters and the classifier.

The results of the GPU are compared with those of the CPU before the speed is measured. The table is written into
docs/gpu.md. With --bare, signatures, shards and the classifier are measured within four minutes, by CuPy,
numba-cuda, torch, transformers and pyarrow; nothing else is imported, and nothing is written.
"""

import ctypes
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Annotated, Any

import typer

from benchmarks.harness import DEMO, REPOSITORY, Table, TextsFolder, benchmark, markdown, restart_as_worker

PAGE = REPOSITORY / "docs/gpu.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
CUDA_NO_DEVICE = 100
NO_GPU = 3  # exit status of --look; Python itself uses 1 and 2
SOFTWARE = ("cudf-cu13", "cugraph-cu13", "cupy-cuda13x", "numba-cuda", "torch")


def gpu() -> str:
    """Return the name of the first GPU, or an empty string if there is none.

    Raises SystemExit if the driver fails.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    count, device, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(100)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status == CUDA_NO_DEVICE or not (status or count.value):
        return ""
    if status:
        raise SystemExit(f"NVIDIA's driver is installed and fails: CUDA's error {status}; look at nvidia-smi")
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, len(name), device)
    return name.value.decode()


def write_page(name: str, rows: list[dict[str, Any]]) -> None:
    """Replace the table of the page. name: of the GPU."""
    versions = ", ".join(f"{package} {version(package)}" for package in SOFTWARE)
    section = f"{name}, {datetime.now(UTC):%Y-%m-%d}; {versions}.\n\n{markdown(rows)}\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{section}{END}{rest.partition(END)[2]}")


@benchmark("gpu", as_worker=False)
def measure(
    folder: TextsFolder = DEMO,
    look: Annotated[
        bool,
        typer.Option(
            "--look", help=f"Only print whether there is a GPU; exit status {NO_GPU} if there is none."
        ),
    ] = False,
    bare: Annotated[bool, typer.Option("--bare", help="Measure without RAPIDS, Dask and Prefect.")] = False,
) -> Iterator[Table]:
    if not (name := gpu()):
        print("no GPU: NVIDIA's driver shows none, so nothing is checked and nothing is measured")
        raise typer.Exit(NO_GPU if look else 0)
    if look:
        print(f"checking the GPU engine on {name}")
        return
    if bare:
        from benchmarks import bare_gpu

        yield Table(f"one GPU ({name}), without RAPIDS", bare_gpu.rows_of_parts())
        return
    restart_as_worker()
    from benchmarks import rapids_gpu

    rows = rapids_gpu.measured_rows(folder)
    write_page(name, rows)
    yield Table(f"one GPU ({name}) beside one core", rows)


if __name__ == "__main__":
    measure.main()
