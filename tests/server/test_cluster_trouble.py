"""What is said while a build waits for workers."""

import threading
from types import SimpleNamespace

import pytest

from flows.server import cluster_trouble

CORES, WITH_GPU = {"resources": {"CPU": 2}}, {"resources": {"GPU": 1}}


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ([[CORES]], None),
        (
            [[]],
            "waiting for a worker of the Dask cluster at tcp://there: there has been none for 0 s; the build ends ",
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
    is_over, said, left = threading.Event(), [], list(looks)

    def scheduler_info(n_workers):
        found = left.pop(0)
        if not left:
            is_over.set()
        return {"workers": dict(enumerate(found))}

    client = SimpleNamespace(
        status="running", scheduler_info=scheduler_info, scheduler=SimpleNamespace(address="tcp://there")
    )
    monkeypatch.setattr(cluster_trouble, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(cluster_trouble, "FIRST_WORD", 0)
    monkeypatch.setattr(cluster_trouble, "warn_aloud", said.append)
    cluster_trouble.watch_workers(client, is_over)
    assert len(said) == (expected is not None)
    assert all(sentence.startswith(expected) for sentence in said)
