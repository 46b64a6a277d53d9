"""`make gpu` where there is no GPU."""

import subprocess
import sys

import pytest
from small_corpus import REPOSITORY

from benchmarks.gpu import PAGE, gpu

pytestmark = pytest.mark.skipif(bool(gpu()), reason="there is a GPU here")


@pytest.mark.parametrize(("asked", "status"), [([], 0), (["--look"], 1)])
def test_it_says_so_and_writes_no_table(asked, status):
    before = PAGE.read_bytes()
    command = [sys.executable, "-m", "benchmarks.gpu", *asked]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == status, said.stderr
    assert "there is no GPU here" in said.stdout
    assert PAGE.read_bytes() == before
