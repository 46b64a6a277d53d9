"""Prefect's server for one machine: its application, served with TLS to programs and without TLS to browsers.

    python -m zyda_flows.flows.server.prefect_server

The environment variable ZYDA_SERVED_API holds the addresses, the login and the certificate. Programs know the
certificate and use the port with TLS. Browsers do not know it and use the other port.

SQLite resets a cursor when it is garbage-collected, and waits while another thread uses the cursor's connection.
That thread may wait for the write lock of the database, which a request of the main thread holds. If the main
thread collected garbage, both threads would wait until SQLite's timeout of a minute. So a separate thread
collects garbage.
"""

import asyncio
import gc
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from uvicorn import Config, Server

from zyda_flows.flows.server.local_server import SERVED_API
from zyda_flows.flows.server.login import Api
from zyda_flows.flows.server.server_database import change_stored_runs, lock_before_reading
from zyda_flows.flows.server.server_pages import add_own_pages
from zyda_flows.tasks.workers.ports import LOOPBACK
from zyda_flows.tasks.workers.tls import server_key_pair

SECONDS = 1  # between collections of young garbage
FULL = 60  # young collections before each full one
POLL_SECONDS = 0.05


def collect_garbage_in_a_thread() -> None:
    """Turn off automatic garbage collection, and collect in a new thread.

    The objects of imported modules are not searched, which would take half a second each minute.
    """
    gc.disable()
    gc.freeze()
    threading.Thread(target=collect_garbage, name="garbage", daemon=True).start()


def collect_garbage() -> None:
    """Collect garbage every second until the process ends."""
    turn = 0
    while True:
        time.sleep(SECONDS)
        turn += 1
        gc.collect(2 if turn % FULL == 0 else 1)


async def serve(app: Any, api: Api) -> None:
    """Serve an application on the two ports of `api`, until a signal ends the process.

    The port without TLS starts first: it runs the start-up of the application.
    """
    pages = Server(configure_app(app, int(urlsplit(api.dashboard).port or 0)))
    programs = Server(
        configure_app(
            app,
            int(urlsplit(api.url).port or 0),
            lifespan="off",
            ssl_context_factory=lambda *_: server_key_pair(
                Path(str(api.certificate)).parent
            ).server_context(),
        )
    )
    serving = asyncio.create_task(pages.serve())
    while not pages.started and not serving.done():
        await asyncio.sleep(POLL_SECONDS)
    if pages.started:
        # On a signal this server ends first, and then passes the signal on to the other server.
        await programs.serve()
    await serving


def configure_app(app: Any, port: int, **options: Any) -> Config:
    """Return the configuration of `prefect server start`, on a port of the loopback address."""
    from prefect.settings import get_current_settings

    server = get_current_settings().server
    return Config(
        app, host=LOOPBACK, port=port, timeout_keep_alive=server.api.keepalive_timeout,
        ws_ping_interval=server.api.websocket_ping_interval, ws_ping_timeout=server.api.websocket_ping_timeout,
        log_level=server.logging_level.lower(), **options,
    )  # fmt: skip


def main() -> None:
    """Run the server that the environment describes."""
    gc.disable()  # nothing is garbage while modules are imported
    from prefect.server.api.server import create_app

    api = Api.model_validate_json(os.environ[SERVED_API])
    change_stored_runs()
    with ExitStack() as stack:
        lock_before_reading(stack)
        app = create_app(final=True)
        add_own_pages(app, str(api.page))
        collect_garbage_in_a_thread()
        asyncio.run(serve(app, api))


if __name__ == "__main__":
    main()
