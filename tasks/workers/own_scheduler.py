"""What our schedulers do that Dask's own do not: a preload of schedulers, on one machine or in containers.

The dashboard has no login, so any user of the machine may ask for its pages. It answers to names of this machine
alone: a page of the web whose name becomes our address (DNS rebinding) asks by its own name. It has no page that
connects to an address of the caller's choice, shows what workers log or run, gives them something to do, or leaves
something in the scheduler.

A worker that is stopped is started again soon after Dask's patience with it has ended.
"""

import socket
from http import HTTPStatus
from typing import Any

from tornado.web import ErrorHandler

from zyda_flows.tasks.workers.ports import LOOPBACK

NAMES = {LOOPBACK, "localhost", socket.gethostname().lower()}
# A plain GET of the first makes a scheduler log an error at each step of each task until its end. A GET of the next
# has each worker measure its memory, its disk and the network.
CLOSED = (
    "/eventstream",
    "/hardware",
    "/info/logs/",
    "/info/main/logs",
    "/info/call-stack",
    "/proxy/",
    "/sitemap.json",
)
TTL_CHECK, LOOK_SECONDS = "worker-ttl", 10  # between two looks; by default as long as the patience itself


async def dask_setup(scheduler: Any) -> None:
    """Have a scheduler refuse requests, and look often for silent workers."""
    app = scheduler.http_application
    handler_of = app.find_handler

    def find_handler(request: Any, **options: Any) -> Any:
        if status := refusal(request.host_name, request.path):
            return app.get_handler_delegate(request, ErrorHandler, {"status_code": status})
        return handler_of(request, **options)

    app.find_handler = find_handler
    if check := scheduler.periodic_callbacks.get(TTL_CHECK):
        check.callback_time = 1000 * LOOK_SECONDS


def refusal(host_name: str, path: str) -> HTTPStatus | None:
    """Return with which status a request is refused, or None where it is answered."""
    if host_name not in NAMES:
        return HTTPStatus.FORBIDDEN
    return HTTPStatus.NOT_FOUND if path.startswith(CLOSED) else None
