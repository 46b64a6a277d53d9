"""The tests of the GPU engine in numba's simulator, which must be enabled when a process starts."""

import os
import re
import subprocess
import sys

import pytest
from small_corpus import REPOSITORY

OVERFLOW = "ignore:overflow encountered:RuntimeWarning"  # expected in modular arithmetic


@pytest.mark.slow
def test_gpu_engine_equals_cpu_engine_bit_for_bit():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        OVERFLOW,
        "-p",
        "no:cacheprovider",
        "tests/gpu/test_on_device.py",
    ]
    simulated = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    process = subprocess.run(
        command, cwd=REPOSITORY, env=simulated, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout[-6000:] + process.stderr[-2000:]
    passed = re.search(r"(\d+) passed", process.stdout)
    assert passed
    assert int(passed[1]) >= 20
    assert "skipped" not in process.stdout
