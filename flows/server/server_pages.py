"""Add to Prefect's server a page that signs a browser in, and headers that protect the dashboard.

The dashboard stores the login in the browser's storage for its address, and requests it if it is missing. The
sign-in page stores the login, so a link is sufficient.
"""

from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import Route

from zyda_flows.flows.server.login import SIGN_IN

# The new dashboard would ask a third party for the user's identity, and load scripts from there.
POLICY = "frame-ancestors 'none'; connect-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:"
OWN_HEADERS = [(b"x-frame-options", b"DENY"), (b"content-security-policy", POLICY.encode())]
# The page stores only a login that the server accepts, so no other site can sign its user out with a wrong one.
SIGN_IN_PAGE = """<!doctype html><title>Signing in</title><script>
const login = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
fetch("/api/admin/version", {headers: {Authorization: `Basic ${login}`}})
  .then((answer) => { if (answer.ok) localStorage.setItem("prefect-password", login); })
  .finally(() => location.replace("/runs"));
</script>"""
API = "/api/"  # for programs, which have the login for the address that they use
# Pages that load scripts from other sites, which could read the login; and the list of routes for these pages.
CDN_PAGES = ("/docs", "/redoc", "/openapi.json")


def add_own_pages(app: Any, page: str) -> None:
    """Add the sign-in page and the headers to Prefect's application, and remove pages with foreign scripts.

    page: the server's address for browsers.
    """
    removed = [Route(place, lambda _: HTMLResponse("", HTTPStatus.NOT_FOUND)) for place in CDN_PAGES]
    app.router.routes[:0] = [Route(SIGN_IN, lambda _: HTMLResponse(SIGN_IN_PAGE)), *removed]
    app.add_middleware(OwnPagesOnly, page=page)


class OwnPagesOnly:
    """Middleware: the dashboard's pages connect only to this server, and no foreign page can show them in a frame.

    In a frame, a person could click on a page without seeing it. The pages know the server by the address `page`:
    requests for a page by another name of this machine are redirected there.
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
