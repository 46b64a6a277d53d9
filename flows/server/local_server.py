"""A Prefect server for a build on one machine, where none is configured."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import certifi
import psutil  # type: ignore[import-untyped]

from tasks.errors import ZydaError

HOST = "127.0.0.1"
START_SECONDS = 180
DRAIN_SECONDS = 10
AWAY_SECONDS = 20
SERVER = ["-m", "flows.server.prefect_server", "server"]


class NoServer(ZydaError):
    """The local server did not start."""


def home() -> Path:
    """Return the folder of what we keep beside Prefect's history."""
    from prefect.settings import PREFECT_HOME

    return Path(PREFECT_HOME.value()) / "zyda"


def made_home() -> Path:
    """Make that folder, where it is not there. Raises NoServer where it cannot be written."""
    path = home()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            return path
    except OSError as error:
        told = f"{path}: {error.strerror}, and Prefect keeps its history there"
        raise NoServer(f"{told}: set PREFECT_HOME to a folder that can be written") from error


def configured_url() -> str | None:
    """Return the address of the server that Prefect's settings name, if any."""
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value()


def is_healthy(api_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):  # nobody there, or no address at all
        return False


def servers_of_builds() -> list[str]:
    """Return the addresses of the servers that run on this machine for a build, or for `zyda up`.

    Only those whose history lies in our Prefect home: others are of somebody else, or of another project.
    """
    from prefect.settings import PREFECT_HOME

    return [
        f"http://{HOST}:{process.info['cmdline'][-1]}/api"
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[1:4] == SERVER and home_of(process) == PREFECT_HOME.value()
    ]


def home_of(process: psutil.Process) -> Path | None:
    """Return the Prefect home of a process, or None where it is not ours to know."""
    try:
        return Path(process.environ().get("PREFECT_HOME", "~/.prefect")).expanduser()
    except (psutil.Error, OSError):
        return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Say whether a server can listen on a port; connections of one that is gone are no hindrance."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def start_server(port: int, log: Path, *, guarded: bool = False) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server on the loopback address; return its process and the address of its API.

    guarded: it ends with this process, however this one ends.
    """
    url = f"http://{HOST}:{port}/api"
    quiet = {
        "PREFECT_SERVER_UI_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        # To mark runs as late is work for the database at the very moment when the machine has too much.
        "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": "300",
        # Kept in memory, the leases of concurrency limits are forgotten by a server that is started
        # again, and a slot that a build held when the machine went down is never given back.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    }
    command = [sys.executable, *SERVER, "start", "--host", HOST, "--port", str(port)]
    guard = [sys.executable, "-m", "flows.server.guard"] if guarded else []
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [*guard, *command], env={**os.environ, **quiet}, stdout=output, stderr=output,
            stdin=subprocess.PIPE if guarded else subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    return process, url


class Polled(Protocol):
    """A process, of which can be asked whether it runs."""

    def poll(self) -> int | None: ...


def wait_until_healthy(process: Polled, url: str, log: Path) -> None:
    """Wait for a server's first answer. Raises NoServer with its last words."""
    deadline = time.monotonic() + START_SECONDS
    while not is_healthy(url):
        if process.poll() is not None or time.monotonic() > deadline:
            words = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise NoServer(f"the Prefect server did not start (log: {log}): {' | '.join(words)}")
        time.sleep(0.2)


def send_what_is_left() -> None:
    """Send the log lines and events that are still in this process, while the server is there."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=DRAIN_SECONDS)
    EventsWorker.drain_all(timeout=DRAIN_SECONDS)


class Server(NamedTuple):
    """A running server: the address of its API, and what says whether it still is there.

    patience: seconds that it may be gone, to be started again by whoever runs it.
    """

    url: str
    is_there: Callable[[], bool]
    patience: float


def clients_of(url: str, home: Path) -> dict[str, str]:
    """Return what makes Prefect's clients use one of our servers.

    Each of them reads the certificates of all authorities of the web first, 35 ms of computing and more
    than a hundred times in a small build. Our servers speak plain http, for which one certificate does.

    home: the folder that keeps a file with that certificate.
    """
    path = home / "one-authority.pem"
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
    content = f"{first}{end}\n".encode()
    if not path.is_file() or path.read_bytes() != content:
        home.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(content)
        scratch.replace(path)  # by renaming: builds share the file, and none may read half of it
    return {"PREFECT_API_URL": url, "PREFECT_API_SSL_CERT_FILE": str(path)}


@contextmanager
def prefect_server(meanwhile: Callable[[], object] = lambda: None) -> Iterator[Server]:
    """Give a running server.

    The server is the one that is configured, or one of our own, which keeps its history in Prefect's
    home and ends with the block, or with this process where that is killed.

    meanwhile: what to do while a server starts.
    """
    if url := configured_url():
        if not is_healthy(url):
            raise NoServer(f"{url}: no Prefect server answers there, and PREFECT_API_URL says it should")
        meanwhile()
        yield Server(url, partial(answers, url), AWAY_SECONDS)
        return
    log = made_home() / "server.log"
    process, url = start_server(free_port(), log, guarded=True)
    try:
        meanwhile()
        wait_until_healthy(process, url, log)
        with used_by_all(clients_of(url, log.parent)):
            yield Server(url, lambda: process.poll() is None, 0)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def used_by_all(clients: dict[str, str]) -> Iterator[None]:
    """Have this process and those that it starts use a server; send what is left before it ends."""
    from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_URL, temporary_settings

    url, authority = clients["PREFECT_API_URL"], clients["PREFECT_API_SSL_CERT_FILE"]
    os.environ.update(clients)
    try:
        with temporary_settings({PREFECT_API_URL: url, PREFECT_API_SSL_CERT_FILE: authority}):
            try:
                yield
            finally:  # also of a build that failed: at its exit the server would be gone
                if is_healthy(url):
                    send_what_is_left()
    finally:
        for name in clients:
            os.environ.pop(name, None)


def answers(url: str) -> bool:
    """Say whether something listens at a URL; a server that is busy takes its time to answer."""
    place = urlsplit(url)
    try:
        port = place.port or (443 if place.scheme == "https" else 80)
        socket.create_connection((place.hostname or HOST, port), timeout=5).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
