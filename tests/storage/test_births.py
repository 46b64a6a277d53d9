"""How a process is told from others, whatever the clock says."""

import os
import subprocess
import sys

import psutil
import pytest

from zyda_flows.deployments.processes import ServiceProcess
from zyda_flows.tasks.storage.births import birth_of, is_process


@pytest.fixture
def clock_set_by(monkeypatch):
    """Give a function that sets this machine's clock, as far as psutil sees it."""
    booted = psutil._psplatform.boot_time()

    def set_by(seconds):
        monkeypatch.setattr(psutil._psplatform, "boot_time", lambda: booted + seconds)

    return set_by


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system keeps the times of birth")
@pytest.mark.parametrize("seconds", [-86_400, -5, 1, 5, 3_600])
def test_processes_are_the_same_after_the_clock_was_set(clock_set_by, seconds):
    me = psutil.Process()
    birth, by_the_clock = birth_of(me), me.create_time()
    part = ServiceProcess(name="me", pid=me.pid, birth=birth)
    clock_set_by(seconds)
    assert psutil.Process().create_time() != by_the_clock
    assert birth_of(psutil.Process()) == birth
    assert part.runs
    assert not part.is_number_reused
    assert is_process(me.pid, birth)


def test_another_process_with_the_same_number_is_another():
    assert not is_process(os.getpid(), "another boot@1.00")
    assert ServiceProcess(name="me", pid=os.getpid(), birth="another boot@1.00").is_number_reused
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        birth = birth_of(psutil.Process(child.pid))
        assert is_process(child.pid, birth)
    assert not is_process(child.pid, birth)
