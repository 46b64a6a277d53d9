"""The process of a Prefect server that we start."""

import subprocess
import sys

FORM = """
import gc, threading, time, weakref
from flows.server import prefect_server

prefect_server.SECONDS = 0.05
prefect_server.collect_elsewhere()
class Ring: pass
ring, where = Ring(), []
ring.itself = ring
weakref.finalize(ring, lambda: where.append(threading.current_thread().name))
del ring
many = [[] for _ in range(100_000)]  # which would start a collection here
deadline = time.monotonic() + 20
while not where and time.monotonic() < deadline:
    time.sleep(0.05)
print(gc.isenabled(), *where)
"""


def test_garbage_is_collected_in_a_thread_that_nobody_waits_for():
    said = subprocess.run([sys.executable, "-c", FORM], capture_output=True, text=True, check=True)
    assert said.stdout == "False garbage\n"
