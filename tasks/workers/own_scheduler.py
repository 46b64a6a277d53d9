"""A preload for Dask schedulers, on one machine or in containers: protect the dashboard, and detect silent workers.

The dashboard has no login, so any user of the machine can request its pages. It answers only requests for host
names of this machine: a web page whose name resolves to our address (DNS rebinding) sends its own host name. The
preload closes pages that connect to an address from the request, that show logs or calls of workers, that give
workers tasks, or that leave state in the scheduler.

The scheduler checks every few seconds for silent workers, so that a stopped worker restarts soon after its timeout.
"""

import socket
from http import HTTPStatus
from typing import Any

from tornado.web import ErrorHandler

from zyda_flows.tasks.workers.ports import LOOPBACK

NAMES = {LOOPBACK, "localhost", socket.gethostname().lower()}
# A plain GET of /eventstream makes a scheduler log an error at each step of each task until its end. A GET of
# /hardware makes each worker measure its memory, its disk and the network.
CLOSED = (
    "/eventstream",
    "/hardware",
    "/info/logs/",
    "/info/main/logs",
    "/info/call-stack",
    "/proxy/",
    "/sitemap.json",
)
TTL_CHECK, LOOK_SECONDS = "worker-ttl", 10  # between two checks; Dask's default is the timeout of workers


async def dask_setup(scheduler: Any) -> None:
    """Make a scheduler refuse requests for closed pages, and check often for silent workers."""
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
    """Return the status with which a request is refused, or None if it is answered."""
    if host_name not in NAMES:
        return HTTPStatus.FORBIDDEN
    return HTTPStatus.NOT_FOUND if path.startswith(CLOSED) else None
