"""The fixture that runs hostile input in a bounded child process."""

import os
import signal
import time

import numpy as np
import pytest
from bombs import run_bounded


def test_a_bounded_run_returns_and_raises_what_the_function_does():
    assert run_bounded(lambda number: number + 1, 2).result == 3
    with pytest.raises(KeyError, match="missing"):
        run_bounded({}.__getitem__, "missing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "bounds", "fault"),
    [
        (lambda: np.ones(5 << 27), {}, "ran out of memory"),
        (lambda: np.ones(1 << 26).sum(), {"resident": 1 << 29}, "MiB, expected at most 512 MiB"),
        (lambda: list(iter(lambda: time.process_time() < 99, False)), {"cpu_seconds": 1}, "SIGKILL|SIGXCPU"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), {}, "SIGTERM"),
    ],
)
def test_a_bounded_run_fails_if_a_bound_is_broken(function, bounds, fault):
    with pytest.raises(AssertionError, match=fault):
        run_bounded(function, **bounds)


def test_a_bounded_run_measures_memory_and_time():
    run = run_bounded(lambda: float(np.ones(1 << 25).sum()))
    assert run.result == 1 << 25
    assert run.peak > 1 << 28
    assert run.cpu_seconds > 0
