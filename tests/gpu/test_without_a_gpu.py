"""`make gpu` and `make gpu-build` on machines without a GPU."""

import subprocess
import sys

import pytest
from small_corpus import REPOSITORY

from benchmarks.gpu import NO_GPU, PAGE, gpu

pytestmark = pytest.mark.skipif(bool(gpu()), reason="needs a machine without a GPU")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "status"),
    [(["gpu"], 0), (["gpu", "--bare"], 0), (["gpu", "--look"], NO_GPU), (["gpu_build"], 0)],
)
def test_missing_gpu_is_reported_and_no_table_is_written(options, status):
    before = PAGE.read_bytes()
    command = [sys.executable, "-m", f"benchmarks.{options[0]}", *options[1:]]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    assert "no GPU" in ended.stdout
    assert PAGE.read_bytes() == before


CALLS = ["make demo/sources", "pip install", "pytest -W default tests/gpu", "python -m benchmarks.gpu"]


@pytest.mark.parametrize(
    ("look", "status", "calls"),
    [("sys.exit(3)", 0, []), ("sys.exit(1)", 2, []), ("sys.exit(127)", 2, []), ("sys.exit(0)", 0, CALLS)],
    ids=["no GPU", "fault", "no Python", "GPU"],
)
def test_make_gpu_continues_only_with_a_gpu_and_fails_on_a_fault(tmp_path, look, status, calls):
    """A script replaces each program of the virtual environment, and logs its arguments."""
    log = tmp_path / "log"
    program = f"""#!{sys.executable}
import sys
if "--look" in sys.argv: {look}
open({str(log)!r}, "a").write(" ".join(sys.argv).rpartition("/bin/")[2] + "\\n")
"""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name in ("python", "pip", "pytest", "make"):
        (binaries / name).write_text(program)
        (binaries / name).chmod(0o755)
    variables = [f"BIN={binaries}", f"MAKE={binaries}/make"]
    command = ["make", "gpu", "--assume-old=.venv/installed", *variables]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ended.returncode == status, ended.stderr
    lines = log.read_text().splitlines() if log.exists() else []
    assert [line.split(" --")[0] for line in lines] == calls
