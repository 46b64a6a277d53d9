"""The server of `zyda look`: it listens on the loopback address, with its own login, for one sample."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from zyda_flows.flows.server.login import Api

HEADERS = {"X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
MOST_BYTES = 10_000  # of a judgement
GRACE_SECONDS = 1  # for open requests when the server ends; the request for `/alive` never ends before


def look_app(api: Api, page: str, sample: dict[str, Any], take: Callable[[bytes], None]) -> Starlette:
    """Return the application. take: called with each judgement as JSON; raises ValueError if it is invalid."""

    def is_authorized(request: Request) -> bool:
        authorization = request.headers.get("authorization", "")
        return secrets.compare_digest(authorization.encode(), api.headers["Authorization"].encode())

    def show(_: Request) -> Response:
        return HTMLResponse(page, headers=HEADERS)  # contains nothing of the corpus

    def sample_for(request: Request) -> Response:
        return (
            JSONResponse(sample, headers=HEADERS)
            if is_authorized(request)
            else Response(status_code=HTTPStatus.UNAUTHORIZED)
        )

    async def judge(request: Request) -> Response:
        if not is_authorized(request):
            return Response(status_code=HTTPStatus.UNAUTHORIZED)
        content = b""
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return Response(status_code=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            take(content)
        except ValueError:
            return Response(status_code=HTTPStatus.UNPROCESSABLE_ENTITY)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def keep_alive(request: Request) -> Response:
        if not is_authorized(request):
            return Response(status_code=HTTPStatus.UNAUTHORIZED)
        return StreamingResponse(until_the_end(), headers=HEADERS)

    routes = [Route("/", show), Route("/sample", sample_for), Route("/alive", keep_alive)]
    return Starlette(routes=[*routes, Route("/judgement", judge, methods=["POST"])])


async def until_the_end() -> AsyncIterator[bytes]:
    """Yield a byte, then wait for the server's end: an open page notices it and sends nothing to a later server."""
    yield b"."
    await asyncio.Event().wait()


def serve(app: Starlette, listening: socket.socket) -> None:
    """Serve until a signal ends the process."""
    import uvicorn  # late

    config = uvicorn.Config(
        app, log_level="critical", lifespan="off", timeout_graceful_shutdown=GRACE_SECONDS
    )
    uvicorn.Server(config).run(sockets=[listening])
