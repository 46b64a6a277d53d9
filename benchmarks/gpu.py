"""What a GPU does beside one core of the same machine: signatures, edges, clusters, the classifier.

python -m benchmarks.gpu [FOLDER]      measure, and write the table into docs/gpu.md
python -m benchmarks.gpu --look        say whether there is a GPU, and nothing else; status 1 where there is none

What the GPU gives is compared with what the CPU gives, before its speed is said.
"""

import ctypes
import io
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.clusters import cluster_of_each
from benchmarks.measure import DEMO, REPOSITORY, as_workers_are, load_texts, markdown, seconds

PAGE = REPOSITORY / "docs/gpu.md"
BEGIN, END = "<!-- measured -->\n", "<!-- end -->\n"
TEXT_BYTES = 2 << 30  # on the device
KEYS = 8 << 20
EDGES = 16 << 20
SOFTWARE = ("cudf-cu13", "cugraph-cu13", "cupy-cuda13x", "numba-cuda", "torch")


def gpu() -> str:
    """Return the name of the first GPU, or nothing where the driver finds none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    count, device, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(100)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return ""
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDeviceGetName(name, len(name), device)
    return name.value.decode()


def on_device(call: Callable[[], object]) -> float:
    """Return the shortest time of a call, until all that it asked of the GPU is done."""
    import cupy

    def whole() -> None:
        call()
        cupy.cuda.Device().synchronize()

    whole()  # compiles
    return seconds(whole)


def row(what: str, unit: str, size: float, by_gpu: float, by_cpu: float) -> dict[str, Any]:
    return {
        "what": what, "": unit, "one GPU": size / by_gpu, "one core": size / by_cpu,
        "cores for a GPU": by_cpu / by_gpu,
    }  # fmt: skip


def same(found: Any, expected: Any) -> None:
    if not np.array_equal(found, expected):
        raise SystemExit(
            "the GPU gives other bits than the CPU: please report it, with the output of nvidia-smi"
        )


def signatures(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Sketch text that is on the device: characters, and words."""
    import cupy

    from tasks.kernels import sketch
    from tasks.kernels.cuda import sketching, wording
    from tasks.kernels.texts import text_buffers
    from tasks.signatures.shingles import folded_characters, word_hashes

    data, ends = text_buffers(texts)
    data, ends = data[ends[0] : ends[-1]], ends - ends[0]
    times = max(1, TEXT_BYTES // len(data))
    there = cupy.tile(cupy.asarray(data), times)
    shifts = cupy.repeat(cupy.arange(times) * len(data), len(ends) - 1)
    there_ends = cupy.append(cupy.tile(cupy.asarray(ends[:-1]), times) + shifts, len(data) * times)
    folded, size = cupy.asarray(folded_characters()), {"width": 25, "values": 128}

    def characters() -> Any:
        return sketching.signatures(cupy, sketching.OF_CHARACTERS, there, there_ends, **size)

    def words() -> Any:
        hashes, word_ends, _ = wording.word_hashes(cupy, there, there_ends, folded)
        return sketching.signatures(cupy, sketching.OF_WORDS, hashes, word_ends, width=13, values=128)

    rows = list[dict[str, Any]]()
    by_cpu = {
        "25 characters": (characters, lambda: sketch.signatures(data, ends, **size)),
        "13 words": (words, lambda: sketch.word_signatures(*word_hashes(texts), width=13, values=128)),
    }
    for name, (of_gpu, of_cpu) in by_cpu.items():
        found, expected = of_gpu()[: len(texts)].get(), of_cpu()
        is_composed = np.array([text.isascii() for text in texts.to_pylist()])  # NFC changes nothing of these
        chosen = slice(None) if name == "25 characters" else is_composed
        same(found[chosen], expected[chosen])
        gigabytes = len(data) / 1e9
        of_device = on_device(of_gpu) / times
        rows.append(row(f"signatures, {name}", "GB/s", gigabytes, of_device, seconds(of_cpu)))
    return rows


def shards(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Read a Parquet file from memory, decode it, and make its band keys."""
    from tasks.gpu.shard_keys import keys_of_groups
    from tasks.recipe.fields import Dedup
    from tasks.signatures.keys import band_keys

    parquet, dedup = io.BytesIO(), Dedup()
    table = pa.table({"doc_id": np.arange(len(texts), dtype=np.uint64), "text": texts})
    pq.write_table(table, parquet, compression="zstd", row_group_size=max(1, len(texts) // 8))
    content = parquet.getvalue()

    def by_gpu() -> Any:
        return [
            *keys_of_groups(
                content, range(pq.ParquetFile(io.BytesIO(content)).num_row_groups), dedup, None, none
            )
        ]

    def none(_: pa.Table) -> Any:
        raise SystemExit("the GPU has too little memory for this measurement")

    def by_cpu() -> Any:
        read = pq.ParquetFile(io.BytesIO(content)).read(use_threads=False)
        return [band_keys(chunk, dedup) for chunk in read.column("text").chunks]

    same(np.concatenate([keys for _, keys in by_gpu()]), np.concatenate([k[has] for k, has in by_cpu()]))
    gigabytes = float(pa.compute.sum(pa.compute.binary_length(texts)).as_py()) / 1e9
    return [row("a shard, from Parquet to band keys", "GB/s", gigabytes, on_device(by_gpu), seconds(by_cpu))]


def joins() -> list[dict[str, Any]]:
    """Find edges of band keys and clusters of edges, from and to the host's memory."""
    from tasks.dedup import clusters
    from tasks.gpu import rapids
    from tasks.gpu.joining import forest_of
    from tasks.signatures.edges import stars

    chance = np.random.default_rng(0)
    ids = np.arange(KEYS, dtype=np.uint64)
    keys = cluster_of_each(KEYS, chance) * np.uint64(0x9E3779B97F4A7C15)

    def edges_by_gpu() -> Any:
        return tuple(map(rapids.to_host, stars(rapids.to_device(keys), rapids.to_device(ids), rapids.xp)))

    same(edges_by_gpu(), stars(keys, ids))
    a, b = (chance.integers(0, EDGES, EDGES).astype(np.uint64) for _ in range(2))
    of_gpu, of_cpu = forest_of([(a, b)]), clusters.forest_of_edges(a, b)
    same(of_gpu[0], of_cpu.ids)
    same(of_gpu[1], of_cpu.roots)
    return [
        row("edges", "million keys/s", KEYS / 1e6, on_device(edges_by_gpu), seconds(lambda: stars(keys, ids))),
        row(
            "clusters", "million edges/s", EDGES / 1e6, on_device(lambda: forest_of([(a, b)])),
            seconds(lambda: clusters.forest_of_edges(a, b), 1),
        ),
    ]  # fmt: skip


def classifier(texts: pa.LargeStringArray) -> list[dict[str, Any]]:
    """Classify with a model of DeBERTa-v3-base's size, with random weights, as `benchmarks.classifier` does."""
    import torch

    from benchmarks.classifier import MAX_TOKENS, web_like, write_model
    from tasks.quality.torch_models import Classifier

    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        of_gpu = Classifier(Path(folder), MAX_TOKENS)
        of_cpu = Classifier(Path(folder), MAX_TOKENS, device="cpu")
    many = web_like(texts.to_pylist(), 2000)
    of_gpu.logits(many[:50])
    torch.set_num_threads(1)
    by_gpu, by_cpu = seconds(lambda: of_gpu.logits(many)), seconds(lambda: of_cpu.logits(many[:4]), 1) * 500
    return [row("the classifier", "documents/s", 2000, by_gpu, by_cpu)]


def main() -> None:
    name = gpu()
    if not name:
        print("there is no GPU here: nothing was checked, and nothing measured")
        sys.exit(sys.argv[1:] == ["--look"])
    if sys.argv[1:] == ["--look"]:
        print(f"checking the engine of GPUs on this one: {name}")
        return
    texts = load_texts(Path(sys.argv[1]) if sys.argv[1:] else DEMO, 300)
    rows = [*signatures(texts), *shards(texts), *joins(), *classifier(texts)]
    versions = ", ".join(f"{package} {version(package)}" for package in SOFTWARE)
    found = f"{name}, {datetime.now(UTC):%Y-%m-%d}; {versions}.\n\n{markdown(rows)}\n"
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{found}{END}{rest.partition(END)[2]}")
    print(found)


if __name__ == "__main__":
    as_workers_are()
    main()
