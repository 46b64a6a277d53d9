"""What a GPU does beside one core of the same machine: signatures, edges, clusters, the classifier.

What the GPU gives is compared with what the CPU gives, before its speed is said. The table goes into docs/gpu.md.
"""

import argparse
import ctypes
import io
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clusters import cluster_of_each
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, markdown, megabytes_of, seconds
from zyda_flows.tasks.recipe.kinds import MinHashRound

PAGE = REPOSITORY / "docs/gpu.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
CHARACTERS, WORDS = MinHashRound(), MinHashRound(shingle="words", width=13)
TEXT_BYTES = 1 << 29  # on the device, where words have some twenty times as much beside them
SHARD_BYTES = 1 << 28  # of text, as a shard of ingest has
KEYS = 8 << 20
EDGES = 16 << 20
DOCUMENTS, FEW = 2000, 12  # that are classified, by one core only a few
CUDA_NO_DEVICE = 100
NO_GPU = 3  # the status of --look; Python's own are 1 and 2
BFLOAT16 = 0.01  # by which its answers may differ from float32's, on a CPU by 0.003; they are about 0.05
OTHER_BITS = "the GPU gives other results than the CPU: please report it, with the output of nvidia-smi"
SOFTWARE = ("cudf-cu13", "cugraph-cu13", "cupy-cuda13x", "numba-cuda", "torch")


def gpu() -> str:
    """Return the name of the first GPU, or nothing where the driver finds none.

    Ends the program where the driver does not work.
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
        raise SystemExit(
            f"NVIDIA's driver is there and does not work: CUDA's error {status}; look at nvidia-smi"
        )
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, len(name), device)
    return name.value.decode()


def on_device(call: Callable[[], object]) -> float:
    """Return the shortest time of a call, until all that it asked of the GPU is done."""
    from zyda_flows.tasks.gpu import rapids

    def whole() -> None:
        call()
        rapids.wait()

    whole()  # compiles
    return seconds(whole)


def row(what: str, unit: str, size: float, by_gpu: float, by_cpu: float) -> dict[str, Any]:
    return {
        "what": what, "": unit, "one GPU": size / by_gpu, "one core": size / by_cpu,
        "cores for a GPU": by_cpu / by_gpu,
    }  # fmt: skip


def same(found: Any, expected: Any) -> None:
    if not np.array_equal(found, expected):
        raise SystemExit(OTHER_BITS)


def signatures(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Sketch text that is on the device: characters, and words."""
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
    there, there_ends = rapids.xp.tile(rapids.to_device(data), times), rapids.to_device(all_ends)
    folded = rapids.to_device(folded_characters())
    of_characters, of_words = ({"width": each.width, "values": each.values} for each in (CHARACTERS, WORDS))

    def characters() -> Any:
        return sketching.signatures(
            rapids.xp, sketching.CHARACTER_KERNELS, there, there_ends, **of_characters
        )

    def words() -> Any:
        hashes, word_ends, _ = wording.word_hashes(rapids.xp, there, there_ends, folded)
        return sketching.signatures(rapids.xp, sketching.WORD_KERNELS, hashes, word_ends, **of_words)

    rows = list[dict[str, Any]]()
    by_cpu = {
        "characters": (characters, lambda: sketch.signatures(data, ends, **of_characters)),
        "words": (words, lambda: sketch.word_signatures(*word_hashes(texts), **of_words)),
    }
    for name, (of_gpu, of_cpu) in by_cpu.items():
        found, expected = rapids.to_host(of_gpu()[: len(texts)]), of_cpu()
        is_ascii = np.array([text.isascii() for text in texts.to_pylist()])  # NFC changes nothing of these
        chosen = slice(None) if name == "characters" else is_ascii
        same(found[chosen], expected[chosen])
        gigabytes = len(data) / 1e9
        of_device = on_device(of_gpu) / times
        rows.append(row(f"signatures, {name}", "GB/s", gigabytes, of_device, seconds(of_cpu)))
    return rows


def shard_of(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Repeat texts until they are as many as a shard has."""
    return pa.concat_arrays([texts] * max(1, round(SHARD_BYTES / 1e6 / megabytes_of(texts))))


def documents_of(texts: pa.LargeStringArray) -> pa.Table:
    return pa.table({"doc_id": np.arange(len(texts), dtype=np.uint64), "text": texts})


def shards(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Read a Parquet file from memory, decode it, and make its band keys."""
    from zyda_flows.tasks.gpu.shard_keys import keys_of_groups
    from zyda_flows.tasks.signatures.keys import band_keys
    from zyda_flows.tasks.storage.tables import parquet_writer

    with tempfile.NamedTemporaryFile() as scratch:
        table = documents_of(texts)
        with parquet_writer(Path(scratch.name), table.schema) as writer:
            writer.write_table(table, row_group_size=max(1, len(table) // 8))
        content = Path(scratch.name).read_bytes()

    def by_gpu() -> Any:
        return [
            *keys_of_groups(
                content, range(pq.ParquetFile(io.BytesIO(content)).num_row_groups), CHARACTERS, None, none
            )
        ]

    def none(_: pa.Table) -> Any:
        raise SystemExit("the GPU has too little memory for this measurement")

    def by_cpu() -> Any:
        read = pq.ParquetFile(io.BytesIO(content)).read(use_threads=False)
        return [band_keys(chunk, CHARACTERS) for chunk in read.column("text").chunks]

    same(np.concatenate([keys for _, keys in by_gpu()]), np.concatenate([k[has] for k, has in by_cpu()]))
    gigabytes = megabytes_of(texts) / 1e3
    return [row("a shard, from Parquet to band keys", "GB/s", gigabytes, on_device(by_gpu), seconds(by_cpu))]


def files(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Do what a worker does with shards: read and check files, make their band keys, and write them."""
    from zyda_flows.tasks.signatures.minhash import KeysOfShard
    from zyda_flows.tasks.storage.folder import Folder
    from zyda_flows.tasks.storage.tables import write_table
    from zyda_flows.tasks.workers.dask_cluster import GPU_THREADS
    from zyda_flows.tasks.workers.engine import Engine, SentToGpu

    table = documents_of(texts)
    by_worker = SentToGpu(KeysOfShard.make, Engine.GPU)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(scratch)
        shards = [write_table(folder, f"{i}.parquet", str(i), table) for i in range(2 * GPU_THREADS)]
        jobs = [KeysOfShard(folder, "text", shard, CHARACTERS) for shard in shards]
        with ThreadPoolExecutor(GPU_THREADS) as threads:
            found = [shard.digest for shard in threads.map(by_worker, jobs)]
            if found != [jobs[0].make().digest] * len(jobs):
                raise SystemExit(OTHER_BITS)
            by_gpu = on_device(lambda: [*threads.map(by_worker, jobs)]) / len(jobs)
        by_cpu = seconds(jobs[0].make)
    return [row("shards, from file to file", "GB/s", megabytes_of(texts) / 1e3, by_gpu, by_cpu)]


def joins() -> list[dict[str, Any]]:
    """Find edges of band keys and clusters of edges, from and to the host's memory."""
    from zyda_flows.tasks.dedup import forests
    from zyda_flows.tasks.gpu import rapids
    from zyda_flows.tasks.gpu.joining import forest_of
    from zyda_flows.tasks.signatures.edges import stars

    chance = np.random.default_rng(0)
    ids = np.arange(KEYS, dtype=np.uint64)
    keys = cluster_of_each(KEYS, chance) * np.uint64(0x9E3779B97F4A7C15)

    def edges_by_gpu() -> Any:
        return tuple(map(rapids.to_host, stars(rapids.to_device(keys), rapids.to_device(ids), rapids.xp)))

    same(edges_by_gpu(), stars(keys, ids))
    a, b = (chance.integers(0, EDGES, EDGES).astype(np.uint64) for _ in range(2))
    of_gpu, of_cpu = forest_of([(a, b)]), forests.forest_of_edges(a, b)
    same(of_gpu[0], of_cpu.ids)
    same(of_gpu[1], of_cpu.roots)
    return [
        row("edges", "million keys/s", KEYS / 1e6, on_device(edges_by_gpu), seconds(lambda: stars(keys, ids))),
        row(
            "clusters", "million edges/s", EDGES / 1e6, on_device(lambda: forest_of([(a, b)])),
            seconds(lambda: forests.forest_of_edges(a, b), 1),
        ),
    ]  # fmt: skip


def classifier(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Classify with a model of DeBERTa-v3-base's size, with random weights, as `benchmarks.classifier` does."""
    import torch

    from benchmarks.classifier import MAX_TOKENS, web_like, write_model
    from zyda_flows.tasks.quality.torch_models import Classifier

    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        of_gpu = Classifier(Path(folder), MAX_TOKENS)
        of_cpu = Classifier(Path(folder), MAX_TOKENS, device="cpu")
    if of_gpu.device != "cuda":
        raise SystemExit("PyTorch finds no GPU here: install its build for CUDA 13")
    many = web_like(texts.to_pylist(), DOCUMENTS)
    few = many[:FEW]
    torch.set_num_threads(1)
    if np.abs(of_gpu.logits(few) - of_cpu.logits(few)).max() > BFLOAT16:
        raise SystemExit(OTHER_BITS)
    by_gpu = seconds(lambda: of_gpu.logits(many)) / len(many)
    by_cpu = seconds(lambda: of_cpu.logits(few), 1) / len(few)
    return [row("the classifier", "documents/s", 1, by_gpu, by_cpu)]


def rows_of(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    shard = shard_of(texts)
    return [*signatures(texts), *shards(shard), *files(shard), *joins(), *classifier(texts)]


def write_table(name: str, rows: list[dict[str, Any]]) -> str:
    """Put a table in the place of the page's last, and return it. name: of the GPU."""
    versions = ", ".join(f"{package} {version(package)}" for package in SOFTWARE)
    found = f"{name}, {datetime.now(UTC):%Y-%m-%d}; {versions}.\n\n{markdown(rows)}\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{found}{END}{rest.partition(END)[2]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=DEMO, help="of texts to measure with")
    parser.add_argument(
        "--look",
        action="store_true",
        help=f"say whether there is a GPU, no more; status {NO_GPU} where there is none",
    )
    arguments = parser.parse_args()
    if not (name := gpu()):
        print("there is no GPU here that NVIDIA's driver shows: nothing was checked, and nothing measured")
        sys.exit(NO_GPU if arguments.look else 0)
    if arguments.look:
        print(f"checking the engine of GPUs on this one: {name}")
        return
    from zyda_flows.tasks.gpu import rapids

    rapids.use_pool()
    print(write_table(name, rows_of(load_texts(arguments.folder, 300))))


if __name__ == "__main__":
    as_workers_are()
    main()
