"""From band keys, or from edges, to clusters on this machine: documents, seconds and memory.

    python -m benchmarks.clusters [DOCUMENTS ...] [--edges] [--clustered SHARE] [--shape SHAPE] [--limit SHARE]

Synthetic band keys of a realistic kind: a tenth of the documents are in clusters, whose sizes follow a
power law with one of a hundredth of all documents at the top. With --edges the edges are made without keys, of
any share of clustered documents, and found by two processes: in one step that holds all, and as a build does, with
--limit of what a task may have. Of the shapes but `power` the clusters are known, and compared.
"""

import argparse
import hashlib
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import as_workers_are, show
from zyda_flows.tasks.dedup import cluster_files, clusters, exchange
from zyda_flows.tasks.dedup.clusters import clusters_of
from zyda_flows.tasks.signatures.bands import key_ranges, read_range, write_band_rows
from zyda_flows.tasks.signatures.edges import EDGES, star_edges
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, write_artifact, write_table

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


def write_keys(folder: Folder, documents: int) -> list[Artifact]:
    """Write the band keys of all documents in files; members of a cluster share 3 bands of 4."""
    chance = np.random.default_rng(0)
    cluster = cluster_of_each(documents, chance)
    artifacts = []
    for start in range(0, documents, DOCUMENTS_PER_FILE):
        part = cluster[start : start + DOCUMENTS_PER_FILE]
        ids = np.arange(start, start + len(part), dtype=np.uint64)

        def bands(part=part, ids=ids):  # noqa: ANN001, ANN202
            for band in range(BANDS):
                shared = chance.random(len(part)) < 0.75
                seed = np.where(shared, part, ids + np.uint64(1 << 41)) * np.uint64(BANDS) + np.uint64(band)
                yield band, (seed * np.uint64(0x9E3779B97F4A7C15)) ^ (seed << np.uint64(29)), ids

        name = f"{start:012d}"
        path = artifact_path("minhash", "synthetic", name, "0")
        artifacts.append(
            write_artifact(folder, path, name, lambda scratch, bands=bands: write_band_rows(scratch, bands()))
        )
    return artifacts


def find_clusters(folder: Folder, artifacts: list[Artifact], documents: int) -> int:
    """Go from band keys to clusters as the stages do, one range after another; return how many."""
    files = []
    for band in range(BANDS):
        for number, keys in enumerate(key_ranges(documents)):
            name = f"{band}-{number:05d}"
            table = star_edges(*read_range(folder, artifacts, band, keys))
            files.append(write_table(folder, artifact_path("edges", None, name, "0"), name, table))
    made = clusters_of(folder, files, (), lambda jobs: [job() for job in jobs])
    return sum(len(np.unique(read_table(folder, one, ["cluster_id"]).column(0).to_numpy())) for one in made)


def edges_of(documents: int, share: float, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield edges, `rows` of them or fewer, with their band: members of a cluster share 3 bands of 4.

    The documents of a cluster lie anywhere. The first cluster has a hundredth of those that are in clusters.
    """
    clustered, step = int(documents * share), documents * 618 // 1000 | 1
    while np.gcd(step, documents) != 1:
        step += 2
    chance, at = np.random.default_rng(0), 0
    while at < clustered:
        sizes = np.minimum(2 + chance.pareto(1.2, rows // 4), clustered // 100).astype(np.int64)
        if not at:
            sizes[0] = clustered // 100
        sizes = sizes[np.cumsum(sizes) <= max(rows, int(sizes[0]))]
        cluster = np.repeat(np.arange(len(sizes)), sizes)[: clustered - at]
        ids = (np.arange(at, at + len(cluster)) * step % documents).astype(np.uint64)
        at += len(cluster)
        for band in range(BANDS):
            is_shared = chance.random(len(ids)) < 0.75
            order = np.lexsort((ids[is_shared], cluster[is_shared]))
            members, of_members = ids[is_shared][order], cluster[is_shared][order]
            starts = np.flatnonzero(np.diff(of_members, prepend=-1))
            firsts = np.repeat(members[starts], np.diff(np.append(starts, len(members))))
            is_edge = firsts != members
            yield band, pa.table([firsts[is_edge], members[is_edge]], schema=EDGES)


def edges_of_shape(shape: str, documents: int, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the edges of all documents, `rows` of them or fewer, in one band: those that are worst for somebody.

    `chain`: each document and the next, in an order that is no order of their ids. `star`: each and the first, one
    bucket. `pairs`: each other one and the next.
    """
    step = documents * 618 // 1000 | 1
    while np.gcd(step, documents) != 1:
        step += 2
    for start in range(0, documents, rows):
        places = np.arange(start, min(start + rows, documents - 1))
        if shape == "star":
            ends = np.zeros(len(places), np.int64), places + 1
        elif shape == "chain":
            ends = places * step % documents, (places + 1) * step % documents
        else:
            places = places[places % 2 == 0]
            ends = places, places + 1
        a, b = (end.astype(np.uint64) for end in ends)
        yield 0, pa.table([np.minimum(a, b), np.maximum(a, b)], schema=EDGES)


def write_edges(folder: Folder, documents: int, share: float, rows: int, shape: str) -> list[Artifact]:
    """Write edges as a build has them: files of one band each, those of a band together."""
    artifacts = list[Artifact]()
    tables = edges_of(documents, share, rows) if shape == "power" else edges_of_shape(shape, documents, rows)
    for number, (band, table) in enumerate(tables):
        name = f"{band}-{number:05d}"
        artifacts.append(write_table(folder, artifact_path("edges", None, name, "0"), name, table))
    return sorted(artifacts, key=lambda artifact: artifact.name)


def apart(limit: float, job: Any) -> tuple[Any, float, float]:
    """Do a job in this process: what it made, its seconds, and the MiB of memory that it took at its peak."""
    limits = {(clusters, "STEP_DOCUMENTS"): 16 << 20, (clusters, "LAST_DOCUMENTS"): 32 << 20,
              (exchange, "PART_ROWS"): 6 << 20, (cluster_files, "FILE_DOCUMENTS"): 8 << 20}  # fmt: skip
    for (module, name), value in limits.items():
        setattr(module, name, int(value * limit))
    Path("/proc/self/clear_refs").write_text("5")  # the peak is the memory of now
    start, before = time.perf_counter(), memory("VmRSS")
    made = job()
    return made, time.perf_counter() - start, memory("VmHWM") - before


def memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


class Spread:
    """Does jobs in two processes, and counts what they took, by their kinds."""

    def __init__(self, pool: ProcessPoolExecutor, limit: float) -> None:
        self.pool, self.limit = pool, limit
        self.kinds = dict[str, list[float]]()

    def __call__(self, jobs: Sequence[Any]) -> list[Any]:
        made, start = [], time.perf_counter()
        kind = self.kinds.setdefault(type(jobs[0]).__name__, [0, 0, 0, 0])
        for one, spent, peak in self.pool.map(partial(apart, self.limit), jobs):
            made.append(one)
            kind[0], kind[1], kind[2] = kind[0] + 1, kind[1] + spent, max(kind[2], peak)
        kind[3] += time.perf_counter() - start
        return made


def expect_shape(folder: Folder, made: Sequence[Artifact], shape: str, documents: int) -> None:
    """Raise AssertionError where clusters are not those of a shape."""
    at = 0
    for file in made:
        table = read_table(folder, file, ["doc_id", "cluster_id"])
        ids, found = (column.to_numpy() for column in table.columns)
        assert (ids == np.arange(at, at + len(ids))).all()
        assert (found == (ids & ~np.uint64(1) if shape == "pairs" else 0)).all()
        at += len(ids)
    assert at == documents - (documents % 2 if shape == "pairs" else 0)


def from_edges(documents: int, share: float, limit: float, shape: str) -> None:
    """Find the clusters of edges in one step that holds all, and as a build does."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
    ):
        folder = Folder(scratch)
        edges = pool.submit(write_edges, folder, documents, share, int(limit * (8 << 20)), shape).result()
        cuts = tuple(range(int(limit * (8 << 20)), documents, int(limit * (8 << 20))))
        count, digests = sum(artifact.rows for artifact in edges), list[str]()
        for way, of_way in {"one last step": 1e9, "as a build": limit}.items():
            apart(of_way, bool)
            spread, start = Spread(pool, of_way), time.perf_counter()
            made = clusters_of(folder, edges, cuts, spread)
            spent = time.perf_counter() - start
            digests.append(hashlib.sha256("".join(one.digest for one in made).encode()).hexdigest())
            rows = [
                {"step": kind, "tasks": int(tasks), "CPU s": cpu, "peak MiB": peak, "seconds": wall}
                for kind, (tasks, cpu, peak, wall) in spread.kinds.items()
            ]
            if shape != "power":
                expect_shape(folder, made, shape, documents)
            clustered = sum(one.rows for one in made)
            title = f"{shape}: {documents:,} documents, {clustered:,} clustered, {count:,} edges"
            show(f"{title}, {way}: {spent:,.0f} s", rows)
        print("the same bytes" if len(set(digests)) == 1 else "OTHER BYTES")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clusters")
    parser.add_argument("documents", nargs="*", type=float, default=SMALL)
    parser.add_argument("--edges", action="store_true", help="begin with edges")
    parser.add_argument(
        "--clustered", type=float, default=0.8, help="the share of documents that are in clusters"
    )
    parser.add_argument("--shape", choices=("power", "chain", "star", "pairs"), default="power")
    parser.add_argument("--limit", type=float, default=0.1, help="of what a task of a build may have")
    asked = parser.parse_args()
    rows: list[dict[str, str | float]] = []
    for documents in map(int, asked.documents):
        if asked.edges:
            from_edges(documents, asked.clustered, asked.limit, asked.shape)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Folder(str(Path(scratch)))
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:  # its memory is not ours
                artifacts = pool.submit(write_keys, folder, documents).result()
            start = time.perf_counter()
            found = find_clusters(folder, artifacts, documents)
            spent = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(
            {"documents": f"{documents:,}", "clusters": f"{found:,}", "seconds": spent,
             "documents/s": documents / spent, "peak GiB": peak}
        )  # fmt: skip
    if rows:
        show("clusters, one core", rows)


if __name__ == "__main__":
    as_workers_are()
    main()
