"""A PostgreSQL server of its own, as a fixture."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from flows.server.local_server import free_port


def programs():
    """Return the folder of PostgreSQL's programs, which Debian does not put on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    on_path = shutil.which("pg_ctl")
    if not found and not on_path:
        pytest.skip("needs PostgreSQL (apt-get install postgresql)")
    return found[-1].parent if found else Path(on_path).resolve().parent


@pytest.fixture(scope="session")
def postgres():
    """Give a function from a name to the address of a new database, as Prefect wants it."""
    binaries = programs()
    # PostgreSQL does not run as root.
    run_as = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="zyda-postgres-"))
    if run_as:
        shutil.chown(folder, "postgres")
    port = free_port()

    def run(program, *arguments):
        command = [*run_as, str(binaries / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=120)

    data, log = str(folder / "data"), str(folder / "log")
    run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync")
    run("pg_ctl", "-D", data, "-l", log, "-w", "-o", f"-p {port} -h 127.0.0.1 -k {folder}", "start")

    def database(name):
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", name)
        return f"postgresql+asyncpg://postgres@127.0.0.1:{port}/{name}"

    yield database
    run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    shutil.rmtree(folder)
