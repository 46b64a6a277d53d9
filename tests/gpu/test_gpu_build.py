"""The comparison of `make gpu-build`; test_whole_build.py builds a corpus with a simulated GPU."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import prose

from benchmarks import gpu_build, harness
from zyda_flows.tasks.quality import torch_models
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.running import run_pipeline
from zyda_flows.tasks.stage.results import HERE


def write_files(folder, files):
    for path, content in files.items():
        place = folder / "corpus/published" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def test_every_different_published_file_is_listed(tmp_path):
    equal = {"best/0.parquet": b"a", "removed/best/0.parquet": b"b", "ledger.json": b"c"}
    write_files(
        tmp_path / "cpu", {**equal, "manifest.json": b"1", "files-0123abcd.parquet": b"1", "only": b""}
    )
    write_files(tmp_path / "gpu", {**equal, "manifest.json": b"2", "files-4567abcd.parquet": b"2"})
    places = tmp_path / "cpu", tmp_path / "gpu"
    assert gpu_build.different_files(*places) == ["corpus/published/only"]
    (tmp_path / "gpu/corpus/published/best/0.parquet").write_bytes(b"x")
    assert gpu_build.different_files(*places) == ["corpus/published/best/0.parquet", "corpus/published/only"]


def test_different_files_end_the_comparison(tmp_path, monkeypatch):
    built = []

    def build(recipe, storage, engine, **variables):
        built.append((engine, variables))
        write_files(storage, {"best/0.parquet": content.get(engine, b"same")})
        return 2.0

    monkeypatch.setattr(gpu_build, "build_seconds", build)
    content = {}
    row = gpu_build.compare_builds("recipe.yaml", tmp_path, DASK_SCHEDULER_ADDRESS="address")
    assert row["compared"] == "1 published files, 4 bytes"
    assert built == [("cpu", {}), ("gpu", {"DASK_SCHEDULER_ADDRESS": "address"})]
    content = {"gpu": b"other"}
    with pytest.raises(SystemExit, match="1 published files differ between CPUs and GPUs"):
        gpu_build.compare_builds("recipe.yaml", tmp_path)


def test_only_clear_labels_are_compared():
    by_cpu = np.array([[0.8, 0.1, 0.1], [0.505, 0.495, 0], [0.45, 0.48, 0.07], [0.1, 0.2, 0.7]])
    by_gpu = np.array([[0.79, 0.11, 0.1], [0.495, 0.505, 0], [0.48, 0.45, 0.07], [0.1, 0.2, 0.7]])
    assert gpu_build.equal_labels(by_gpu, by_cpu) == (3, 2)


@pytest.mark.slow
def test_whole_comparison_runs_with_a_cpu_in_place_of_the_gpu(tmp_path, monkeypatch, capsys):
    def build(recipe, storage, engine):
        run_pipeline(load_recipe(recipe, storage=str(storage)), HERE)
        return 1.0

    classifier = torch_models.Classifier
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gpu_build, "gpu", lambda: "no GPU at all")
    monkeypatch.setattr(gpu_build, "build_seconds", build)
    monkeypatch.setattr(torch_models, "Classifier", lambda *model, device: classifier(*model, device="cpu"))
    pq.write_table(pa.table({"text": [prose(str(i)) for i in range(40)]}), tmp_path / "x.parquet")
    gpu_build.measure.main([str(tmp_path), "0.1"])
    output = capsys.readouterr().out
    assert "CPUs and GPUs (no GPU at all)" in output
    assert "published files" in output
    assert "clear labels of 40 texts | 100.00%" in output
