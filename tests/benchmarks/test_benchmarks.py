"""Benchmarks run with very small sizes; their figures are not checked."""

import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dask
import distributed
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from small_corpus import REPOSITORY, TOKENIZER, prose

from benchmarks import at_size, harness, orchestration
from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import Benchmark, Table, benchmark
from benchmarks.processes import Usage
from benchmarks.simulation import simulate
from zyda_flows.flows.server.liveness import runs_in
from zyda_flows.tasks.workers.dask_cluster import local_cluster

TEXTS = "the folder of texts"
SMALL = {
    "clusters": ["20000"],
    "full_size": [TEXTS, str(TOKENIZER), "0.0005", "0.001"],
    "duplicates": [TEXTS, str(TOKENIZER), "1", "100"],
    "lookup": ["500"],
    "passages": [TEXTS, "1"],
    "fasttext_models": [TEXTS, "1", "100"],
    "scheduler": ["300", "--seconds", "0.01", "--workers", "1", "--threads", "4"],
}
OTHER_LIBRARIES = {
    "judge_forms",
    "signatures",
    "similarity",
    "tokens",
    "mixtures",
}  # import what `make bench` installs
NOT_BENCHMARKS = {
    "__init__",
    "all",
    "bare_classifier",
    "bare_gpu",
    "corpora",
    "harness",
    "processes",
    "rapids_gpu",
    "simulation",
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    pq.write_table(pa.table({"text": [prose(str(i)) for i in range(200)]}), folder / "x.parquet")
    return folder


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def run(name, texts, arguments):
    module = importlib.import_module(f"benchmarks.{name}")
    module.measure.main([str(texts) if argument == TEXTS else argument for argument in arguments])


def test_every_module_declares_a_benchmark_of_its_name():
    names = (
        {path.stem for path in (REPOSITORY / "benchmarks").glob("*.py")} - NOT_BENCHMARKS - OTHER_LIBRARIES
    )
    for name in names:
        measure = importlib.import_module(f"benchmarks.{name}").measure
        assert isinstance(measure, Benchmark)
        assert measure.name == name


def test_tables_are_printed_and_saved(results, capsys):
    @benchmark("example")
    def measure(count: int = 1):
        yield Table("first", [{"work": "counting", "seconds": float(count)}])
        yield Table("second", [{"work": "nothing", "seconds": float("nan")}])

    measure.main(["--count", "1234"])
    printed = capsys.readouterr().out
    assert "| work | seconds |\n| --- | ---: |\n| counting | 1,234 |\n" in printed
    assert "| nothing |  |" in printed
    saved = json.loads((results / "example.json").read_text())
    assert [table["title"] for table in saved["tables"]] == ["first", "second"]
    assert saved["tables"][0]["rows"] == [{"work": "counting", "seconds": 1234.0}]


def test_function_runs_in_a_new_process_with_its_environment():
    assert harness.in_new_process(harness_variable, {"ZYDA_BENCHMARK": "given"}) == "given"
    assert harness_variable() is None


def harness_variable():
    import os

    return os.environ.get("ZYDA_BENCHMARK")


def test_failed_tool_ends_the_benchmark_with_its_errors(tmp_path):
    with pytest.raises(SystemExit, match="no such word"):
        harness.run_tool([sys.executable, "-c", "raise SystemExit('no such word')"], tmp_path)


@pytest.mark.slow
def test_memory_of_forked_workers_is_measured_without_other_processes(monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", "cpu")
    reserve = "import numpy, sys; kept = numpy.ones({} << 17); print(); sys.stdin.read()"
    command = [sys.executable, "-c", reserve.format(900)]
    with (
        Usage(psutil.Process()).watched() as usage,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other,
        local_cluster() as cluster,
        distributed.Client(cluster) as client,
    ):
        other.stdout.readline()
        assert client.submit(np.ones, 400 << 17).result().nbytes == 400 << 20
        other.communicate()
    assert 400 < usage.worker_peak < 900


def test_generated_documents_have_clusters_and_distinct_addresses():
    tables = [at_size.generated_documents(start, 5000, 10_000) for start in (0, 5000)]
    texts, addresses = (
        [row for table in tables for row in table[name].to_pylist()] for name in ("text", "url")
    )
    assert len(set(addresses)) == 10_000
    assert addresses[5001] == "https://example.org/000000005001"
    assert {len(text) for text in texts} == {20}
    sizes = Counter(texts)
    assert sum(size for size in sizes.values() if size > 1) > 9_000
    assert max(sizes.values()) > 100
    assert tables[0]["text"].to_pylist() == texts[:5000]


@pytest.mark.slow
def test_command_with_a_limit_of_memory_is_measured(capfd):
    cost = at_size.measure_command("recipes", [], 3)
    assert cost["CPU s"] > 0
    assert cost["flow, MiB"] > 20
    with pytest.raises(SystemExit, match="recipes failed"):
        at_size.measure_command("recipes", [], 0.01)


@pytest.mark.slow
def test_texts_of_a_folder_are_loaded(texts):
    loaded = load_texts(texts)
    assert len(loaded) == 200
    assert megabytes_of(loaded) > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_benchmark_runs(name, texts, compiled, results, capsys):
    run(name, texts, SMALL[name])
    assert (results / f"{name}.json").exists()
    output = capsys.readouterr().out
    assert "documents" in output or "seconds" in output


@pytest.mark.slow
def test_benchmark_of_a_whole_build_runs(texts, server, cluster, results, capsys):
    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        run("end_to_end", texts, [TEXTS, str(TOKENIZER), "0.0005"])
    assert "GiB" in capsys.readouterr().out


@pytest.mark.slow
def test_simulated_build_runs_on_prefect_and_dask(server, cluster, tmp_path):
    recipe = orchestration.write_corpus(tmp_path / "corpus", 1)
    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        simulate(str(recipe), 2, 3)
    with get_client(sync_client=True) as client:
        (flow_run,) = runs_in(client, *StateType, flows=["simulation"])
    assert flow_run.state_name == "Completed"


@pytest.mark.slow
def test_costs_of_a_command_are_measured(server, prefect_home):
    """Builds are measured only by `python -m benchmarks.orchestration`: each takes a minute of a core."""
    this_process = orchestration.PrefectServer(psutil.Process(), Path(prefect_home) / "server.log")
    busy = "import time\nwhile time.process_time() < 1: pass"
    cost = orchestration.measure_command([sys.executable, "-c", busy], this_process)
    assert 0.5 < cost["CPU-s, build"] < 2
    assert cost["seconds"] > 0.9
    assert cost["task runs"] == 0
    assert cost["MiB, flow"] > 1
    with pytest.raises(SystemExit, match="failed"):
        orchestration.measure_command([sys.executable, "-c", "raise SystemExit(3)"], this_process)
