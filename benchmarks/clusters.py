"""Measure clustering of made band keys, or of made edges: documents, seconds and memory on this machine.

A tenth of the documents with made band keys are in clusters. The sizes of clusters follow a power law; the
largest has a hundredth of all documents.

With --edges, edges are made without keys, for any share of clustered documents. Two processes cluster them twice:
in a single step that holds all edges, and as a build does, with --limit as share of the memory limits of a task.
Both results must have the same bytes.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import psutil
import pyarrow as pa
import typer

from benchmarks.harness import Table, benchmark, in_new_process, peak_mib, timed
from benchmarks.processes import peak_mib_of
from zyda_flows.tasks.dedup import cluster_files, clusters, document_names
from zyda_flows.tasks.dedup.clusters import clusters_of
from zyda_flows.tasks.signatures.bands import key_ranges, read_range, write_band_rows
from zyda_flows.tasks.signatures.edges import EDGES, star_edges
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, write_artifact, write_table

BANDS = 8
SHARED = 0.75  # share of the bands that a member has in common with its cluster
DOCUMENTS_PER_FILE = 4_000_000
ROWS = 8 << 20  # edges of a file, and documents between two cuts, at a limit of 1
LIMITS = {
    (clusters, "STEP_DOCUMENTS"): 16 << 20, (clusters, "LAST_DOCUMENTS"): 32 << 20,
    (document_names, "PART_ROWS"): 6 << 20, (cluster_files, "FILE_DOCUMENTS"): 8 << 20,
}  # fmt: skip


def cluster_of_each(documents: int, chance: np.random.Generator) -> np.ndarray:
    """Return the cluster of each document, or a number that no other document has: (documents,) uint64."""
    clustered = documents // 10
    sizes = np.minimum(2 + chance.pareto(1.2, clustered // 3), documents // 100 + 2).astype(np.int64)
    sizes[0] = documents // 100 + 2
    members = np.repeat(np.arange(len(sizes)), sizes)[:clustered].astype(np.uint64)
    alone = np.arange(documents - len(members), dtype=np.uint64) + np.uint64(1 << 40)
    return chance.permutation(np.concatenate([members, alone]))


def write_keys(folder: Folder, documents: int) -> list[Artifact]:
    """Write the band keys of all documents, DOCUMENTS_PER_FILE to a file."""
    chance = np.random.default_rng(0)
    cluster = cluster_of_each(documents, chance)

    def bands(start: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        part = cluster[start : start + DOCUMENTS_PER_FILE]
        ids = np.arange(start, start + len(part), dtype=np.uint64)
        for band in range(BANDS):
            shared = chance.random(len(part)) < SHARED
            seed = np.where(shared, part, ids + np.uint64(1 << 41)) * np.uint64(BANDS) + np.uint64(band)
            yield band, (seed * np.uint64(0x9E3779B97F4A7C15)) ^ (seed << np.uint64(29)), ids

    artifacts = []
    for start in range(0, documents, DOCUMENTS_PER_FILE):
        name = f"{start:012d}"
        path = artifact_path("minhash", "synthetic", name, "0")
        write = lambda scratch, start=start: write_band_rows(scratch, bands(start))  # noqa: E731
        artifacts.append(write_artifact(folder, path, name, write))
    return artifacts


def cluster_keys(folder: Folder, artifacts: list[Artifact], documents: int) -> int:
    """Cluster band keys as the stages do, one range after another; return the number of clusters."""
    files = []
    for band in range(BANDS):
        for number, keys in enumerate(key_ranges(documents)):
            table = star_edges(*read_range(folder, artifacts, band, keys))
            files.append(write_edge_file(folder, band, number, table))
    made = clusters_of(folder, files, (), lambda jobs: [job() for job in jobs])
    return sum(len(np.unique(read_table(folder, file, ["cluster_id"]).column(0).to_numpy())) for file in made)


def write_edge_file(folder: Folder, band: int, number: int, table: pa.Table) -> Artifact:
    name = f"{band}-{number:05d}"
    return write_table(folder, artifact_path("edges", None, name, "0"), name, table)


def coprime_step(documents: int) -> int:
    """Return a step that visits all documents, in an order unlike that of their ids."""
    step = documents * 618 // 1000 | 1
    while np.gcd(step, documents) != 1:
        step += 2
    return step


def power_law_edges(documents: int, share: float, rows: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield (band, at most `rows` edges). A hundredth of the clustered documents are in the first cluster."""
    clustered, step = int(documents * share), coprime_step(documents)
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
            is_shared = chance.random(len(ids)) < SHARED
            order = np.lexsort((ids[is_shared], cluster[is_shared]))
            members, member_clusters = ids[is_shared][order], cluster[is_shared][order]
            starts = np.flatnonzero(np.diff(member_clusters, prepend=-1))
            firsts = np.repeat(members[starts], np.diff(np.append(starts, len(members))))
            is_edge = firsts != members
            yield band, pa.table([firsts[is_edge], members[is_edge]], schema=EDGES)


def write_edges(folder: Folder, documents: int, share: float, rows: int) -> list[Artifact]:
    """Write edges as a build does: each file has edges of one band, and files of a band are adjacent."""
    tables = enumerate(power_law_edges(documents, share, rows))
    files = [write_edge_file(folder, band, number, table) for number, (band, table) in tables]
    return sorted(files, key=lambda file: file.name)


def run_job(limit: float, job: Any) -> tuple[Any, float, float]:
    """Run a job here; return its result, its seconds, and the MiB by which the peak exceeds the start."""
    for (module, name), value in LIMITS.items():
        setattr(module, name, int(value * limit))
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current memory
    before = peak_mib_of(psutil.Process())
    made, spent = timed(job)
    return made, spent, peak_mib_of(psutil.Process()) - before


class MeasuredJobs:
    """Runs jobs in the processes of a pool; adds up the costs of each class of jobs."""

    def __init__(self, pool: ProcessPoolExecutor, limit: float) -> None:
        self.pool, self.limit = pool, limit
        self.rows = dict[str, dict[str, Any]]()

    def __call__(self, jobs: Sequence[Any]) -> list[Any]:
        kind = type(jobs[0]).__name__
        row = self.rows.setdefault(kind, {"step": kind, "tasks": 0, "CPU s": 0, "peak MiB": 0, "seconds": 0})
        results, wall = timed(lambda: [*self.pool.map(partial(run_job, self.limit), jobs)])
        row["tasks"] += len(jobs)
        row["CPU s"] += sum(spent for _, spent, _ in results)
        row["peak MiB"] = max(row["peak MiB"], *(peak for _, _, peak in results))
        row["seconds"] += wall
        return [made for made, _, _ in results]


def measure_edges(documents: int, share: float, limit: float) -> Iterator[Table]:
    """Cluster edges in a single step, and as a build does."""
    rows = int(limit * ROWS)
    with (
        tempfile.TemporaryDirectory() as scratch,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
    ):
        folder, digests = Folder(scratch), set[str]()
        edges = pool.submit(write_edges, folder, documents, share, rows).result()
        for way, way_limit in {"single step": 1e9, "as a build": limit}.items():
            run_job(way_limit, bool)
            jobs = MeasuredJobs(pool, way_limit)
            cuts = tuple(range(rows, documents, rows))
            made, spent = timed(lambda jobs=jobs, cuts=cuts: clusters_of(folder, edges, cuts, jobs))
            digests.add(hashlib.sha256("".join(file.digest for file in made).encode()).hexdigest())
            clustered, count = sum(file.rows for file in made), sum(file.rows for file in edges)
            title = f"{documents:,} documents, {clustered:,} clustered, {count:,} edges"
            yield Table(f"{title}, {way}: {spent:,.0f} s", list(jobs.rows.values()))
        if len(digests) > 1:
            raise SystemExit("the clusters of the single step and of the build have different bytes")


def measure_keys(documents: int) -> dict[str, str | float]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(scratch)
        artifacts = in_new_process(partial(write_keys, folder, documents))  # its memory is not measured
        count, spent = timed(lambda: cluster_keys(folder, artifacts, documents))
    return {"documents": f"{documents:,}", "clusters": f"{count:,}", "seconds": spent,
            "documents/s": documents / spent, "peak GiB": peak_mib() / 1024}  # fmt: skip


@benchmark("clusters")
def measure(
    documents: Annotated[list[float], typer.Argument(help="Numbers of documents.")] = [1e5, 1e6],  # noqa: B006
    edges: Annotated[bool, typer.Option("--edges", help="Make edges instead of band keys.")] = False,
    clustered: Annotated[float, typer.Option(help="Share of documents in clusters.")] = 0.8,
    limit: Annotated[float, typer.Option(help="Share of the memory limits of a task of a build.")] = 0.1,
) -> Iterator[Table]:
    if not edges:
        yield Table("clusters, one core", [measure_keys(int(count)) for count in documents])
        return
    for count in documents:
        yield from measure_edges(int(count), clustered, limit)


if __name__ == "__main__":
    measure.main()
