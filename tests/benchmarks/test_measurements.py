"""The measurements still run: on little, and for no figure."""

import sys
from pathlib import Path

import dask
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from small_corpus import TOKENIZER, prose

from benchmarks import clusters, duplicates, end_to_end, full_size, measure, orchestration
from benchmarks.measure import load_texts, megabytes_of
from benchmarks.simulation import simulate
from zyda_flows.flows.server.liveness import runs_in

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
    ("benchmark", "arguments"),
    [
        (clusters, ["20000"]),
        (full_size, ["FOLDER", str(TOKENIZER), "0.0005", "0.001"]),
        (duplicates, ["FOLDER", str(TOKENIZER), "1", "100", "500", "1000"]),
    ],
    ids=["clusters", "full_size", "duplicates"],
)
def test_measurement_runs(benchmark, arguments, texts, compiled, tmp_path, monkeypatch, capsys):
    run_measurement(benchmark, arguments, texts, tmp_path, monkeypatch)
    output = capsys.readouterr().out
    assert "documents" in output or "seconds" in output


def run_measurement(benchmark, arguments, texts, results, monkeypatch):
    arguments = [str(texts) if argument == "FOLDER" else argument for argument in arguments]
    monkeypatch.setattr(sys, "argv", [benchmark.__name__, *arguments])
    monkeypatch.setattr(measure, "RESULTS", results)
    benchmark.main()
    assert list(results.glob("*.json"))


def test_measurement_of_a_whole_build_runs(texts, server, cluster, tmp_path, monkeypatch, capsys):
    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        run_measurement(end_to_end, ["FOLDER", str(TOKENIZER), "0.0005"], texts, tmp_path, monkeypatch)
    assert "GiB" in capsys.readouterr().out


def test_build_of_stages_that_do_nothing_runs_on_prefect_and_dask(server, cluster, tmp_path):
    recipe = orchestration.write_corpus(tmp_path / "corpus", 1)
    with dask.config.set({"scheduler-address": cluster.scheduler_address}):
        simulate(str(recipe), 2, 3)
    with get_client(sync_client=True) as client:
        (run,) = runs_in(client, *StateType, flows=["simulation"])
    assert run.state_name == "Completed"


def test_cost_of_a_command_is_measured(server, prefect_home):
    """Whole builds are measured by `python -m benchmarks.orchestration` alone: each takes a minute of a core."""
    this_process = orchestration.PrefectServer(psutil.Process(), Path(prefect_home) / "server.log")
    busy = "import time\nwhile time.process_time() < 1: pass"
    cost = orchestration.measured([sys.executable, "-c", busy], this_process)
    assert 0.5 < cost["CPU-s, build"] < 2
    assert cost["seconds"] > 0.9
    assert cost["task runs"] == 0
    assert cost["MiB, flow"] > 1
    with pytest.raises(SystemExit, match="failed"):
        orchestration.measured([sys.executable, "-c", "raise SystemExit(3)"], this_process)
