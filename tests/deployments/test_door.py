"""Access to the services of `zyda up`: only its user can read data and start runs."""

import asyncio
import http.server
import json
import socket
import stat
import threading
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import websockets
from browser import new_page
from patience import HANG
from prefect.client.orchestration import get_client
from small_corpus import zyda

from zyda_flows.deployments.stack import load_stack
from zyda_flows.flows.server.health import refuses_login
from zyda_flows.flows.server.login import SIGN_IN, Api, saved_api

pytestmark = [pytest.mark.early(1), pytest.mark.xdist_group("stack")]

OPEN = {("GET", "/health"), ("GET", "/ready")}  # health checks without data
# Requests of a malicious web page: list deployments and runs, and set a variable.
ATTACK = """
async (api) => {
  const ask = (path, content) => fetch(api + path, {
    method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify(content),
  }).then((answer) => answer.status, (error) => String(error));
  return [await ask("/deployments/filter", {}), await ask("/flow_runs/filter", {}),
          await ask("/variables/", {name: "x", value: "y"})];
}
"""
SOCKETS = [
    "/events/in",
    "/events/out",
    "/logs/out",
    "/task_runs/subscriptions/scheduled",
    "/work_pools/zyda/workers/connect",
]


@pytest.fixture(scope="module")
def api(stack):
    return saved_api(Path(stack["PREFECT_HOME"], "zyda"))


def pages_api(api):
    """Return the API address for the dashboard's pages. Programs use another address, with TLS."""
    return f"{api.dashboard}/api"


def status_of(url, method="GET", content=None, **headers):
    request = urllib.request.Request(
        url,
        content and json.dumps(content).encode(),
        {"content-type": "application/json", **headers},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=HANG) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_all_routes_of_the_api_require_the_login(api):
    from prefect.server.api.server import create_api_app

    routes = {
        (method, path.removeprefix("/api"))
        for path, methods in create_api_app().openapi()["paths"].items()
        for method in map(str.upper, methods)
    }
    assert len(routes) > 150
    open_routes = {
        (method, path)
        for method, path in routes
        if status_of(
            pages_api(api) + path.replace("{", "").replace("}", ""), method, {} if method != "GET" else None
        )
        != 401
    }
    assert open_routes == OPEN & routes


@pytest.mark.parametrize("login", [None, "", ":", "zyda:", "zyda:guessed", "admin:pass"])
def test_wrong_logins_are_refused(api, login):
    assert refuses_login(Api(url=pages_api(api), login=login))
    assert refuses_login(api.model_copy(update={"login": login}))
    assert not refuses_login(api)


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("protocols", [None, ["prefect"]])
def test_sockets_are_closed_without_the_login(api, path, protocols):
    async def talk():
        url = pages_api(api).replace("http://", "ws://") + path
        async with websockets.connect(url, subprotocols=protocols, origin="http://evil.example") as socket:
            await socket.send(json.dumps({"type": "auth", "token": "guessed"}))
            return await asyncio.wait_for(socket.recv(), HANG)

    with pytest.raises((websockets.exceptions.ConnectionClosed, websockets.exceptions.InvalidStatus)):
        asyncio.run(talk())


def test_run_of_a_deployment_cannot_set_command_environment_or_folder(stack, tmp_path):
    with get_client(sync_client=True) as client:
        build = client.read_deployment_by_name("build/build")
        for name, value in {
            "command": f"touch {tmp_path}/ran", "env": {"PYTHONPATH": str(tmp_path)}, "working_dir": str(tmp_path),
        }.items():  # fmt: skip
            with pytest.raises(Exception, match=f"'{name}' was unexpected"):
                client.create_flow_run_from_deployment(
                    build.id, parameters={"recipe": "x.yaml"}, job_variables={name: value}
                )
        template = client.read_work_pool("zyda").base_job_template
    assert template["variables"]["properties"] == {}
    assert "{{" not in json.dumps(template)  # a run cannot set any value
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("key", [None, "once"])
def test_job_variables_of_a_run_are_dropped(stack, api, key):
    """The template of the work pool does not restrict runs that are created without a deployment."""
    headers = {"authorization": f"Basic {api.token}", "content-type": "application/json"}

    def post(path, content):
        request = urllib.request.Request(f"{pages_api(api)}{path}", json.dumps(content).encode(), headers)
        with urllib.request.urlopen(request, timeout=HANG) as answer:
            return json.loads(answer.read())

    flow = post("/flows/", {"name": "brings"})["id"]
    variables = {"env": {"PYTHONPATH": "/somewhere"}, "command": "touch x", "working_dir": "/"}
    flow_run = {"flow_id": flow, "idempotency_key": key, "state": {"type": "PENDING"}}
    run = post("/flow_runs/", {**flow_run, "job_variables": variables})
    (stored_run,) = post("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run["id"]]}}})
    assert stored_run["job_variables"] in ({}, None)


@pytest.mark.parametrize("page", ["docs", "redoc", "openapi.json"])
def test_no_page_loads_scripts_of_another_site(api, page):
    assert status_of(f"{api.dashboard}/{page}") == 404


def test_files_of_workers_and_prefect_are_private_to_the_user(stack, monkeypatch):
    monkeypatch.setenv("PREFECT_HOME", stack["PREFECT_HOME"])
    parts = load_stack().parts
    scheduler, workers = (psutil.Process(parts[name].pid) for name in ("scheduler", "dask-workers"))
    assert scheduler.environ()["DASK_TEMPORARY_DIRECTORY"] == workers.environ()["DASK_TEMPORARY_DIRECTORY"]
    folder = Path(workers.environ()["DASK_TEMPORARY_DIRECTORY"])
    assert list(folder.rglob("worker-*"))
    for private in (folder, Path(stack["PREFECT_HOME"], "zyda"), Path(stack["PREFECT_HOME"], "prefect.db")):
        assert stat.S_IMODE(private.stat().st_mode) & 0o077 == 0


@pytest.fixture
def page_of_another_site():
    """Yield the port of another web site with a single page."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>evil</title>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield site.server_port
        site.shutdown()


def test_dashboard_cannot_be_framed(api):
    for path in ("/runs", "/v2/runs", SIGN_IN, "/api/health"):
        request = urllib.request.Request(f"{api.dashboard}{path}", headers={"Accept": "text/html"})
        with urllib.request.urlopen(request) as answer:
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"].split("; ")


def test_page_of_another_site_cannot_use_the_api(api, browser_with_local_names, page_of_another_site):
    page = new_page(browser_with_local_names)
    page.goto(f"http://evil.example:{page_of_another_site}/")
    assert page.evaluate(ATTACK, pages_api(api)) == ["TypeError: Failed to fetch"] * 3


def test_dns_rebinding_cannot_use_the_api(api, browser_with_local_names):
    """DNS rebinding: the browser treats the server as the origin of the page."""
    port = api.dashboard.rpartition(":")[2]
    page = new_page(browser_with_local_names)
    page.goto(f"http://evil.example:{port}/api/health")
    assert page.evaluate(ATTACK, f"http://evil.example:{port}/api") == [401] * 3


def test_dasks_dashboard_rejects_other_origins(stack, monkeypatch):
    monkeypatch.setenv("PREFECT_HOME", stack["PREFECT_HOME"])
    address = load_stack().parts["scheduler"].dashboard

    ours, port = address.removesuffix("/status"), urlsplit(address).port
    evil = f"evil.example:{port}"

    async def answer_to(origin, path, **options):
        try:
            async with websockets.connect(
                f"{ours.replace('http://', 'ws://')}{path}", origin=origin, **options
            ):
                return 101
        except websockets.exceptions.InvalidStatus as error:
            return error.response.status_code

    as_bokeh = {"subprotocols": ["bokeh", "token"]}
    assert asyncio.run(answer_to("http://evil.example", "/status/ws", **as_bokeh)) == 403
    assert asyncio.run(answer_to(ours, "/status/ws", **as_bokeh)) == 101
    assert asyncio.run(answer_to(ours, "/eventstream")) == 404
    # After DNS rebinding, a page still sends its own host name.
    for path, upgrade in (("/status", ""), ("/eventstream", UPGRADE), ("/status/ws", UPGRADE)):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = f"GET {path} HTTP/1.1\r\nHost: {evil}\r\nOrigin: http://{evil}\r\n{upgrade}\r\n"
            connection.sendall(head.encode())
            answer = connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 403 "), answer


UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


def test_pages_of_the_dashboard_contact_no_other_host(api, page):
    """The pages of the new dashboard could contact a service that counts users."""
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(api.link)
    page.wait_for_url("**/runs")
    for path in ("/", "/deployments", "/v2/deployments"):
        for name in ("127.0.0.1", "localhost"):
            page.goto(f"{api.dashboard}{path}".replace("127.0.0.1", name))
            page.wait_for_load_state("networkidle")
            assert urlsplit(page.url).hostname == "127.0.0.1"
    port = urlsplit(api.dashboard).port
    assert hosts - {""} <= {f"127.0.0.1:{port}", f"localhost:{port}"}


def test_link_signs_in_and_other_pages_ask_for_the_login(api, page, tmp_path):
    page.goto(f"{api.dashboard}/deployments")
    page.get_by_placeholder("Enter password").or_(page.locator("input[type=password]")).first.wait_for()
    page.screenshot(path=tmp_path / "asked.png")
    page.goto(api.link)
    page.wait_for_url("**/runs")
    page.goto(f"{api.dashboard}{SIGN_IN}#d3Jvbmc6bG9naW4=")  # another site may open this link in the browser
    page.wait_for_url("**/runs")
    page.goto(f"{api.dashboard}/deployments")
    page.get_by_text("build", exact=True).first.wait_for()
    page.screenshot(path=tmp_path / "signed-in.png")
    page.goto(f"{api.dashboard}/v2/deployments")
    page.get_by_text("build", exact=True).first.wait_for()


def test_up_prints_the_link_and_the_login_stays_private(stack, api):
    home = Path(stack["PREFECT_HOME"], "zyda")
    assert f"dashboard        {api.link}\n" in zyda("up", env=stack).stdout
    assert f"{SIGN_IN}#" in api.link
    secret = api.login.partition(":")[2]
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    for path in filter(Path.is_file, home.rglob("*")):
        assert path.name == "login.json" or secret not in path.read_text(errors="replace"), path
        assert path.name != "login.json" or stat.S_IMODE(path.stat().st_mode) == 0o600
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert secret not in process.read_text()
        except OSError:
            continue


def test_commands_read_the_login_from_the_file_of_the_user(stack):
    assert "no run" not in zyda("status", env=stack).stderr
    other_home = {**stack, "PREFECT_HOME": str(Path(stack["PREFECT_HOME"]).parent)}
    process = zyda("status", env=other_home)
    assert (process.returncode, len(process.stderr.splitlines())) == (1, 1)
    assert "the Prefect server refuses the login in PREFECT_API_AUTH_STRING" in process.stderr
