"""The senders of events and log lines of a process, one for each Prefect server that its runs belong to.

A Dask worker may run tasks of several servers: of one build after another, each with a server of its own, or of two
users. Prefect makes task runs out of events. It keeps one sender of events in a process, and one of log lines for
each URL, and both keep the login and the certificate of the run that started them.
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


class Server(NamedTuple):
    """A Prefect server as its clients know it."""

    url: str | None
    login: str | None
    certificate: str | None


class KeyedByServer(int):
    """A number with another hash in the runs of another server.

    Prefect finds a sender by the hash of its arguments, of which this is one.
    """

    def __hash__(self) -> int:
        return hash((int(self), server_of_run()))


RUNS = Counter[Server]()  # that are under way in this process, and the server of the last one
LOCK = threading.Lock()


def server_of_run() -> Server:
    """Return the server that the settings of this run name."""
    api = get_current_settings().api
    login = api.auth_string.get_secret_value() if api.auth_string else None
    return Server(api.url, login, str(api.ssl_cert_file) if api.ssl_cert_file else None)


def send_log_line(line: dict[str, Any]) -> None:
    APILogWorker.instance(server_of_run()).send(line)


@contextmanager
def senders_of_run() -> Iterator[None]:
    """Have what is sent in a block reach the server of this run, and stop the senders of servers before it.

    They stop when no run of another server is under way in this process: after they have sent what they have.
    """
    server = server_of_run()
    with LOCK:
        if RUNS and server not in RUNS and not RUNS.total():
            EventsWorker.drain_all(timeout=0)  # of log lines, too: Prefect keeps all senders together
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
