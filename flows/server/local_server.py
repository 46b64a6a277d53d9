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
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple, Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit

import certifi
import psutil  # type: ignore[import-untyped]

from flows.server.login import LOGIN, Api, configured_api, new_login
from tasks.errors import ZydaError
from tasks.workers.ports import LOOPBACK, free_port

START_SECONDS = 600  # on a machine with much else to do; a server that cannot start ends at once
ANSWER_SECONDS = 30
DRAIN_SECONDS = 10
AWAY_SECONDS = 20
SERVER_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
HOW_TO_SIGN_IN = 'for that of `zyda up`: eval "$(zyda up --env)"'
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
        path.chmod(0o700)
        for database in path.parent.glob("prefect.db*"):
            database.chmod(0o600)
        with TemporaryFile(dir=path):
            return path
    except OSError as error:
        told = f"{path}: {error.strerror}, and Prefect keeps its history there"
        raise NoServer(f"{told}: set PREFECT_HOME to a folder that can be written") from error


def configured_server() -> Api | None:
    """Return the server that Prefect's settings name, if any. Raises NoServer where it gives no answer to us."""
    api = configured_api(home())
    if api and not is_healthy(api.url):
        raise NoServer(f"{api.url}: no Prefect server answers there, and PREFECT_API_URL says it should")
    if api and refuses(api):
        raise NoServer(
            f"{api.url}: the Prefect server wants another login than {LOGIN} has: {HOW_TO_SIGN_IN}"
        )
    return api


def is_healthy(api_url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):  # nobody there, or no address at all
        return False


def refuses(api: Api) -> bool:
    """Say whether a server wants another login."""
    headers = {"Authorization": f"Basic {api.token}"} if api.login else {}
    request = urllib.request.Request(f"{api.url}/admin/version", headers=headers)  # noqa: S310
    try:
        urllib.request.urlopen(request, timeout=ANSWER_SECONDS).close()  # noqa: S310
    except HTTPError as error:
        return error.code == HTTPStatus.UNAUTHORIZED
    except (OSError, HTTPException):  # busy, or gone: not what is asked here
        return False
    return False


def servers_of_builds() -> list[Api]:
    """Return the servers that run on this machine for a build, or for `zyda up`.

    Only those whose history lies in our Prefect home: others are of somebody else, or of another project.
    """
    from prefect.settings import PREFECT_HOME

    return [
        Api(url=f"http://{LOOPBACK}:{process.info['cmdline'][-1]}/api", login=environment.get(SERVER_LOGIN))
        for process in psutil.process_iter(["cmdline"])
        if (process.info["cmdline"] or [])[1:4] == SERVER
        and Path((environment := environment_of(process)).get("PREFECT_HOME", "~/.prefect")).expanduser()
        == PREFECT_HOME.value()
    ]


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process; nothing where it is not ours to know."""
    try:
        return dict(process.environ())
    except (psutil.Error, OSError):
        return {}


def start_server(port: int, log: Path, *, guarded: bool = False) -> tuple[subprocess.Popen[bytes], Api]:
    """Start a server on the loopback address; return its process and its API.

    guarded: it ends with this process, however this one ends.
    """
    api = Api(url=f"http://{LOOPBACK}:{port}/api", login=new_login())
    settings = {
        SERVER_LOGIN: str(api.login),
        # Nobody else's page may read what it answers: its own asks it without leave.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": api.dashboard,
        "PREFECT_SERVER_UI_API_URL": api.url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        # To mark runs as late is work for the database at the very moment when the machine has too much.
        "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": "300",
        # Kept in memory, the leases of concurrency limits are forgotten by a server that is started
        # again, and a slot that a build held when the machine went down is never given back.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    }
    command = [sys.executable, *SERVER, "start", "--host", LOOPBACK, "--port", str(port)]
    guard = [sys.executable, "-m", "flows.server.die_with_parent"] if guarded else []
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603
            [*guard, *command], env={**os.environ, **settings}, stdout=output, stderr=output, cwd="/",
            stdin=subprocess.PIPE if guarded else subprocess.DEVNULL, start_new_session=True, umask=0o077,
        )  # fmt: skip
    return process, api


class Polled(Protocol):
    """A process, of which can be asked whether it runs."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...


def wait_until_healthy(process: Polled, url: str, log: Path) -> None:
    """Wait for a server's first answer. Raises NoServer with its last words.

    What answers has to be that process: while it starts, any user of the machine can take its port.
    """
    deadline = time.monotonic() + START_SECONDS
    while not (listens(process, urlsplit(url).port) and is_healthy(url)):
        if process.poll() is not None or time.monotonic() > deadline:
            words = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise NoServer(f"the Prefect server did not start (log: {log}): {' | '.join(words)}")
        time.sleep(0.2)


def listens(process: Polled, port: int | None) -> bool:
    """Say whether a process, or one that it started, listens on a port."""
    try:
        parent = psutil.Process(process.pid)
        connections = [
            one for member in (parent, *parent.children()) for one in member.net_connections("tcp")
        ]
    except psutil.Error:  # it has just ended
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)


def send_what_is_left() -> None:
    """Send the log lines and events that are still in this process, while the server is there."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=DRAIN_SECONDS)
    EventsWorker.drain_all(timeout=DRAIN_SECONDS)


class Server(NamedTuple):
    """A running server: its API, and what says whether it still is there.

    patience: seconds that it may be gone, to be started again by whoever runs it.
    """

    api: Api
    is_there: Callable[[], bool]
    patience: float


def clients_of(api: Api, home: Path) -> dict[str, str]:
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
    login = {LOGIN: api.login} if api.login else {}
    return {"PREFECT_API_URL": api.url, "PREFECT_API_SSL_CERT_FILE": str(path), **login}


@contextmanager
def prefect_server(meanwhile: Callable[[], object] = lambda: None) -> Iterator[Server]:
    """Give a running server.

    The server is the one that is configured, or one of our own, which keeps its history in Prefect's
    home and ends with the block, or with this process where that is killed.

    meanwhile: what to do while a server starts.
    """
    if api := configured_server():
        meanwhile()
        with used_by_all({LOGIN: api.login} if api.login else {}):
            yield Server(api, partial(serves, api), AWAY_SECONDS)
        return
    log = made_home() / "server.log"
    process, api = start_server(free_port(), log, guarded=True)
    try:
        meanwhile()
        wait_until_healthy(process, api.url, log)
        with used_by_all(clients_of(api, log.parent)):
            yield Server(api, lambda: process.poll() is None, 0)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@contextmanager
def used_by_all(clients: dict[str, str]) -> Iterator[None]:
    """Have this process and those that it starts use a server; send what is left before it ends.

    clients: what its clients have in their environment.
    """
    from prefect import settings

    before = {name: os.environ.get(name) for name in clients}
    os.environ.update(clients)
    try:
        with settings.temporary_settings({getattr(settings, name): value for name, value in clients.items()}):
            try:
                yield
            finally:  # also of a build that failed: at its exit the server would be gone
                if (url := settings.PREFECT_API_URL.value()) and is_healthy(url):
                    send_what_is_left()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})


def serves(api: Api) -> bool:
    """Say whether a server is there, and still takes our login: one that was started again has another."""
    return answers(api.url) and not refuses(api)


def answers(url: str) -> bool:
    """Say whether something listens at a URL; a server that is busy takes its time to answer."""
    place = urlsplit(url)
    try:
        port = place.port or (443 if place.scheme == "https" else 80)
        socket.create_connection((place.hostname or LOOPBACK, port), timeout=5).close()
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
