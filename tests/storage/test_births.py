"""Processes are identified independently of changes of the clock."""

import os
import subprocess
import sys

import psutil
import pytest

from zyda_flows.deployments.processes import ServiceProcess
from zyda_flows.tasks.storage.births import birth_of, is_process


@pytest.fixture
def clock_set_by(monkeypatch):
    """Return a function that changes the clock of the machine for psutil."""
    booted = psutil._psplatform.boot_time()

    def set_by(seconds):
        monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: booted + seconds)

    return set_by


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system keeps the times of birth")
@pytest.mark.parametrize("seconds", [-86_400, -5, 1, 5, 3_600])
def test_process_is_recognised_after_a_change_of_the_clock(clock_set_by, seconds):
    process = psutil.Process()
    birth, create_time = birth_of(process), process.create_time()
    part = ServiceProcess(name="me", pid=process.pid, birth=birth)
    clock_set_by(seconds)
    assert psutil.Process().create_time() != create_time
    assert birth_of(psutil.Process()) == birth
    assert part.runs
    assert not part.is_number_reused
    assert is_process(process.pid, birth)


def test_reused_process_number_is_detected():
    assert not is_process(os.getpid(), "another boot@1.00")
    assert ServiceProcess(name="me", pid=os.getpid(), birth="another boot@1.00").is_number_reused
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        birth = birth_of(psutil.Process(child.pid))
        assert is_process(child.pid, birth)
    assert not is_process(child.pid, birth)
