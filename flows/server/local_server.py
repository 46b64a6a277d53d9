"""Start a Prefect server for a build on one machine if no server is configured."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple, Protocol

import psutil  # type: ignore[import-untyped]

from zyda_flows.flows.server.health import is_healthy, is_usable, refuses_login
from zyda_flows.flows.server.login import LOGIN, Api, configured_api, new_login, use_api
from zyda_flows.flows.server.sessions import start_session
from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.workers.ports import LOOPBACK, free_port
from zyda_flows.tasks.workers.tls import server_key_pair

START_SECONDS = 600  # allows for a busy machine; a server that cannot start ends at once
DRAIN_SECONDS = 10
AWAY_SECONDS = 20
VACUUM = "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED"
BLOCK_TYPES = ("PREFECT_SERVER_REGISTER_BLOCKS_ON_START", "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION")
SERVED_API = "ZYDA_SERVED_API"  # environment variable of a server of this project, with its Api as JSON
HOW_TO_SIGN_IN = 'for the server of `zyda up`: eval "$(zyda up --env)"'
SERVER = ["-m", "zyda_flows.flows.server.prefect_server"]


class NoServer(ZydaError):
    """The local server did not start."""


def home() -> Path:
    """Return the folder for files of this project in Prefect's home, next to Prefect's history."""
    from prefect.settings import PREFECT_HOME

    return Path(PREFECT_HOME.value()) / "zyda"


def make_home() -> Path:
    """Create the folder `home()` if it does not exist. Raises NoServer if it is not writable."""
    path = home()
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        for database in path.parent.glob("prefect.db*"):
            database.chmod(0o600)
        with TemporaryFile(dir=path):
            return path
    except OSError as error:
        raise NoServer(
            f"{path}: {error.strerror}; Prefect stores its history there; set PREFECT_HOME to a writable folder"
        ) from error


def configured_server() -> Api | None:
    """Return the server in Prefect's settings, if any. Raises NoServer if it is unhealthy or refuses the login."""
    api = configured_api(home())
    if api and not is_healthy(api):
        raise NoServer(f"{api.url}: no Prefect server answers at this PREFECT_API_URL")
    if api and refuses_login(api):
        raise NoServer(f"{api.url}: the Prefect server refuses the login in {LOGIN}; {HOW_TO_SIGN_IN}")
    return api


def running_servers() -> list[Api]:
    """Return the servers that run on this machine for a build, or for `zyda up`.

    The list has only servers of this user whose history is in the configured Prefect home. Other servers belong to
    other users, even if root could read their environment, or to another project.
    """
    from prefect.settings import PREFECT_HOME

    return [
        Api.model_validate_json(environment[SERVED_API])
        for process in psutil.process_iter(["cmdline", "uids"])
        if (process.info["cmdline"] or [])[1:3] == SERVER
        and process.info["uids"] is not None
        and process.info["uids"].real == os.getuid()
        and SERVED_API in (environment := environment_of(process))
        and Path(environment.get("PREFECT_HOME", "~/.prefect")).expanduser() == PREFECT_HOME.value()
    ]


def environment_of(process: psutil.Process) -> dict[str, str]:
    """Return the environment of a process; empty if it cannot be read."""
    try:
        return dict(process.environ())
    except (psutil.Error, OSError):
        return {}


def start_server(
    port: int, log: Path, *, api_port: int | None = None, guarded: bool = False
) -> tuple[subprocess.Popen[bytes], Api]:
    """Start a server on the loopback address; return its process and its API.

    port: port for browsers.
    api_port: port for programs, with TLS; a free port by default.
    log: path of its log, in whose folder its certificate is stored.
    guarded: whether the server ends with this process, even if this process is killed.
    """
    key_pair = server_key_pair(log.parent)
    key_pair.ensure()
    api = Api(
        url=f"https://{LOOPBACK}:{api_port or free_port()}/api", login=new_login(),
        certificate=str(key_pair.certificate), page=f"http://{LOOPBACK}:{port}",
    )  # fmt: skip
    settings = {
        **retention(),
        **(without_block_types() if guarded else {}),
        SERVED_API: api.model_dump_json(),
        "PREFECT_SERVER_API_AUTH_STRING": str(api.login),
        # Pages of other origins may not read answers; the dashboard's own pages need no permission.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": api.dashboard,
        "PREFECT_SERVER_UI_API_URL": f"{api.dashboard}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_SERVER_LEVEL": "WARNING",
        # Marking runs as late would load the database just when the machine is overloaded.
        "PREFECT_SERVER_SERVICES_LATE_RUNS_AFTER_SECONDS": "300",
        # With leases in memory, a restarted server would forget them, and a slot of a concurrency limit that a
        # build held when the machine stopped would never be released.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    }
    guard = [sys.executable, "-m", "zyda_flows.flows.server.die_with_parent"] if guarded else []
    command = [*guard, sys.executable, *SERVER]
    process = start_session(command, settings, log, has_input=guarded, umask=0o077)
    return process, api


def retention() -> dict[str, str]:
    """Return the settings by which a server deletes old runs with their logs and artifacts.

    The user's own settings take precedence. Prefect deletes old events by default. docs/operations.md documents
    both ages.
    """
    from prefect.settings import get_current_settings

    is_chosen = "enabled" in get_current_settings().server.services.db_vacuum.model_fields_set
    return {} if is_chosen else {VACUUM: "events,flow_runs"}


def without_block_types() -> dict[str, str]:
    """Return the settings by which the server of one build does not register Prefect's types of blocks.

    A build uses no blocks. The registration imports Prefect's integrations, which takes a second of CPU time. The
    user's own settings take precedence.
    """
    from prefect.settings import get_current_settings

    is_chosen = "register_blocks_on_start" in get_current_settings().server.model_fields_set
    return {} if is_chosen else dict.fromkeys(BLOCK_TYPES, "false")


class Pollable(Protocol):
    """A process that can be polled for its end."""

    def poll(self) -> int | None: ...


def wait_until_healthy(process: Pollable, api: Api, log: Path) -> None:
    """Wait for a server's first answer. Raises NoServer with the last lines of its log."""
    deadline = time.monotonic() + START_SECONDS
    while not is_healthy(api):
        if process.poll() is not None or time.monotonic() > deadline:
            last_lines = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise NoServer(f"the Prefect server did not start (log: {log}): {' | '.join(last_lines)}")
        time.sleep(0.2)


def flush_logs_and_events() -> None:
    """Send the queued log lines and events of this process while the server runs."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=DRAIN_SECONDS)
    EventsWorker.drain_all(timeout=DRAIN_SECONDS)


class LocalServer(NamedTuple):
    """A running server: its API, and a function that returns whether it still runs.

    patience: seconds without the server that a build tolerates, during which it may be restarted.
    """

    api: Api
    is_there: Callable[[], bool]
    patience: float


@contextmanager
def prefect_server(meanwhile: Callable[[], object] = lambda: None) -> Iterator[LocalServer]:
    """Yield a running server.

    It is the configured server, or a new server, which stores its history in Prefect's home and ends with the
    block, or with this process if it is killed.

    meanwhile: called while a new server starts, with its address in the environment.
    """
    if api := configured_server():
        with export_api(api):
            meanwhile()
            yield LocalServer(api, partial(is_usable, api), AWAY_SECONDS)
        return
    log = make_home() / "server.log"
    process, api = start_server(free_port(), log, guarded=True)
    with process:
        try:
            with export_api(api):
                meanwhile()
                wait_until_healthy(process, api, log)
                yield LocalServer(api, lambda: process.poll() is None, patience=0)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def export_api(api: Api) -> Iterator[None]:
    """Make this process and its children use a server; before the end, send queued log lines and events."""
    before = {name: os.environ.get(name) for name in api.clients}
    os.environ.update(api.clients)
    try:
        with use_api(api):
            try:
                yield
            finally:  # also if the build failed, because the server has ended when the process exits
                if is_healthy(api):
                    flush_logs_and_events()
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})
