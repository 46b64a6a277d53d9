"""The GPU engine equals the CPU engine bit for bit, on a GPU or in numba's simulator.

The simulator is enabled by NUMBA_ENABLE_CUDASIM=1 before numba is imported: test_simulator.py starts it.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from itertools import cycle
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
import rapids_double
import simulated_kernels
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import Corpus, build_here, contents, edited, prose, rows, shards_of, write_rows

from benchmarks import bare_gpu, rapids_gpu
from benchmarks import gpu as benchmark
from zyda_flows.tasks import gpu
from zyda_flows.tasks.dedup import clusters
from zyda_flows.tasks.errors import Damaged, WrongBits
from zyda_flows.tasks.gpu import joining, shard_keys
from zyda_flows.tasks.gpu.joining import forest_of
from zyda_flows.tasks.ingest import ingest
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures import edges
from zyda_flows.tasks.signatures.minhash import KeysOfShard
from zyda_flows.tasks.signatures.shingles import folded_characters, word_hashes
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, write_artifact, write_table
from zyda_flows.tasks.workers import dask_cluster, engine
from zyda_flows.tasks.workers.dask_cluster import gpu_count
from zyda_flows.textkernels import sketch
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.cuda import sketching, wording
from zyda_flows.textkernels.cuda.sketching import CHARACTER_KERNELS, WORD_KERNELS
from zyda_flows.textkernels.words import may_change

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"
pytestmark = pytest.mark.skipif(
    not (SIMULATED or gpu_count()),
    reason="needs a GPU, or its simulator, in which test_simulator.py runs this",
)

NFC = "e\u0301tude cafe\u0301"
HOSTILE = [
    "", "a", "ab", "short", "a" * 40, "ab" * 30, "hello wörld " * 4, "日本語のテキスト" * 4, "😀😃 x", " ", "…", "\n\n",
    "- - ... foo--bar, \u00a0 Baz!? \n\t q", "ends in space ", "İstanbul ǅ ß ﬁ", NFC, "\u0000 nul", "\U0010ffff" * 9,
    "x" + "," * 30 + "y", "long " * 20, "long " * 5, "long " * 5 + "é", "x" * 24 + "é" + "y" * 25, "é" + "x" * 24,
]  # fmt: skip
SIZES = [(25, 16, 4, sketching.TILE), (5, 12, 3, sketching.TILE), (5, 6, 3, 23), (3, 4, 4, 11), (1, 2, 1, 7)]
WORD_SIZES = [(13, 16, sketching.TILE), (2, 6, 5), (1, 3, 3)]
if SIMULATED:  # in the simulator a value of a signature takes a second
    SIZES = [(25, 2, 2, sketching.TILE), (5, 6, 3, 23), (3, 2, 2, 11), (1, 2, 1, 7)]
    WORD_SIZES = [(13, 2, sketching.TILE), (2, 3, 5), (1, 2, 3)]


@pytest.fixture(autouse=True)
def rapids(monkeypatch):
    """Return RAPIDS, or its double."""
    if SIMULATED:
        monkeypatch.setitem(sys.modules, "zyda_flows.tasks.gpu.rapids", rapids_double)
        monkeypatch.setattr(gpu, "rapids", rapids_double, raising=False)
        simulated_kernels.prepare(monkeypatch.setattr)
        monkeypatch.setattr(engine, "LIBRARIES", ())
        engine.missing_libraries.cache_clear()
    from zyda_flows.tasks.gpu import rapids

    shard_keys.VERIFIED_KERNELS.clear()
    yield rapids
    engine.missing_libraries.cache_clear()


def buffers(texts):
    data, ends = text_buffers(pa.array(texts, pa.large_string()))
    return np.array(data), np.array(ends)


def signatures_on_device(rapids, kernels, text, ends, tile=sketching.TILE, **size):
    there = rapids.to_device(text), rapids.to_device(ends)
    return rapids.to_host(sketching.signatures(rapids.xp, kernels, *there, tile=tile, **size))


@pytest.mark.parametrize(("width", "values", "bands", "tile"), SIZES)
def test_signatures_of_characters_equal_the_cpu(rapids, width, values, bands, tile):
    text = buffers(HOSTILE)
    expected = sketch.signatures(*text, width=width, values=values)
    signatures = signatures_on_device(rapids, CHARACTER_KERNELS, *text, tile=tile, width=width, values=values)
    assert np.array_equal(signatures, expected)
    keys = sketching.band_keys(rapids.xp, rapids.to_device(signatures), bands=bands)
    assert np.array_equal(rapids.to_host(keys), sketch.band_keys(expected, bands=bands))


@pytest.mark.parametrize(("width", "values", "tile"), WORD_SIZES)
def test_words_and_their_signatures_equal_the_cpu(rapids, width, values, tile):
    words, ends = word_hashes(pa.array(HOSTILE, pa.large_string()))
    text = map(rapids.to_device, (*buffers(HOSTILE), folded_characters()))
    device_words, device_ends, is_unsafe = map(rapids.to_host, wording.word_hashes(rapids.xp, *text))
    assert np.array_equal(is_unsafe, may_change(*buffers(HOSTILE), folded_characters()))
    for i in np.flatnonzero(~is_unsafe):
        assert np.array_equal(
            device_words[device_ends[i] : device_ends[i + 1]], words[ends[i] : ends[i + 1]]
        ), HOSTILE[i]
    size = {"width": width, "values": values}
    expected = sketch.word_signatures(words, ends, **size)
    sketches = signatures_on_device(rapids, WORD_KERNELS, device_words, device_ends, tile=tile, **size)
    assert np.array_equal(sketches[~is_unsafe], expected[~is_unsafe])


@settings(max_examples=15 if SIMULATED else 300, deadline=None)
@given(
    st.lists(st.text(max_size=40), min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(2, 9),
    st.integers(1, 50),
)
def test_signatures_of_any_texts_equal_the_cpu(texts, width, values, tile):
    from zyda_flows.tasks.gpu import rapids

    text = buffers([content.encode("utf-8", "ignore").decode() for content in texts])
    expected = sketch.signatures(*text, width=width, values=values)
    signatures = signatures_on_device(rapids, CHARACTER_KERNELS, *text, tile=tile, width=width, values=values)
    assert np.array_equal(signatures, expected)


ROUNDS = {
    "characters": MinHashRound(width=4, bands=2, rows=2),
    "words": MinHashRound(shingle="words", width=3, bands=3, rows=1),
}


@pytest.fixture
def shard(tmp_path):
    """Build a small corpus of a source, and return its folder and a shard of some row groups."""
    corpus = Corpus(tmp_path)
    texts = [*HOSTILE, None, prose("one", 12), prose("two", 12), NFC * 3]
    write_rows(tmp_path / "in/best-0.parquet", [{"text": text or ""} for text in texts])
    recipe = corpus.load(sources=[{"name": "best", "files": "in/best-0.parquet"}], publish_bands=False)
    build_here(recipe)
    ingested = shards_of(recipe, "ingest")[0]
    documents = read_table(recipe.folder, ingested)

    def fill(scratch):
        with parquet_writer(scratch, documents.schema) as writer:
            for start in range(0, len(documents), 5):
                writer.write_table(documents.slice(start, 5))

    return recipe.folder, write_artifact(recipe.folder, "work/cut.parquet", "000000-000-000", fill)


@pytest.fixture
def on_gpu():
    """Return a function that calls another as a worker with a GPU does."""

    def call(function):
        token = engine.SENT_FOR.set(engine.Engine.GPU)
        try:
            assert engine.is_on_gpu()
            return function()
        finally:
            engine.SENT_FOR.reset(token)

    return call


def both(job, on_gpu):
    """Compute with the CPU and with the GPU; return the digest of each result."""
    by_cpu = job.make()
    job.folder.delete(job.path)
    return by_cpu.digest, on_gpu(job.make).digest


@pytest.mark.parametrize("dedup", ROUNDS.values(), ids=ROUNDS)
def test_keys_of_a_shard_are_the_same_file(shard, on_gpu, dedup):
    by_cpu, by_gpu = both(KeysOfShard(shard[0], "best", shard[1], dedup), on_gpu)
    assert by_cpu == by_gpu


NO_ROOM = (
    MemoryError("std::bad_alloc: out_of_memory: RMM failure"),
    RuntimeError("Fatal CUDA error encountered at x.cu:1: 2 cudaErrorMemoryAllocation out of memory"),
    type("CudaAPIError", (Exception,), {})(
        "[2] Call to cuModuleLoadDataEx results in CUDA_ERROR_OUT_OF_MEMORY"
    ),
)


@pytest.mark.parametrize("most", [2, 0], ids=["halves", "the CPU does it"])
def test_row_groups_that_exceed_memory_are_halved_with_a_warning(shard, on_gpu, monkeypatch, rapids, most):
    text_of, calls, messages, no_room = rapids.text_of, [], [], cycle(NO_ROOM)

    def short_of_memory(content, groups):
        calls.append(len(groups))
        if len(groups) > most:
            raise next(no_room)
        return text_of(content, groups)

    monkeypatch.setattr(rapids, "text_of", short_of_memory)
    monkeypatch.setattr(shard_keys, "VERIFIED_KERNELS", {shard_keys.size_of(ROUNDS["characters"])})
    monkeypatch.setattr(shard_keys, "FITTING", {})
    monkeypatch.setattr(shard_keys, "warn", messages.append)
    by_cpu, by_gpu = both(KeysOfShard(shard[0], "best", shard[1], ROUNDS["characters"]), on_gpu)
    assert by_cpu == by_gpu
    groups = calls[0]
    assert groups == -(-shard[1].rows // 5)
    assert sum(size for size in calls if size <= max(most, 1)) == groups
    assert any(f"{groups} row groups" in text for text in messages)
    assert any("the CPU" in text for text in messages) == (most == 0)
    calls.clear()
    assert both(KeysOfShard(shard[0], "best", shard[1], ROUNDS["characters"]), on_gpu) == (by_cpu, by_gpu)
    assert max(calls) == max(most, 1)


def test_other_errors_of_a_gpu_are_not_memory_errors(shard, on_gpu, monkeypatch, rapids):
    monkeypatch.setattr(rapids, "text_of", Mock(side_effect=RuntimeError("cudaErrorIllegalAddress")))
    with pytest.raises(RuntimeError, match="IllegalAddress"):
        on_gpu(KeysOfShard(shard[0], "best", shard[1], ROUNDS["characters"]).make)


def test_threads_of_a_worker_use_its_gpu_in_turn(shard, on_gpu, monkeypatch, rapids):
    text_of, inside, most = rapids.text_of, [], []

    def slow(content, groups):
        inside.append(groups)
        time.sleep(0.05)
        most.append(len(inside))
        try:
            return text_of(content, groups)
        finally:
            inside.pop()

    monkeypatch.setattr(rapids, "text_of", slow)
    monkeypatch.setattr(shard_keys, "VERIFIED_KERNELS", {shard_keys.size_of(ROUNDS["words"])})
    job = KeysOfShard(shard[0], "best", shard[1], ROUNDS["words"])
    expected = job.make().digest
    job.folder.delete(job.path)
    count = 2 if SIMULATED else 4
    with ThreadPoolExecutor(count) as threads:
        futures = [threads.submit(copy_context().run, on_gpu, job.make) for _ in range(count)]
    assert {future.result().digest for future in futures} == {expected}
    assert most == [1] * count


def test_texts_without_a_byte_have_no_keys(tmp_path, on_gpu):
    folder = Folder(str(tmp_path))
    table = pa.table({"doc_id": pa.array([3, 4], pa.uint64()), "text": pa.array(["", ""], pa.large_string())})
    empty = write_table(folder, "work/empty.parquet", "000000-000-000", table)
    for dedup in ROUNDS.values():
        by_cpu, by_gpu = both(KeysOfShard(folder, "best", empty, dedup), on_gpu)
        assert by_cpu == by_gpu


def test_first_row_group_is_sketched_by_gpu_and_cpu(shard, on_gpu):
    job = KeysOfShard(shard[0], "best", shard[1], ROUNDS["characters"])
    by_cpu = Mock(wraps=job.sketched)
    for times in range(2):
        made = on_gpu(lambda: shard_keys.keys_of_shard(*shard, job.dedup, None, by_cpu))
        assert len(made[0])
        assert [len(call.args[0]) for call in by_cpu.call_args_list] == [5], times


def test_untested_gpu_is_not_used(shard, on_gpu, monkeypatch, rapids):
    text_of, calls, messages = rapids.text_of, [], []

    def no_room_at_first(content, groups):
        calls.append(groups)
        if len(calls) == 1:
            raise MemoryError
        return text_of(content, groups)

    monkeypatch.setattr(rapids, "text_of", no_room_at_first)
    monkeypatch.setattr(shard_keys, "warn", messages.append)
    by_cpu, by_gpu = both(KeysOfShard(shard[0], "best", shard[1], ROUNDS["words"]), on_gpu)
    assert by_cpu == by_gpu
    assert len(calls) == len(messages) == 1
    assert "the CPU sketches the shard" in messages[0]
    assert not shard_keys.VERIFIED_KERNELS


def test_wrong_band_keys_of_a_gpu_raise(shard, on_gpu, monkeypatch):
    band_keys = sketching.band_keys
    monkeypatch.setattr(
        sketching, "band_keys", lambda *arguments, **options: band_keys(*arguments, **options) ^ np.uint64(1)
    )
    job = KeysOfShard(shard[0], "best", shard[1], ROUNDS["characters"])
    with pytest.raises(WrongBits, match="computes other band keys than its CPU"):
        on_gpu(job.make)
    assert not job.folder.exists(job.path)


def test_wrong_edges_and_clusters_of_a_gpu_raise(tmp_path, on_gpu, monkeypatch, rapids):
    keys, doc_ids = np.array([1, 1, 2, 2], np.uint64), np.array([5, 7, 8, 9], np.uint64)
    right = edges.star_edges(keys, doc_ids)
    folder = Folder(str(tmp_path))
    files = tuple(write_table(folder, f"work/{n}.parquet", f"{n}", right) for n in range(2))
    to_host, components = rapids.to_host, rapids.components
    monkeypatch.setattr(rapids, "to_host", lambda array: to_host(array)[::-1])
    with pytest.raises(WrongBits, match="computes other edges than its CPU"):
        on_gpu(lambda: edges.star_edges(keys, doc_ids))
    monkeypatch.setattr(rapids, "to_host", to_host)
    monkeypatch.setattr(rapids, "components", lambda count, a, b: components(count, a[:1], b[:1]))
    job = clusters.ForestOfFiles(folder, None, files, 0, 0)
    with pytest.raises(WrongBits, match="computes other clusters than its CPU"):
        on_gpu(job.make)
    assert not folder.exists(job.path)
    assert not shard_keys.VERIFIED_KERNELS


def test_row_group_resketched_by_the_cpu_does_not_test_the_gpu(tmp_path, on_gpu):
    folder, dedup = Folder(str(tmp_path)), ROUNDS["words"]
    changed, same = (
        pa.table({"doc_id": pa.array([i], pa.uint64()), "text": pa.array([text], pa.large_string())})
        for i, text in ((3, "e\u0301 " * 9), (4, "a b c d e f g " * 3))
    )

    def fill(tables, scratch):
        with parquet_writer(scratch, changed.schema) as writer:
            for table in tables:
                writer.write_table(table)

    for number, (tables, is_shown) in enumerate([((changed,), False), ((changed, same), True)]):
        shard = write_artifact(folder, f"work/{number}.parquet", f"{number}", partial(fill, tables))
        by_cpu, by_gpu = both(KeysOfShard(folder, "best", shard, dedup), on_gpu)
        assert by_cpu == by_gpu
        assert (shard_keys.size_of(dedup) in shard_keys.VERIFIED_KERNELS) == is_shown


@pytest.mark.parametrize("lost", ["a row", "text"])
def test_missing_rows_on_the_device_raise(shard, on_gpu, monkeypatch, rapids, lost):
    text_of = rapids.text_of

    def short(content, groups):
        doc_ids, data, ends = text_of(content, groups)
        return (doc_ids[1:], data, ends[1:]) if lost == "a row" else (doc_ids, data[:0], ends)

    monkeypatch.setattr(rapids, "text_of", short)
    with pytest.raises(WrongBits, match=r"cuDF read \d rows, expected 5, and"):
        on_gpu(KeysOfShard(shard[0], "best", shard[1], ROUNDS["words"]).make)


def test_damaged_shard_is_not_sketched(shard, on_gpu):
    folder, whole = shard
    content = bytearray(folder.read(whole.path))
    content[len(content) // 3] ^= 1
    folder.write(whole.path, bytes(content))
    with pytest.raises(Damaged, match="has another content than was written"):
        on_gpu(KeysOfShard(folder, "best", whole, ROUNDS["characters"]).make)


@pytest.mark.parametrize("shape", [(200,), (200, 2), (0,), (1,)], ids=str)
def test_edges_equal_the_cpu(on_gpu, shape):
    chance = np.random.default_rng(1)
    keys, doc_ids = (
        chance.integers(0, 60, shape).astype(np.uint64) << np.uint64(50),
        np.arange(shape[0], dtype=np.uint64),
    )
    assert on_gpu(lambda: edges.star_edges(keys, doc_ids)).equals(edges.star_edges(keys, doc_ids))


def test_edges_that_exceed_memory_are_joined_by_the_cpu(on_gpu, monkeypatch, rapids):
    def no_room(array):
        raise MemoryError

    messages = []
    monkeypatch.setattr(rapids, "to_device", no_room)
    monkeypatch.setattr(edges, "warn", messages.append)
    keys, doc_ids = np.array([1, 1], np.uint64), np.array([5, 7], np.uint64)
    assert on_gpu(lambda: edges.star_edges(keys, doc_ids)).to_pydict() == {"a": [5], "b": [7]}
    assert "2 band keys exceed the memory" in messages[0]


EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


@settings(max_examples=50, deadline=None)
@given(st.lists(EDGES, min_size=1, max_size=3))
def test_forest_equals_the_cpu(parts):
    sides = [
        np.array([(a, b) for a, b in part if a != b], np.uint64).reshape(-1, 2) << np.uint64(40)
        for part in parts
    ]
    expected = clusters.join_all(clusters.forest_of_edges(*part.T) for part in sides)
    ids, roots = forest_of(tuple(part.T) for part in sides)
    assert np.array_equal(ids, expected.ids)
    assert np.array_equal(roots, expected.roots)
    assert roots.dtype == expected.roots.dtype


@pytest.mark.parametrize("room", ["for all", "for none", "for fewer edges"])
def test_clusters_are_the_same_files_at_every_level(tmp_path, on_gpu, monkeypatch, room):
    folder, chance = Folder(str(tmp_path)), np.random.default_rng(2)

    def file(number):
        a = chance.integers(0, 500, 200).astype(np.uint64)
        table = pa.table([a, a + np.uint64(1 + number)], schema=edges.EDGES)
        return write_table(folder, f"work/edges-{number}.parquet", f"{number}", table)

    messages = []
    monkeypatch.setattr(clusters, "warn", messages.append)
    if room == "for none":
        monkeypatch.setattr(joining, "on_device", Mock(side_effect=MemoryError))
    elif room == "for fewer edges":
        monkeypatch.setattr(joining, "MOST_EDGES", 100)
    shards = tuple(file(number) for number in range(4))
    for level in (0, 1):
        jobs = [
            clusters.ForestOfFiles(folder, None, pair, level, n)
            for n, pair in enumerate([shards[:2], shards[2:]][: len(shards) // 2])
        ]
        digests = [both(job, on_gpu) for job in jobs]
        assert all(by_cpu == by_gpu for by_cpu, by_gpu in digests)
        shards = tuple(job() for job in jobs)
    assert len(messages) == (0 if room == "for all" else 3)


@pytest.mark.parametrize(
    "dedup",
    [
        {"width": 5, "bands": 2, "rows": 2},
        [{"exact": "text"}, {"shingle": "words", "width": 3, "bands": 2, "rows": 1}],
    ],
    ids=["characters", "exact, then words"],
)
def test_corpus_is_the_same_for_both_engines(tmp_path, on_gpu, monkeypatch, dedup):
    corpus = Corpus(tmp_path)
    words = {name: prose(name, 25) for name in ("one", "two", "three")}
    write_rows(
        tmp_path / "in/best-0.parquet",
        rows(**words, naïve="naïve café 漢字 🙂 " * 4, nothing="", nfc=NFC * 5),
    )
    write_rows(
        tmp_path / "in/worst-0.jsonl.zst",
        rows(copy=words["one"], near=edited(words["two"]), own=prose("own", 25)),
    )
    sources = [{"name": name, "files": f"in/{name}-0.*"} for name in ("best", "worst")]
    by_cpu = corpus.load(sources=sources, dedup=dedup)
    build_here(by_cpu)
    by_gpu = corpus.load(sources=sources, dedup=dedup, storage=str(tmp_path / "by gpu"))
    monkeypatch.setattr(ingest, "has_gpus", lambda _: True)
    made = Mock(wraps=shard_keys.keys_of_shard)
    monkeypatch.setattr(shard_keys, "keys_of_shard", made)
    on_gpu(lambda: build_here(by_gpu))
    assert contents(by_gpu) == contents(by_cpu)
    assert made.call_count == 2


def test_benchmark_compares_results_and_writes_its_page(tmp_path, monkeypatch):
    for module, names in ((rapids_gpu, ("SHARD_BYTES", "KEYS", "EDGES")), (bare_gpu, ("TEXT_BYTES",))):
        for name in names:
            monkeypatch.setattr(module, name, 500)
        monkeypatch.setattr(module, "shortest_time", lambda call, repeat=1: 1.0)
    monkeypatch.setattr(dask_cluster, "GPU_THREADS", 1)
    monkeypatch.setattr(rapids_gpu, "CHARACTERS", ROUNDS["characters"])
    for name, value in (("WIDTH", 5), ("WORD_WIDTH", 3), ("VALUES", 4)):
        monkeypatch.setattr(bare_gpu, name, value)
    monkeypatch.setattr(
        rapids_gpu, "classifier", lambda texts: rapids_gpu.row("the classifier", "documents/s", 1, 1, 1)
    )
    monkeypatch.setattr(benchmark, "version", lambda package: "1.0")
    page = tmp_path / "gpu.md"
    page.write_text(benchmark.PAGE.read_text())
    monkeypatch.setattr(benchmark, "PAGE", page)
    texts = pa.array([prose(name, 12) for name in ("one", "two")], pa.large_string())
    rows = rapids_gpu.rows_of(texts)
    assert len(rows) == 7
    assert all(row["one GPU"] > 0 and row["one core"] > 0 for row in rows)
    for _ in range(2):  # the second takes the place of the first
        benchmark.write_page("A GPU", rows)
    assert page.read_text().count("A GPU, 20") == 1
    assert "Nothing has been measured" not in page.read_text()
    assert (
        page.read_text().partition("## What is called")[2]
        == benchmark.PAGE.read_text().partition("## What is called")[2]
    )


def test_build_reuses_artifacts_of_the_other_engine(tmp_path, on_gpu, monkeypatch):
    corpus = Corpus(tmp_path)
    write_rows(tmp_path / "in/best-0.parquet", rows(one=prose("one", 25)))
    recipe = corpus.load(
        sources=[{"name": "best", "files": "in/best-0.parquet"}], dedup={"width": 5, "bands": 2, "rows": 2}
    )
    build_here(recipe)
    before = {
        path: recipe.folder.read(path) for path in recipe.folder.files("work") if path.endswith(".parquet")
    }
    recipe.folder.delete("work/built.json")
    none = Mock(side_effect=AssertionError("it was made before"))
    for module, name in ((shard_keys, "keys_of_shard"), (edges, "stars"), (joining, "forest_of")):
        monkeypatch.setattr(module, name, none)
    on_gpu(lambda: build_here(recipe))
    assert before == {path: recipe.folder.read(path) for path in before}
