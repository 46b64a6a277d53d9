"""What is said while a build waits for workers."""

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
def test_workers_that_are_missing_are_said(looks, expected, monkeypatch):
    said, _ = watched(looks, monkeypatch)
    assert len(said) == (expected is not None)
    assert all(sentence.startswith(expected) for sentence in said)


@pytest.mark.parametrize(("engine", "times"), [("auto", 0), ("gpu", 1), ("cpu", 0)])
def test_gpus_are_waited_for_where_they_must_be(engine, times, monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", engine)
    said, _ = watched([[CORES]], monkeypatch)
    assert len(said) == times
    assert all(sentence.startswith("waiting for a worker with a GPU") for sentence in said)


def test_gpus_that_nobody_asked_for_are_not_missed(monkeypatch):
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
def test_gpus_that_come_are_said(looks, engine, times, monkeypatch):
    monkeypatch.setenv("ZYDA_ENGINE", engine)
    _, told = watched(looks, monkeypatch)
    assert len(told) == times
    assert all("offer GPUs: stages that begin from now on" in text for text in told)


def watched(looks, monkeypatch):
    """Return what is said aloud and what the log is told, when workers are looked for so often."""
    is_over, said, told, left = threading.Event(), [], [], list(looks)

    def scheduler_info(n_workers):
        found = left.pop(0)
        if not left:
            is_over.set()
        return {"workers": dict(enumerate(found))}

    client = SimpleNamespace(
        status="running", scheduler_info=scheduler_info, scheduler=SimpleNamespace(address="tcp://there")
    )
    monkeypatch.setattr(cluster_trouble, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(cluster_trouble, "FIRST_WARNING_SECONDS", 0)
    monkeypatch.setattr(cluster_trouble, "warn_user", said.append)
    monkeypatch.setattr(cluster_trouble, "get_run_logger", lambda: SimpleNamespace(info=told.append))
    cluster_trouble.watch_workers(client, is_over)
    return said, told


def test_worker_that_does_not_answer_is_said_once_and_again_when_it_stops_again():
    silence = cluster_trouble.Silence()

    def begun(now, last_seen):
        return list(
            silence.begun(
                {"tcp://stopped": {"last_seen": last_seen}, "tcp://living": {"last_seen": now}}, now
            )
        )

    assert [begun(now, 1000) for now in (0, 30, 59)] == [[], [], []]  # whatever the scheduler's clock says
    [sentence] = begun(61, 1000)
    assert sentence.startswith("the worker tcp://stopped has not answered for 61 s: it is stopped")
    assert begun(200, 1000) == begun(300, 1001) == begun(330, 1001) == []
    assert begun(361, 1001)
