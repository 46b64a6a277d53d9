"""Ways to start builds in processes of their own, to wait for what they do, and to look at their runs."""

import os
import re
import subprocess
import sys
import time

import psutil
from prefect.client.schemas.filters import FlowRunFilter
from small_corpus import COMMAND

from tasks.recipe.reading import load_recipe


def start_build(path, environment):
    """Start a build that can be killed with all that it starts."""
    return subprocess.Popen(
        [*COMMAND, "build", path],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def using(server, **environment):
    """Return the environment of a terminal in which a Prefect server is named."""
    return {**os.environ, "PREFECT_API_URL": server, **environment}


def wait_for(condition, seconds=120, process=None):
    """Wait until something holds; a process that ends before is shown with what it said."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            said = process.communicate()
            assert condition(), f"ended with {process.returncode}: {said}"
            return
        time.sleep(0.05)
    assert condition()


def is_under_way(corpus):
    """Say whether a build has written anything; the recipe it reads is not written again meanwhile."""
    return bool(load_recipe(str(corpus.path)).folder.files("work/ingest"))


STRANGER = """
import os, sys, distributed
address, *files = sys.argv[1:]
names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
own = distributed.Security.temporary if files == ["own"] else distributed.Security
security = own(**({} if files == ["own"] else dict(zip(names, files))))
with distributed.Client(address, security=security, timeout=5) as client:
    print(client.submit(os.getuid).result(10))
"""


def code_run_by(address, *files):
    """Have Dask's scheduler at an address run code, from a process of its own; return what came of it.

    files: certificates and key that it shows, or `own` for those that it makes itself.
    """
    command = [sys.executable, "-c", STRANGER, address, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def is_refused(said):
    return said.returncode == 1 and not said.stdout and re.search(r"^[\w.]*Error: ", said.stderr, re.M)


def family_of(process):
    """Return the processes of a build: its server, its guard, its workers."""
    return psutil.Process(process.pid).children(recursive=True)


def task_runs_of(client, flow_run_id):
    return client.read_task_runs(flow_run_filter=FlowRunFilter(id={"any_": [flow_run_id]}), limit=200)
