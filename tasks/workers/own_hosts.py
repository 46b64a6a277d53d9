"""Dask's dashboard answers to this machine's names alone: a preload of schedulers that listen on it.

A page whose name becomes our address (DNS rebinding) asks by its own name, which browsers tell the server.
"""

from http import HTTPStatus
from typing import Any

from tornado.web import ErrorHandler

from tasks.workers.ports import LOOPBACK

NAMES = {LOOPBACK, "localhost"}


async def dask_setup(scheduler: Any) -> None:
    """Have a scheduler refuse what is asked by another name."""
    app = scheduler.http_application
    handler_of = app.find_handler

    def find_handler(request: Any, **options: Any) -> Any:
        if request.host_name not in NAMES:
            return app.get_handler_delegate(request, ErrorHandler, {"status_code": HTTPStatus.FORBIDDEN})
        return handler_of(request, **options)

    app.find_handler = find_handler
