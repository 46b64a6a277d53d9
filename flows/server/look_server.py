"""The server of `zyda look`: on the loopback address, with a login of its own, for one sample."""

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
GRACE_SECONDS = 1  # for requests under way when the server ends; the one of `/alive` never ends by itself


def look_app(api: Api, page: str, sample: dict[str, Any], take: Callable[[bytes], None]) -> Starlette:
    """Make the application. take: is called with each judgement, as JSON; raises ValueError for what is none."""

    def is_ours(request: Request) -> bool:
        given = request.headers.get("authorization", "")
        return secrets.compare_digest(given.encode(), api.headers["Authorization"].encode())

    def show(_: Request) -> Response:
        return HTMLResponse(page, headers=HEADERS)  # nothing of the corpus is in it

    def give(request: Request) -> Response:
        return (
            JSONResponse(sample, headers=HEADERS)
            if is_ours(request)
            else Response(status_code=HTTPStatus.UNAUTHORIZED)
        )

    async def judge(request: Request) -> Response:
        if not is_ours(request):
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

    def live(request: Request) -> Response:
        if not is_ours(request):
            return Response(status_code=HTTPStatus.UNAUTHORIZED)
        return StreamingResponse(until_the_end(), headers=HEADERS)

    routes = [Route("/", show), Route("/sample", give), Route("/alive", live)]
    return Starlette(routes=[*routes, Route("/judgement", judge, methods=["POST"])])


async def until_the_end() -> AsyncIterator[bytes]:
    """Yield a byte, and end with the server: a page that waits for more sends nothing to its successor."""
    yield b"."
    await asyncio.Event().wait()


def serve(app: Starlette, listening: socket.socket) -> None:
    """Serve until the process is told to end."""
    import uvicorn  # late

    config = uvicorn.Config(
        app, log_level="critical", lifespan="off", timeout_graceful_shutdown=GRACE_SECONDS
    )
    uvicorn.Server(config).run(sockets=[listening])
