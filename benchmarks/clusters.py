"""From band keys to clusters on this machine: documents, seconds and memory.

    python -m benchmarks.clusters [DOCUMENTS ...]

Synthetic band keys of a realistic kind: a tenth of the documents are in clusters, whose sizes follow a
power law with one of a hundredth of all documents at the top.
"""

import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.measure import as_workers_are, show
from tasks.dedup.clusters import jobs_of_level
from tasks.signatures.bands import key_ranges, read_range, write_band_rows
from tasks.signatures.edges import star_edges
from tasks.storage.artifacts import Shard, shard_path
from tasks.storage.folder import Folder
from tasks.storage.tables import read_table, write_shard, write_table

BANDS = 8
DOCUMENTS_PER_FILE = 4_000_000
SMALL = (100_000, 1_000_000)


def cluster_of_each(documents: int, chance: np.random.Generator) -> np.ndarray:
    """Return the cluster of each document, or its own number where it is alone: (documents,) uint64."""
    clustered = documents // 10
    sizes = np.minimum(2 + chance.pareto(1.2, clustered // 3), documents // 100 + 2).astype(np.int64)
    sizes[0] = documents // 100 + 2
    members = np.repeat(np.arange(len(sizes)), sizes)[:clustered].astype(np.uint64)
    alone = np.arange(documents - len(members), dtype=np.uint64) + np.uint64(1 << 40)
    return chance.permutation(np.concatenate([members, alone]))


def write_keys(folder: Folder, documents: int) -> list[Shard]:
    """Write the band keys of all documents in files; members of a cluster share 3 bands of 4."""
    chance = np.random.default_rng(0)
    cluster = cluster_of_each(documents, chance)
    shards = []
    for start in range(0, documents, DOCUMENTS_PER_FILE):
        part = cluster[start : start + DOCUMENTS_PER_FILE]
        ids = np.arange(start, start + len(part), dtype=np.uint64)

        def bands(part=part, ids=ids):  # noqa: ANN001, ANN202
            for band in range(BANDS):
                shared = chance.random(len(part)) < 0.75
                seed = np.where(shared, part, ids + np.uint64(1 << 41)) * np.uint64(BANDS) + np.uint64(band)
                yield band, (seed * np.uint64(0x9E3779B97F4A7C15)) ^ (seed << np.uint64(29)), ids

        name = f"{start:012d}"
        path = shard_path("minhash", "synthetic", name, "0")
        shards.append(
            write_shard(folder, path, name, lambda scratch, bands=bands: write_band_rows(scratch, bands()))
        )
    return shards


def find_clusters(folder: Folder, shards: list[Shard], documents: int) -> int:
    """Go from band keys to clusters as the stages do, one range after another; return how many."""
    files = []
    for band in range(BANDS):
        for number, keys in enumerate(key_ranges(documents)):
            name = f"{band}-{number:05d}"
            table = star_edges(*read_range(folder, shards, band, keys))
            files.append(write_table(folder, shard_path("edges", None, name, "0"), name, table))
    level = 0
    while True:
        jobs = jobs_of_level(folder, files, level)
        files = [job() for job in jobs]
        if jobs[0].is_last:
            return len(np.unique(read_table(folder, files[0], ["cluster_id"]).column(0).to_numpy()))
        level += 1


def main() -> None:
    rows: list[dict[str, str | float]] = []
    for documents in [int(float(size)) for size in sys.argv[1:]] or SMALL:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Folder(str(Path(scratch)))
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:  # its memory is not ours
                shards = apart.submit(write_keys, folder, documents).result()
            start = time.perf_counter()
            clusters = find_clusters(folder, shards, documents)
            spent = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(
            {"documents": f"{documents:,}", "clusters": f"{clusters:,}", "seconds": spent,
             "documents/s": documents / spent, "peak GiB": peak}
        )  # fmt: skip
    show("clusters, one core", rows)


if __name__ == "__main__":
    as_workers_are()
    main()
