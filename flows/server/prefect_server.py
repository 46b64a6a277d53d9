"""Prefect's command line, whose server also listens with TLS, signs browsers in and collects garbage elsewhere.

    python -m zyda_flows.flows.server.prefect_server server start ...

Programs use the port with TLS, since they know its certificate. Browsers, which do not, have one without.

The dashboard keeps the login in the memory that a browser has for its address, and asks for it where there is none.
The page puts it there, so that a link is enough.

A cursor of SQLite that is garbage is reset when it is collected, and that waits while another thread
uses the cursor's connection. In Prefect's server that thread may be waiting for the write lock of the
database, which a request holds that goes on in the main thread: where that is the one that collects,
all of them stand still until SQLite gives up after a minute. In another thread the wait harms nobody.
"""

import asyncio
import gc
import os
import threading
import time
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, RedirectResponse

from zyda_flows.flows.server.certificate import server_tls
from zyda_flows.flows.server.first_names import name_runs_by_recipe
from zyda_flows.flows.server.local_server import SERVED_API
from zyda_flows.flows.server.login import SIGN_IN, Api
from zyda_flows.tasks.workers.ports import LOOPBACK

# The new dashboard would ask a service of others whom it belongs to, and load scripts from there.
POLICY = "frame-ancestors 'none'; connect-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:"
OWN_HEADERS = [(b"x-frame-options", b"DENY"), (b"content-security-policy", POLICY.encode())]
# No other page can sign its user out by a wrong login here: what is kept has been tried.
SIGN_IN_PAGE = """<!doctype html><title>Signing in</title><script>
const login = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("/api/admin/version", {headers: {Authorization: `Basic ${login}`}})
  .then((answer) => { if (answer.ok) localStorage.setItem("prefect-password", login); })
  .finally(() => location.replace("/runs"));
</script>"""
API = "/api/"  # for programs, which have the login for the address that they ask
# Pages whose scripts come from another site, and could read the login; and the list of routes that they read.
CDN_PAGES = ("/docs", "/redoc", "/openapi.json")
SECONDS = 1  # between collections of what is young
FULL = 60  # of these, then one of everything


def collect_garbage_in_a_thread() -> None:
    """Collect no garbage in this thread any more, nor in any but a new one."""
    gc.disable()
    threading.Thread(target=collect_garbage, name="garbage", daemon=True).start()


def collect_garbage() -> None:
    """Collect garbage every second for as long as the process lives."""
    turn = 0
    while True:
        time.sleep(SECONDS)
        turn += 1
        gc.collect(2 if turn % FULL == 0 else 1)


class OwnPagesAlone:
    """Lets the dashboard's pages ask nobody but this server, and no page show one inside itself.

    There a person would click without seeing on what. The pages know the server by the address `page`: who asks for
    one by another name of this machine is sent there.
    """

    def __init__(self, app: Any, page: str) -> None:
        self.app, self.page = app, page
        self.other_name = f"localhost:{urlsplit(page).port}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_page = scope["type"] == "http" and not scope["path"].startswith(API)
        if is_page and (b"host", self.other_name) in scope["headers"]:
            query = f"?{scope['query_string'].decode()}" if scope["query_string"] else ""
            await RedirectResponse(f"{self.page}{scope['path']}{query}")(scope, receive, send)
            return

        async def send_with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *OWN_HEADERS]
            await send(message)

        await self.app(scope, receive, send_with_policy)


def sign_in_by_link(page: str) -> None:
    """Have the server that this process is about to make show the page that signs a browser in.

    page: where browsers find it.
    """
    from prefect.server.api import server
    from starlette.routing import Route

    create, prepared = server.create_app, set[Any]()

    def create_app(*arguments: Any, **options: Any) -> Any:
        app = create(*arguments, **options)
        # The server itself asks for its application again, for the actions of automations, and is given the same.
        if app not in prepared:
            prepared.add(app)
            gone = [Route(place, lambda _: HTMLResponse("", HTTPStatus.NOT_FOUND)) for place in CDN_PAGES]
            app.router.routes[:0] = [Route(SIGN_IN, lambda _: HTMLResponse(SIGN_IN_PAGE)), *gone]
            app.add_middleware(OwnPagesAlone, page=page)
        return app

    server.create_app = create_app


def lock_before_reading() -> None:
    """Have a transaction of SQLite that may write wait for the lock where it begins.

    One that has read before cannot wait: it fails at once where another has written since, and with it the click
    that it was for.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin = AioSqliteConfiguration.begin_transaction

    def begin_transaction(self: Any, session: Any, with_for_update: bool = False) -> Any:
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = begin_transaction  # type: ignore[method-assign]


def drop_job_variables() -> None:
    """Have the server that this process is about to be leave out what a run brings for the process that runs it.

    Prefect adds the variables `env` of a run to its pool's, whether the pool's template knows them or not.
    """
    from prefect.server.database import orm_models
    from prefect.server.models import flow_runs
    from prefect.server.schemas.core import FlowRun
    from sqlalchemy import event

    def without_variables(_: Any, __: Any, run: Any) -> None:
        run.job_variables = {}

    event.listen(orm_models.FlowRun, "before_insert", without_variables)
    # A run with an idempotency key goes past its class into its table.
    create = flow_runs.create_flow_run

    def create_flow_run(*arguments: Any, **options: Any) -> Any:
        for value in (*arguments, *options.values()):
            if isinstance(value, FlowRun):
                value.job_variables = {}
        return create(*arguments, **options)

    flow_runs.create_flow_run = create_flow_run


def listen_with_tls(api: Api) -> None:
    """Have the server that this process is about to be listen where an Api says, too."""
    from uvicorn import Server

    startup, port = Server.startup, int(urlsplit(api.url).port or 0)

    async def startup_with_tls(self: Any, sockets: Any = None) -> None:
        await startup(self, sockets)
        protocol = partial(
            self.config.http_protocol_class,
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state,
        )  # fmt: skip
        loop, tls = asyncio.get_running_loop(), server_tls(Path(str(api.certificate)))
        self.servers.append(await loop.create_server(protocol, LOOPBACK, port, ssl=tls))

    Server.startup = startup_with_tls  # type: ignore[method-assign]


def main() -> None:
    """Run `prefect` with the arguments of this process."""
    collect_garbage_in_a_thread()  # early: nothing is garbage while modules are imported
    from prefect.cli import app

    from zyda_flows.flows.server.run_states import give_states_messages  # late: it imports Prefect

    api = Api.model_validate_json(os.environ[SERVED_API])
    listen_with_tls(api)
    sign_in_by_link(str(api.page))
    lock_before_reading()
    name_runs_by_recipe()
    give_states_messages()
    drop_job_variables()
    app()


if __name__ == "__main__":
    main()
