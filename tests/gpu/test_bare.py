"""`python -m benchmarks.gpu --bare`: its parts in numba's simulator, in a process without the libraries it must not use."""

import json
import os
import subprocess
import sys

import pytest
from small_corpus import REPOSITORY

from benchmarks import bare_classifier, bare_gpu
from zyda_flows.tasks.quality.torch_models import TOKENS_PER_BATCH
from zyda_flows.tasks.recipe.kinds import MinHashRound

MISSING = (
    "cudf", "cugraph", "cupy", "pylibcudf", "rmm", "dask", "dask_cuda", "distributed", "prefect", "prefect_dask", "duckdb", "pydantic",
    "fastokens", "zstandard", "s3fs", "gcsfs", "psutil",
)  # fmt: skip
PART = f"""
import socket, sys
for name in {MISSING}:
    sys.modules[name] = None
def connect(*_):
    raise OSError("no network")
socket.socket.connect = connect
from benchmarks import bare_classifier, bare_gpu, gpu
import simulated_kernels
simulated_kernels.prepare()
bare_gpu.HOSTILE = ["", "a", "wörld, x. y"]
bare_gpu.WIDTH, bare_gpu.WORD_WIDTH, bare_gpu.VALUES, bare_gpu.BANDS = 5, 2, 4, 2
bare_gpu.TEXT_BYTES = bare_gpu.GROUP_BYTES = 200
bare_gpu.GROUPS, bare_gpu.SHARDS, bare_gpu.THREADS = 2, 2, 1
bare_gpu.PAGE_BYTES = bare_classifier.PAGE_BYTES = 60
bare_classifier.DOCUMENTS, bare_classifier.MAX_TOKENS, bare_classifier.TOKENS_PER_BATCH = 12, 48, 96
bare_classifier.PAD, bare_classifier.COMPILER = 8, "eager"
bare_classifier.DEBERTA.update(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
bare_gpu.shortest_time = lambda call, repeat=1: 1.0
bare_gpu.main()
"""
WORKS = {
    "signatures": [
        f"signatures, {kind}, one {place}" for kind in ("characters", "words") for place in ("GPU", "core")
    ],
    "shards": ["decoding alone, 1 threads", "shards, from file to file"],
    "classifier": ["classifier, not compiled", "classifier, compiling", "classifier, compiled"],
}


@pytest.mark.slow
@pytest.mark.parametrize("part", WORKS)
def test_part_runs_without_rapids_dask_prefect_and_network(part):
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": "tests/fixtures"}
    command = [sys.executable, "-W", "ignore", "-c", PART, part]
    ended = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["work"] for row in rows] == WORKS[part]
    assert all(row["speed"] > 0 for row in rows)


def test_rows_are_kept_of_a_part_that_exceeds_its_time(monkeypatch, capsys):
    monkeypatch.setattr(bare_gpu, "LIMITS", {"quick": 60, "endless": 3})
    program = (
        "import sys, time; print('{\"work\": \"' + sys.argv[1] + '\"}', flush=True);"
        "time.sleep(600 * (sys.argv[1] == 'endless'))"
    )
    rows = bare_gpu.rows_of_parts((sys.executable, "-c", program))
    assert rows == [{"work": "quick"}, {"work": "endless"}]
    assert capsys.readouterr().out == "endless: not finished in 3 s\n"


def test_failed_part_ends_the_measurement(monkeypatch):
    monkeypatch.setattr(bare_gpu, "LIMITS", {"signatures": 60})
    with pytest.raises(SystemExit, match="signatures: failed with exit status 3"):
        bare_gpu.rows_of_parts((sys.executable, "-c", "raise SystemExit(3)"))


def test_parts_are_limited_to_four_minutes_and_measure_the_defaults():
    assert sum(bare_gpu.LIMITS.values()) < 240
    assert set(bare_gpu.LIMITS) == set(WORKS)
    characters, words = MinHashRound(), MinHashRound(shingle="words")
    assert (
        characters.width, characters.values, characters.bands,
    ) == (bare_gpu.WIDTH, bare_gpu.VALUES, bare_gpu.BANDS)  # fmt: skip
    assert words.width == bare_gpu.WORD_WIDTH
    assert TOKENS_PER_BATCH["cuda"] == bare_classifier.TOKENS_PER_BATCH
