"""The senders of events and log lines of a process, separate for each Prefect server.

A Dask worker may run tasks of several servers: for consecutive builds with their own servers, or for two users.
Prefect creates task runs from events. A process has a sender of events, and a sender of log lines for each URL.
Both keep the login and the certificate of the run that started them.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from prefect.events.clients import PrefectEventsClient
from prefect.events.worker import EventsWorker, emit_events_to_cloud
from prefect.logging.handlers import APILogWorker, set_api_log_sink
from prefect.settings import get_current_settings

CHECKPOINT_EVERY = 700  # events: Prefect's own default


class ApiServer(NamedTuple):
    """A Prefect server: its URL, its login and the path of its certificate."""

    url: str | None
    login: str | None
    certificate: str | None


class KeyedByServer(int):
    """A number whose hash also depends on the server of the current run.

    Prefect looks up a sender by the hash of its arguments, and this number is an argument.
    """

    def __hash__(self) -> int:
        return hash((int(self), server_of_run()))


RUNS = Counter[ApiServer]()  # active runs in this process; keeps the server of the last run at 0
LOCK = threading.Lock()


def server_of_run() -> ApiServer:
    """Return the server in the settings of this run."""
    api = get_current_settings().api
    login = api.auth_string.get_secret_value() if api.auth_string else None
    return ApiServer(api.url, login, str(api.ssl_cert_file) if api.ssl_cert_file else None)


def send_log_line(line: dict[str, Any]) -> None:
    APILogWorker.instance(server_of_run()).send(line)


@contextmanager
def senders_of_run() -> Iterator[None]:
    """Send events and log lines within a block to the server of this run, and stop senders to other servers.

    The other senders stop after they have sent their queues, once this process has no active run of their servers.
    """
    server = server_of_run()
    with LOCK:
        if RUNS and server not in RUNS and not RUNS.total():
            # drains senders of log lines, too: Prefect stores them together
            EventsWorker.drain_all(timeout=0)
            RUNS.clear()
        RUNS[server] += 1
    set_api_log_sink(send_log_line)
    if emit_events_to_cloud():
        EventsWorker.set_client_override(None)
    else:
        EventsWorker.set_client_override(
            PrefectEventsClient, checkpoint_every=KeyedByServer(CHECKPOINT_EVERY)
        )
    try:
        yield
    finally:
        with LOCK:
            RUNS[server] -= 1
