"""The process of a Prefect server that we start."""

import ssl
import subprocess
import sys
from pathlib import Path

from flows.server.local_server import clients_of
from flows.server.login import Api

SOMEWHERE = Api(url="http://127.0.0.1:1/api")

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


def test_file_of_one_authority_is_written_again_where_it_is_not_as_it_was(tmp_path):
    path = Path(clients_of(SOMEWHERE, tmp_path)["PREFECT_API_SSL_CERT_FILE"])
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole.replace(b"A", b"B", 1)):
        path.write_bytes(damaged)
        clients_of(SOMEWHERE, tmp_path)
        assert path.read_bytes() == whole
    ssl.create_default_context(cafile=str(path))
