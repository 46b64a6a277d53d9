"""The measurements still run: on little, and for no figure."""

import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import REPOSITORY, TOKENIZER, prose

from benchmarks.measure import load_texts, megabytes_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    pq.write_table(pa.table({"text": [prose(str(i)) for i in range(200)]}), folder / "x.parquet")
    return folder


def test_texts_of_a_folder_are_read(texts):
    found = load_texts(texts)
    assert len(found) == 200
    assert megabytes_of(found) > 0.2


@pytest.mark.parametrize(
    "command",
    [
        ["benchmarks.clusters", "20000"],
        ["benchmarks.end_to_end", "FOLDER", str(TOKENIZER), "0.0005"],
        ["benchmarks.full_size", "FOLDER", str(TOKENIZER), "0.0005", "0.001"],
        ["benchmarks.duplicates", "FOLDER", str(TOKENIZER), "1", "100", "500", "1000"],
        ["benchmarks.orchestration", "--sources", "1", "--simulate", "2x3"],
    ],
    ids=lambda command: command[0],
)
def test_measurement_runs(texts, tmp_path, monkeypatch, command):
    arguments = [str(texts) if argument == "FOLDER" else argument for argument in command]
    ended = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "documents" in ended.stdout or "seconds" in ended.stdout
