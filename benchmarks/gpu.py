"""Measure signatures, edges, clusters and the classifier on a GPU, beside one core of the same machine.

The results of the GPU are compared with those of the CPU before the speed is measured. The table is written into
docs/gpu.md.
"""

import ctypes
import io
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.clusters import cluster_of_each
from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import DEMO, REPOSITORY, Table, TextsFolder, benchmark, markdown, shortest_time
from zyda_flows.tasks.recipe.kinds import MinHashRound

PAGE = REPOSITORY / "docs/gpu.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
CHARACTERS, WORDS = MinHashRound(), MinHashRound(shingle="words", width=13)
TEXT_BYTES = 1 << 29  # of text on the device; words need about twenty times as much beside it
SHARD_BYTES = 1 << 28  # of text, as in a shard of ingest
KEYS = 8 << 20
EDGES = 16 << 20
DOCUMENTS, FEW = 2000, 12  # classified by the GPU, and by one core
CUDA_NO_DEVICE = 100
NO_GPU = 3  # exit status of --look; Python itself uses 1 and 2
BFLOAT16 = 0.01  # largest difference of answers from float32's, which are about 0.05; on a CPU it is 0.003
DIFFERENT = "the GPU gives other results than the CPU: please report it, with the output of nvidia-smi"
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


def gpu_time(call: Callable[[], object]) -> float:
    """Return the shortest time of a call, until all its work on the GPU is done."""
    from zyda_flows.tasks.gpu import rapids

    def call_and_wait() -> None:
        call()
        rapids.wait()

    call_and_wait()  # compiles
    return shortest_time(call_and_wait)


def row(work: str, unit: str, size: float, by_gpu: float, by_cpu: float) -> dict[str, Any]:
    speeds = {"one GPU": size / by_gpu, "one core": size / by_cpu, "cores for a GPU": by_cpu / by_gpu}
    return {"work": work, "": unit, **speeds}


def expect_equal(result: Any, expected: Any) -> None:
    if not np.array_equal(result, expected):
        raise SystemExit(DIFFERENT)


def signatures(texts: pa.LargeStringArray) -> Iterator[dict[str, Any]]:
    """Measure signatures of characters and of words, of text on the device."""
    from zyda_flows.tasks.gpu import rapids
    from zyda_flows.tasks.signatures.shingles import folded_characters, word_hashes
    from zyda_flows.textkernels import sketch
    from zyda_flows.textkernels.buffers import text_buffers
    from zyda_flows.textkernels.cuda import sketching, wording

    data, ends = text_buffers(texts)
    data, ends = data[ends[0] : ends[-1]], ends - ends[0]
    times = max(1, TEXT_BYTES // len(data))
    shifts = np.repeat(np.arange(times) * len(data), len(ends) - 1)
    all_ends = np.append(np.tile(ends[:-1], times) + shifts, len(data) * times)
    gpu_data, gpu_ends = rapids.xp.tile(rapids.to_device(data), times), rapids.to_device(all_ends)
    folded = rapids.to_device(folded_characters())
    characters, words = ({"width": each.width, "values": each.values} for each in (CHARACTERS, WORDS))

    def characters_by_gpu() -> Any:
        return sketching.signatures(rapids.xp, sketching.CHARACTER_KERNELS, gpu_data, gpu_ends, **characters)

    def words_by_gpu() -> Any:
        hashes, word_ends, _ = wording.word_hashes(rapids.xp, gpu_data, gpu_ends, folded)
        return sketching.signatures(rapids.xp, sketching.WORD_KERNELS, hashes, word_ends, **words)

    is_ascii = np.array([text.isascii() for text in texts.to_pylist()])  # texts that NFC does not change
    for name, by_gpu, by_cpu, chosen in (
        ("characters", characters_by_gpu, lambda: sketch.signatures(data, ends, **characters), slice(None)),
        ("words", words_by_gpu, lambda: sketch.word_signatures(*word_hashes(texts), **words), is_ascii),
    ):
        expect_equal(rapids.to_host(by_gpu()[: len(texts)])[chosen], by_cpu()[chosen])
        yield row(
            f"signatures, {name}", "GB/s", len(data) / 1e9, gpu_time(by_gpu) / times, shortest_time(by_cpu)
        )


def shard_of(texts: pa.LargeStringArray) -> pa.Table:
    """Repeat texts to the size of a shard; return them with ids."""
    repeated = pa.concat_arrays([texts] * max(1, round(SHARD_BYTES / 1e6 / megabytes_of(texts))))
    return pa.table({"doc_id": np.arange(len(repeated), dtype=np.uint64), "text": repeated})


def shards(table: pa.Table) -> dict[str, Any]:
    """Measure band keys of a Parquet file in memory, with decoding."""
    from zyda_flows.tasks.gpu.shard_keys import keys_of_groups
    from zyda_flows.tasks.signatures.keys import band_keys
    from zyda_flows.tasks.storage.tables import parquet_writer

    with tempfile.NamedTemporaryFile() as scratch:
        with parquet_writer(Path(scratch.name), table.schema) as writer:
            writer.write_table(table, row_group_size=max(1, len(table) // 8))
        content = Path(scratch.name).read_bytes()
    groups = range(pq.ParquetFile(io.BytesIO(content)).num_row_groups)

    def out_of_memory(_: pa.Table) -> Any:
        raise SystemExit("the GPU has too little memory for this measurement")

    def by_gpu() -> Any:
        return [*keys_of_groups(content, groups, CHARACTERS, None, out_of_memory)]

    def by_cpu() -> Any:
        texts = pq.ParquetFile(io.BytesIO(content)).read(use_threads=False).column("text")
        return [band_keys(chunk, CHARACTERS) for chunk in texts.chunks]

    expect_equal(
        np.concatenate([keys for _, keys in by_gpu()]), np.concatenate([k[has] for k, has in by_cpu()])
    )
    gigabytes = megabytes_of(table.column("text")) / 1e3
    return row(
        "a shard, from Parquet to band keys", "GB/s", gigabytes, gpu_time(by_gpu), shortest_time(by_cpu)
    )


def files(table: pa.Table) -> dict[str, Any]:
    """Measure the work of a worker on shards: reading and checking files, making band keys, writing them."""
    from zyda_flows.tasks.signatures.minhash import KeysOfShard
    from zyda_flows.tasks.storage.folder import Folder
    from zyda_flows.tasks.storage.tables import write_table
    from zyda_flows.tasks.workers.dask_cluster import GPU_THREADS
    from zyda_flows.tasks.workers.engine import Engine, GpuCall

    by_worker = GpuCall(KeysOfShard.make, Engine.GPU)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(scratch)
        stored = [write_table(folder, f"{i}.parquet", str(i), table) for i in range(2 * GPU_THREADS)]
        jobs = [KeysOfShard(folder, "text", shard, CHARACTERS) for shard in stored]
        with ThreadPoolExecutor(GPU_THREADS) as threads:
            digests = {shard.digest for shard in threads.map(by_worker, jobs)}
            if digests != {jobs[0].make().digest}:
                raise SystemExit(DIFFERENT)
            by_gpu = gpu_time(lambda: [*threads.map(by_worker, jobs)]) / len(jobs)
        by_cpu = shortest_time(jobs[0].make)
    return row("shards, from file to file", "GB/s", megabytes_of(table.column("text")) / 1e3, by_gpu, by_cpu)


def joins() -> Iterator[dict[str, Any]]:
    """Measure edges of band keys and clusters of edges, from and to the memory of the host."""
    from zyda_flows.tasks.dedup import forests
    from zyda_flows.tasks.gpu import rapids
    from zyda_flows.tasks.gpu.joining import forest_of
    from zyda_flows.tasks.signatures.edges import stars

    chance = np.random.default_rng(0)
    ids = np.arange(KEYS, dtype=np.uint64)
    keys = cluster_of_each(KEYS, chance) * np.uint64(0x9E3779B97F4A7C15)

    def edges_by_gpu() -> Any:
        return tuple(map(rapids.to_host, stars(rapids.to_device(keys), rapids.to_device(ids), rapids.xp)))

    expect_equal(edges_by_gpu(), stars(keys, ids))
    a, b = (chance.integers(0, EDGES, EDGES).astype(np.uint64) for _ in range(2))
    by_gpu, by_cpu = forest_of([(a, b)]), forests.forest_of_edges(a, b)
    expect_equal(by_gpu[0], by_cpu.ids)
    expect_equal(by_gpu[1], by_cpu.roots)
    yield row(
        "edges", "million keys/s", KEYS / 1e6, gpu_time(edges_by_gpu), shortest_time(lambda: stars(keys, ids))
    )
    cpu_time = shortest_time(lambda: forests.forest_of_edges(a, b), 1)
    yield row("clusters", "million edges/s", EDGES / 1e6, gpu_time(lambda: forest_of([(a, b)])), cpu_time)


def classifier(texts: pa.LargeStringArray) -> dict[str, Any]:
    """Measure a model of DeBERTa-v3-base's size with random weights, as `benchmarks.classifier` does."""
    import torch

    from benchmarks.classifier import MAX_TOKENS, cut_to_web_pages, write_model
    from zyda_flows.tasks.quality.torch_models import Classifier

    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        gpu_model = Classifier(Path(folder), MAX_TOKENS)
        cpu_model = Classifier(Path(folder), MAX_TOKENS, device="cpu")
    if gpu_model.device != "cuda":
        raise SystemExit("PyTorch finds no GPU here: install its build for CUDA 13")
    many = cut_to_web_pages(texts.to_pylist(), DOCUMENTS)
    few = many[:FEW]
    torch.set_num_threads(1)
    if np.abs(gpu_model.logits(few) - cpu_model.logits(few)).max() > BFLOAT16:
        raise SystemExit(DIFFERENT)
    by_gpu = shortest_time(lambda: gpu_model.logits(many)) / len(many)
    by_cpu = shortest_time(lambda: cpu_model.logits(few), 1) / len(few)
    return row("the classifier", "documents/s", 1, by_gpu, by_cpu)


def rows_of(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    shard = shard_of(texts)
    return [*signatures(texts), shards(shard), files(shard), *joins(), classifier(texts)]


def write_page(name: str, rows: list[dict[str, Any]]) -> None:
    """Replace the table of the page. name: of the GPU."""
    versions = ", ".join(f"{package} {version(package)}" for package in SOFTWARE)
    section = f"{name}, {datetime.now(UTC):%Y-%m-%d}; {versions}.\n\n{markdown(rows)}\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{section}{END}{rest.partition(END)[2]}")


@benchmark("gpu")
def measure(
    folder: TextsFolder = DEMO,
    look: Annotated[
        bool,
        typer.Option(
            "--look", help=f"Only print whether there is a GPU; exit status {NO_GPU} if there is none."
        ),
    ] = False,
) -> Iterator[Table]:
    if not (name := gpu()):
        print("no GPU: NVIDIA's driver shows none, so nothing is checked and nothing is measured")
        raise typer.Exit(NO_GPU if look else 0)
    if look:
        print(f"checking the GPU engine on {name}")
        return
    from zyda_flows.tasks.gpu import rapids

    rapids.use_pool()
    rows = rows_of(load_texts(folder, 300))
    write_page(name, rows)
    yield Table(f"one GPU ({name}) beside one core", rows)


if __name__ == "__main__":
    measure.main()
