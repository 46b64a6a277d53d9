"""Warnings while a build waits for workers of the Dask cluster."""

import threading
from types import SimpleNamespace

import pytest

from zyda_flows.flows.server import cluster_trouble

CORES, WITH_GPU = {"resources": {"CPU": 2}, "last_seen": 1}, {"resources": {"GPU": 1}, "last_seen": 1}


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([[CORES]], None),
        (
            [[]],
            "waiting for a worker of the Dask cluster at tcp://there: there has been none for 0 s; the build ends after 300s",
        ),
        (
            [[CORES, WITH_GPU], [CORES]],
            "waiting for a worker with a GPU of the Dask cluster at tcp://there: ",
        ),
        ([[CORES, WITH_GPU], [WITH_GPU]], None),
        ([[CORES, WITH_GPU], []], "waiting for a worker of the Dask cluster at tcp://there: "),
    ],
)
def test_missing_workers_are_warned_about(looks, expected, monkeypatch):
    warnings, _ = watched(looks, monkeypatch)
    assert len(warnings) == (expected is not None)
    assert all(sentence.startswith(expected) for sentence in warnings)


@pytest.mark.parametrize(("engine", "times"), [("auto", 0), ("gpu", 1), ("cpu", 0)])
def test_missing_gpus_are_warned_about_if_required(engine, times, monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", engine)
    warnings, _ = watched([[CORES]], monkeypatch)
    assert len(warnings) == times
    assert all(sentence.startswith("waiting for a worker with a GPU") for sentence in warnings)


def test_missing_gpus_are_ignored_with_engine_cpu(monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", "cpu")
    assert watched([[CORES, WITH_GPU], [CORES]], monkeypatch) == ([], [])


@pytest.mark.parametrize(
    ("looks", "engine", "times"),
    [
        ([[CORES], [CORES]], "auto", 0),
        ([[CORES], [CORES, WITH_GPU], [CORES, WITH_GPU]], "auto", 1),
        ([[CORES, WITH_GPU]], "gpu", 1),
        ([[CORES, WITH_GPU]], "cpu", 0),
    ],
)
def test_new_gpus_are_logged(looks, engine, times, monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", engine)
    _, logged = watched(looks, monkeypatch)
    assert len(logged) == times
    assert all("offer GPUs: stages that begin from now on" in text for text in logged)


def watched(looks, monkeypatch):
    """Return the warnings and the logged messages for these results of successive looks at the workers."""
    is_over, warnings, logged, remaining = threading.Event(), [], [], list(looks)

    def scheduler_info(n_workers):
        workers = remaining.pop(0)
        if not remaining:
            is_over.set()
        return {"workers": dict(enumerate(workers))}

    client = SimpleNamespace(
        status="running", scheduler_info=scheduler_info, scheduler=SimpleNamespace(address="tcp://there")
    )
    monkeypatch.setattr(cluster_trouble, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(cluster_trouble, "FIRST_WARNING_SECONDS", 0)
    monkeypatch.setattr(cluster_trouble, "warn_user", warnings.append)
    monkeypatch.setattr(cluster_trouble, "get_run_logger", lambda: SimpleNamespace(info=logged.append))
    cluster_trouble.watch_workers(client, is_over)
    return warnings, logged


def test_silent_worker_is_reported_once_for_each_silence():
    silence = cluster_trouble.SilentWorkers()

    def begun(now, last_seen):
        return list(
            silence.begun(
                {"tcp://stopped": {"last_seen": last_seen}, "tcp://living": {"last_seen": now}}, now
            )
        )

    assert [begun(now, 1000) for now in (0, 30, 59)] == [
        [],
        [],
        [],
    ]  # independent of the clock of the scheduler
    [sentence] = begun(61, 1000)
    assert sentence.startswith("the worker tcp://stopped has not answered for 61 s: it is stopped")
    assert begun(200, 1000) == begun(300, 1001) == begun(330, 1001) == []
    assert begun(361, 1001)
