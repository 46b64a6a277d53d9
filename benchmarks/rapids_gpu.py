"""Measure what a GPU computes with RAPIDS, beside one core: all that `python -m benchmarks.gpu` measures."""

import io
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bare_classifier import BFLOAT16
from benchmarks.bare_gpu import DIFFERENT, expect_equal, measure_signatures
from benchmarks.bare_gpu import gpu_time as time_on_device
from benchmarks.clusters import cluster_of_each
from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import shortest_time
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.shingles import folded_characters

CHARACTERS = MinHashRound()
SHARD_BYTES = 1 << 28  # of text, as in a shard of ingest
KEYS = 8 << 20
EDGES = 16 << 20
DOCUMENTS, FEW = 2000, 12  # classified by the GPU, and by one core


def gpu_time(call: Callable[[], object]) -> float:
    from zyda_flows.tasks.gpu import rapids

    return time_on_device(rapids, call)


def row(work: str, unit: str, size: float, by_gpu: float, by_cpu: float) -> dict[str, Any]:
    speeds = {"one GPU": size / by_gpu, "one core": size / by_cpu, "cores for a GPU": by_cpu / by_gpu}
    return {"work": work, "": unit, **speeds}


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
    from zyda_flows.tasks.gpu import rapids

    shard = shard_of(texts)
    speeds = measure_signatures(rapids, texts, folded_characters())
    return [*(row(*speed) for speed in speeds), shards(shard), files(shard), *joins(), classifier(texts)]


def measured_rows(folder: Path) -> list[dict[str, Any]]:
    from zyda_flows.tasks.gpu import rapids

    rapids.use_pool()
    return rows_of(load_texts(folder, 300))
