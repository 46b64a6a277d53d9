"""Measure the proposed pairs of semantic rounds: seconds, memory, and the recall against all pairs of a sample.

The vectors are made: 192 numbers of 8 bits. A tenth of them are near copies, in groups of two to five, with cosines
of 0.85 to 0.99 to each other. Vectors of `topics` also share one of 1,000 directions, of which the first have the
most vectors, and a direction that all have in common. So the buckets of these vectors have unequal sizes.

Keys are written to files, and a band at a time is read and compared. Seconds are CPU time of one thread. With the
Python of an environment with faiss, cells of faiss search the same vectors, in the same run.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from benchmarks.harness import Row, Table, benchmark, in_new_process, peak_mib, run_tool
from zyda_flows.tasks.semantic.bands import bands_for, bits_for, found_share, most_different, sign_keys
from zyda_flows.tasks.semantic.candidates import MOST_OF_BUCKET, MOST_PARTNERS
from zyda_flows.tasks.semantic.exchange import cosines
from zyda_flows.textkernels.sign_pairs import buckets_of, similar_pairs

DIMS, TOPICS, BATCH, SAMPLE = 192, 1000, 1 << 16, 4000
KINDS = ("near copies", "topics")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
COSINE = 0.9
CELLS = """
import json, sys, time
import faiss
import numpy as np
faiss.omp_set_num_threads(1)
vectors = np.load("vectors.npy").astype(np.float32)
faiss.normalize_L2(vectors)
cosine, cells, sample = float(sys.argv[1]), int(sys.argv[2]), np.load("sample.npy")
start = time.process_time()
index = faiss.index_factory(vectors.shape[1], f"IVF{cells},Flat", faiss.METRIC_INNER_PRODUCT)
index.train(vectors[:: max(1, len(vectors) // (64 * cells))])
index.add(vectors)
built = time.process_time() - start
for probed in map(int, sys.argv[3:]):
    index.nprobe = probed
    start = time.process_time()
    pairs = set()
    for first in range(0, len(vectors), 65536):
        ends, _, found = index.range_search(vectors[first : first + 65536], cosine)
        rows = first + np.repeat(np.arange(len(ends) - 1), np.diff(ends.astype(np.int64)))
        wanted = np.isin(rows, sample) & (rows != found)
        pairs |= set(zip(rows[wanted].tolist(), found[wanted].tolist()))
    spent = time.process_time() - start
    print(json.dumps({"probed": probed, "built": built, "searched": spent, "pairs": sorted(pairs)}))
"""

Numbers = Annotated[list[float], typer.Argument(help="Numbers of vectors.")]
FaissPython = Annotated[str, typer.Option(help="Python of an environment with faiss; empty: not measured.")]
Vectors = NDArray[np.int8]


class Candidates(NamedTuple):
    """The rows of candidates with a cosine of COSINE or more, as a < b, and what finding them took."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    row: Row


def made_vectors(count: int, kind: str) -> Vectors:
    """Return made vectors, (count, DIMS), in a random order."""
    chance = np.random.default_rng(0)
    vectors = np.empty((count, DIMS), np.int8)
    group = np.arange(count)
    near = group < count // 10
    group[near] = np.cumsum(chance.random(near.sum()) < 0.4)  # neighbours are near copies of one centre
    topics = chance.normal(size=(TOPICS, DIMS)).astype(np.float32)
    common = chance.normal(size=DIMS).astype(np.float32)
    shares = 1 / np.arange(1, TOPICS + 1)
    topic = chance.choice(TOPICS, count, p=shares / shares.sum())[group]
    similar = chance.uniform(0.85, 0.99, count)[group].astype(np.float32)[:, None]
    for start in range(0, count, BATCH):
        part = slice(start, min(count, start + BATCH))
        noise = chance.normal(size=(part.stop - start, DIMS)).astype(np.float32)
        made, copies = noise, int(near[part].sum())
        if copies:
            first = int(group[start])
            centres = centres_from(first, int(group[start + copies - 1]) + 1)[
                group[start : start + copies] - first
            ]
            made[:copies] *= np.sqrt(1 - similar[part][:copies])
            made[:copies] += np.sqrt(similar[part][:copies]) * centres
        if kind == "topics":
            made = 0.7 * made + 0.65 * topics[topic[part]] + 0.3 * common
        vectors[part] = np.rint(made * 127 / np.abs(made).max(axis=1, keepdims=True))
    return vectors[chance.permutation(count)]


def centres_from(first: int, end: int) -> NDArray[np.float32]:
    """Return the centres of groups of near copies, (end - first, DIMS); each depends on its number only."""
    words = np.arange(first * DIMS, end * DIMS, dtype=np.uint64)
    bits = (words * np.uint64(0x9E3779B97F4A7C15)) ^ (words >> np.uint64(7))
    bits = (bits ^ (bits >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    uniform = (bits >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)
    made: NDArray[np.float32] = (uniform.reshape(-1, DIMS) - 0.5) * np.float32(np.sqrt(12))
    return made


def all_pairs(vectors: Vectors, sample: NDArray[np.int64], cosine: float) -> set[tuple[int, int]]:
    """Return the pairs of rows above a cosine of which one is in the sample, by comparing it with all rows."""
    own, lengths = (
        vectors[sample].astype(np.float32),
        np.linalg.norm(vectors[sample].astype(np.float32), axis=1),
    )
    pairs = set[tuple[int, int]]()
    for start in range(0, len(vectors), BATCH // 8):
        others = vectors[start : start + BATCH // 8].astype(np.float32)
        similar = own @ others.T / lengths[:, None] / np.linalg.norm(others, axis=1)
        rows, columns = np.nonzero(similar >= cosine)
        found = zip(sample[rows].tolist(), (columns + start).tolist(), strict=True)
        pairs.update((min(pair), max(pair)) for pair in found if pair[0] != pair[1])
    return pairs


def compared_pairs(starts: NDArray[np.int64], firsts: NDArray[np.int64]) -> int:
    return int((np.arange(len(starts)) - starts).sum() + (firsts >= 0).sum())


def find(vectors: Vectors, folder: Path) -> Candidates:
    """Find the candidates as a build does, a band at a time."""
    count = len(vectors)
    bits, bands = bits_for(count), bands_for(count, COSINE)
    most, spent = most_different(bits, COSINE), dict.fromkeys(("keys", "sort", "compare", "exact"), 0.0)
    clock = time.process_time()

    def lap(name: str) -> None:
        nonlocal clock
        clock, before = time.process_time(), clock
        spent[name] += clock - before

    files = [(folder / f"{band}").open("w+b") for band in range(bands)]
    for start in range(0, count, 4 * BATCH):
        keys = sign_keys(vectors[start : start + 4 * BATCH], bands)
        for band, file in enumerate(files):
            file.write(np.ascontiguousarray(keys[:, band]).data)
    lap("keys")
    candidates, compared, uncompared, found = 0, 0, 0, list[NDArray[np.int64]]()
    for file in files:
        file.flush()
        keys = np.fromfile(file.name, np.uint64).reshape(-1, 2)
        order = np.argsort(keys[:, 0], kind="stable")
        upper, lower = (np.ascontiguousarray(keys[order, word]) for word in (0, 1))
        lap("sort")
        pairs = similar_pairs(
            upper, lower, bits=bits, most_different=most,
            most_of_bucket=MOST_OF_BUCKET, most_partners=MOST_PARTNERS,
        )  # fmt: skip
        lap("compare")
        candidates, uncompared = candidates + len(pairs.first), uncompared + pairs.uncompared
        compared += compared_pairs(*buckets_of(upper, bits, MOST_OF_BUCKET)[:2])
        clock = time.process_time()
        a, b = order[pairs.first], order[pairs.second]
        similar = [
            cosines(vectors[a[i : i + BATCH]], vectors[b[i : i + BATCH]]) for i in range(0, len(a), BATCH)
        ]
        is_above = np.concatenate([np.empty(0), *similar]) >= COSINE
        found.append(np.minimum(a, b)[is_above] * count + np.maximum(a, b)[is_above])
        lap("exact")
    together = np.unique(np.concatenate(found))
    row: Row = {
        "bits": bits, "bands": bands, "keys, s": spent["keys"], "sorting, s": spent["sort"],
        "comparing, s": spent["compare"], "exact cosines, s": spent["exact"],
        "us of a key": 1e6 * (spent["keys"] + spent["sort"]) / count / bands, "compared, 10^9": compared / 1e9,
        "ns of a comparison": 1e9 * spent["compare"] / compared, "not compared, 10^9": uncompared / 1e9,
        "candidates": candidates, "pairs": len(together),
        "shared bucket, by the formula": found_share(bits, bands, COSINE),
    }  # fmt: skip
    return Candidates(together // count, together % count, row)


def sample_of(count: int) -> NDArray[np.int64]:
    """Return rows of which every tenth or so has near copies, (SAMPLE,)."""
    return np.sort(np.random.default_rng(5).choice(count, SAMPLE, replace=False))


def measured(count: int, kind: str, python: str) -> list[Row]:
    """Return the row of the bands, and the rows of faiss."""
    vectors = made_vectors(count, kind)
    similar_pairs(*np.zeros((2, 9), np.uint64), bits=0, most_different=0, most_of_bucket=4, most_partners=4)
    with tempfile.TemporaryDirectory() as name:
        found = find(vectors, Path(name))
        peak = peak_mib()
    sample = sample_of(count)
    expected = all_pairs(vectors, sample, COSINE)
    ours = set(zip(found.a.tolist(), found.b.tolist(), strict=True)) & expected
    seconds = sum(float(found.row[name]) for name in found.row if name.endswith(", s"))
    row: Row = {"vectors": f"{count:.0e}", "kind": kind, **found.row}
    row |= {"pairs of the sample": len(expected), "recall": len(ours) / len(expected)}
    row |= {"vectors/s": count / seconds, "peak, MiB": peak}
    return [row, *(cells(vectors, sample, expected, python) if python else [])]


def cells(vectors: Vectors, sample: NDArray[np.int64], expected: Any, python: str) -> Iterator[Row]:
    number = 1 << round(np.log2(len(vectors)) / 2)
    with tempfile.TemporaryDirectory() as name:
        np.save(f"{name}/vectors.npy", vectors)
        np.save(f"{name}/sample.npy", sample)
        command: list[str | Path] = [python, "-c", CELLS, str(COSINE), str(number), "1", "2", "4", "8"]
        for line in run_tool(command, Path(name), **ONE_THREAD).splitlines():
            made = json.loads(line)
            pairs = {(min(pair), max(pair)) for pair in made["pairs"]}
            yield {
                "cells": number, "cells of a query": made["probed"], "building, s": made["built"],
                "searching, s": made["searched"], "recall": len(pairs & expected) / len(expected),
                "vectors/s": len(vectors) / (made["built"] + made["searched"]),
            }  # fmt: skip


@benchmark("semantic")
def measure(numbers: Numbers = (1e5,), faiss_python: FaissPython = "") -> Iterator[Table]:  # type: ignore[assignment]
    for number in numbers:
        for kind in KINDS:
            own, *theirs = in_new_process(partial(measured, int(number), kind, faiss_python), ONE_THREAD)
            yield Table(f"Proposed pairs of {number:.0e} vectors, {kind}", [own])
            if theirs:
                yield Table(f"Cells of faiss, {number:.0e} vectors, {kind}", theirs)


if __name__ == "__main__":
    measure.main()
