"""`make gpu` without a GPU."""

import subprocess
import sys

import pytest
from small_corpus import REPOSITORY

from benchmarks.gpu import NO_GPU, PAGE, gpu

pytestmark = pytest.mark.skipif(bool(gpu()), reason="there is a GPU here")


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "status"), [([], 0), (["--look"], NO_GPU)])
def test_benchmark_without_a_gpu_exits_without_a_table(asked, status):
    before = PAGE.read_bytes()
    command = [sys.executable, "-m", "benchmarks.gpu", *asked]
    said = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert said.returncode == status, said.stderr
    assert "there is no GPU here" in said.stdout
    assert PAGE.read_bytes() == before


@pytest.mark.parametrize(("looks_with", "status", "said"), [
    ("sys.exit(3)", 0, []), ("sys.exit(1)", 2, []), ("sys.exit(127)", 2, []),
    ("sys.exit(0)", 0, ["make demo/sources", "pip install", "pytest -W default tests/gpu", "python -m benchmarks.gpu"]),
], ids=["no GPU", "fault", "no Python", "GPU"])  # fmt: skip
def test_make_gpu_distinguishes_a_missing_gpu_from_a_fault(tmp_path, looks_with, status, said):
    """A stub replaces the virtual environment's programs, and records how it was called."""
    called = tmp_path / "called"
    program = f"""#!{sys.executable}
import sys
if "--look" in sys.argv: {looks_with}
open({str(called)!r}, "a").write(" ".join(sys.argv).rpartition("/bin/")[2] + "\\n")
"""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("python", "pip", "pytest", "make"):
        (binaries / name).write_text(program)
        (binaries / name).chmod(0o755)
    own = [f"BIN={binaries}", f"MAKE={binaries}/make"]
    command = ["make", "gpu", "--assume-old=.venv/installed", *own]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    lines = called.read_text().splitlines() if called.exists() else []
    assert [line.split(" --")[0] for line in lines] == said
