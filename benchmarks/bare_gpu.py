"""Measure what a GPU computes without RAPIDS: signatures, shards from file to file, and the classifier.

`python -m benchmarks.gpu --bare` runs each part as a process with a time limit, and all end within four minutes.
Texts are generated, the model has random weights, and there is no download. `benchmarks.rapids_gpu` uses the
measurement of signatures, too.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bare_classifier import PAGE_BYTES, classifier, page_sizes, row
from benchmarks.harness import Row, shortest_time, timed
from zyda_flows.textkernels import sketch
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.cuda import sketching, wording
from zyda_flows.textkernels.words import DROPPED, SPACE, hash_words, may_change

LIMITS = {"signatures": 45, "shards": 70, "classifier": 115}  # seconds of each part
WIDTH, VALUES, BANDS, WORD_WIDTH = 25, 128, 8, 13  # as in a round without parameters
TEXT_BYTES = 1 << 29  # of text on the device; words need about twenty times as much beside it
GROUP_BYTES, GROUPS = 1 << 25, 8  # of text in a row group; row groups of a shard, as by ingest
THREADS = os.cpu_count() or 1
SHARDS = 4 * THREADS
DIFFERENT = "the GPU gives other results than the CPU: please report it, with the output of nvidia-smi"
HOSTILE = [
    "",
    "a",
    "short",
    "hello wörld " * 4,
    "日本語のテキスト" * 9,
    "😀😃 x" * 40,
    "ab" * 40_000,
    "x, y. " * 30_000,
]


def open_device() -> Any:
    """Return the functions of `tasks.gpu.rapids` for arrays, by CuPy, or by NumPy in numba's simulator.

    uploading: a context in which arrays are copied to the device beside its computations.
    """
    if numba.config.ENABLE_CUDASIM:
        return SimpleNamespace(xp=np, to_device=np.array, to_host=np.array, wait=bool, uploading=nullcontext)
    import cupy

    @contextmanager
    def uploading() -> Iterator[None]:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            yield
            stream.synchronize()

    return SimpleNamespace(
        xp=cupy, to_device=cupy.asarray, to_host=cupy.asnumpy, wait=cupy.cuda.Device().synchronize,
        uploading=uploading,
    )  # fmt: skip


def gpu_time(device: Any, call: Callable[[], object]) -> float:
    """Return the shortest time of a call, until all its work on the GPU is done."""

    def call_and_wait() -> None:
        call()
        device.wait()

    call_and_wait()  # compiles
    return shortest_time(call_and_wait)


def expect_equal(result: Any, expected: Any) -> None:
    if not np.array_equal(result, expected):
        raise SystemExit(DIFFERENT)


def measure_signatures(
    device: Any, texts: pa.LargeStringArray, folded: Any
) -> Iterator[tuple[str, str, float, float, float]]:
    """Compare and measure signatures of characters and of words, of text on the device.

    folded: the table of words, as for `textkernels.words`. Texts that NFC may change are not compared.

    Yields the work, a unit, the size in this unit, and the seconds of the GPU and of one core.
    """
    data, ends = buffers_from_zero(texts)
    times = max(1, TEXT_BYTES // len(data))
    shifts = np.repeat(np.arange(times) * len(data), len(ends) - 1)
    all_ends = np.append(np.tile(ends[:-1], times) + shifts, len(data) * times)
    gpu_data, gpu_ends = device.xp.tile(device.to_device(data), times), device.to_device(all_ends)
    gpu_folded = device.to_device(folded)
    characters, words = ({"width": width, "values": VALUES} for width in (WIDTH, WORD_WIDTH))

    def characters_by_gpu() -> Any:
        return sketching.signatures(device.xp, sketching.CHARACTER_KERNELS, gpu_data, gpu_ends, **characters)

    def words_by_gpu() -> Any:
        hashes, word_ends, _ = wording.word_hashes(device.xp, gpu_data, gpu_ends, gpu_folded)
        return sketching.signatures(device.xp, sketching.WORD_KERNELS, hashes, word_ends, **words)

    def words_by_cpu() -> Any:
        return sketch.word_signatures(*hash_words(data, ends, folded), **words)

    for name, by_gpu, by_cpu, chosen in (
        ("characters", characters_by_gpu, lambda: sketch.signatures(data, ends, **characters), slice(None)),
        ("words", words_by_gpu, words_by_cpu, ~may_change(data, ends, folded)),
    ):
        expect_equal(device.to_host(by_gpu()[: len(texts)])[chosen], by_cpu()[chosen])
        seconds = gpu_time(device, by_gpu) / times, shortest_time(by_cpu)
        yield f"signatures, {name}", "GB/s", len(data) / 1e9, *seconds


def buffers_from_zero(texts: pa.LargeStringArray) -> tuple[Any, Any]:
    """Return the bytes of texts and nothing else, and their offsets from 0."""
    data, ends = text_buffers(texts)
    return data[ends[0] : ends[-1]], ends - ends[0]


def generated_texts(size: int) -> pa.LargeStringArray:
    """Return web pages of generated words, of about `size` bytes in all."""
    chance = np.random.default_rng(1)
    letters = chance.integers(97, 123, (20_000, 9), np.uint8)
    words = [bytes(row[: 2 + number % 8]).decode() for number, row in enumerate(letters)]
    text = " ".join(words[i % len(words)] for i in chance.zipf(1.3, size // 4).tolist())[:size]
    ends = np.cumsum(page_sizes(max(1, size // PAGE_BYTES)))
    return pa.array(
        [text[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True) if a < size], pa.large_string()
    )


def folded_ascii() -> Any:
    """Return a table of words in which ASCII's punctuation is dropped: (0x110000,) uint32."""
    folded = np.arange(2, 0x110002, dtype=np.uint32)
    folded[[ord(character) for character in " \t\n\r"]] = SPACE
    folded[[ord(character) for character in ",.;:!?-"]] = DROPPED
    return folded


def signatures() -> Iterator[Row]:
    texts = pa.concat_arrays([pa.array(HOSTILE, pa.large_string()), generated_texts(GROUP_BYTES)])
    for work, unit, size, by_gpu, by_cpu in measure_signatures(open_device(), texts, folded_ascii()):
        yield row(f"{work}, one GPU", unit, size / by_gpu)
        yield row(f"{work}, one core", unit, size / by_cpu)


def shards() -> Iterator[Row]:
    """Measure threads that read and decode shards, hash them on the GPU in turn, and write their band keys.

    The CPUs decode, so text is copied to the device while the device computes the keys of other text. As in a
    build, texts are stored without a dictionary, and the digest of a shard is computed.
    """
    device, in_turn = open_device(), Lock()
    texts = generated_texts(GROUP_BYTES)

    def write_keys(path: Path) -> None:
        keys = np.concatenate([keys_of(device, in_turn, texts) for texts in decoded_groups(path)])
        bands = {f"band_{band}": np.sort(keys[:, band]) for band in range(BANDS)}
        pq.write_table(pa.table(bands), path.with_suffix(".keys"))

    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(THREADS) as threads:
        paths = write_shards(Path(scratch), texts)
        data, ends = buffers_from_zero(texts)
        by_cpu = sketch.band_keys(sketch.signatures(data, ends, width=WIDTH, values=VALUES), bands=BANDS)
        expect_equal(keys_of(device, in_turn, texts), by_cpu)  # compiles
        size = len(paths) * GROUPS * len(data) / 1e9
        for name, work in {
            f"decoding alone, {THREADS} threads": lambda path: sum(map(len, decoded_groups(path))),
            "shards, from file to file": write_keys,
        }.items():
            yield row(name, "GB/s", size / timed(lambda work=work: [*threads.map(work, paths)])[1])


def write_shards(folder: Path, texts: pa.LargeStringArray) -> list[Path]:
    """Write SHARDS equal files with GROUPS row groups of the same texts each."""
    paths = [folder / f"{number}.parquet" for number in range(SHARDS)]
    table = pa.table({"text": texts})
    with pq.ParquetWriter(
        paths[0], table.schema, compression="zstd", use_dictionary=False, write_page_checksum=True
    ) as writer:
        for _ in range(GROUPS):
            writer.write_table(table, len(table))
    for path in paths[1:]:
        path.write_bytes(paths[0].read_bytes())
    return paths


def decoded_groups(path: Path) -> Iterator[pa.LargeStringArray]:
    """Read a shard, compute its digest, and yield the texts of each row group."""
    content = path.read_bytes()
    hashlib.sha256(content)
    parquet = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    for group in range(parquet.num_row_groups):
        yield parquet.read_row_group(group, use_threads=False).column("text").combine_chunks()


def keys_of(device: Any, in_turn: Any, texts: pa.LargeStringArray) -> Any:
    """Return the band keys of texts, (n, BANDS) uint64, by the device, which threads use in turn."""
    data, ends = buffers_from_zero(texts)
    with device.uploading():
        gpu_data, gpu_ends = device.to_device(data), device.to_device(ends)
    with in_turn:
        found = sketching.signatures(
            device.xp, sketching.CHARACTER_KERNELS, gpu_data, gpu_ends, width=WIDTH, values=VALUES
        )
        return device.to_host(sketching.band_keys(device.xp, found, bands=BANDS))


def rows_of_parts(command: tuple[str, ...] = (sys.executable, "-m", "benchmarks.bare_gpu")) -> list[Row]:
    """Run each part in a process of its own, until its time limit; return the rows that it printed."""
    rows = list[Row]()
    for part, limit in LIMITS.items():
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen([*command, part], stdout=output, start_new_session=True)
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # torch's compiler has processes, too
                status = process.wait()
                print(f"{part}: not finished in {limit} s")
            output.seek(0)
            rows += [json.loads(line) for line in output]
        if status > 0:
            raise SystemExit(f"{part}: failed with exit status {status}")
    return rows


def main() -> None:
    """Run a part; print each row as JSON as soon as it is measured."""
    for measured in {"signatures": signatures, "shards": shards, "classifier": classifier}[sys.argv[1]]():
        print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
