"""Take the README's screenshots of the dashboard during a real build of the demo: `make pictures`.

The script starts a separate stack with its state in a new folder, and stops it at the end. It needs Chromium.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STORAGE = "/tmp/corpora"  # the path is visible in the screenshots; it names no user
WIDTH, HEIGHT = 1280, 1180
SECONDS = 240


def zyda(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "zyda_flows", *arguments], stdout=subprocess.DEVNULL)


@contextmanager
def stack() -> Iterator[Any]:
    """Start the stack that a build needs, with an empty history; yield the API of its server."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["PREFECT_HOME"] = home
        if zyda("up").wait():
            raise SystemExit("the stack did not start")
        from zyda_flows.deployments.stack import stack_api

        try:
            yield stack_api()
        finally:
            zyda("down").wait()


def artifacts(api: Any) -> dict[str, Any]:
    """Return the artifacts of the build by their kind of page, such as `build` and `report`."""
    import httpx

    login = tuple(api.login.split(":", 1))
    answer = httpx.post(f"{api.url}/artifacts/filter", json={"limit": 50}, timeout=30, auth=login)
    return {artifact["key"].split("-")[1]: artifact for artifact in answer.json() if artifact["key"]}


def is_half_way(text: str) -> bool:
    """Return whether the page shows a running build, between 20 % and 98 %."""
    done = re.search(r"\*\*(\d+) %\*\*", text)
    return done is not None and 20 < int(done[1]) < 98 and "running" in text


def picture(page: Any, url: str, name: str, artifact: dict[str, Any], text: str) -> None:
    page.goto(f"{url}/artifacts/artifact/{artifact['id']}")
    page.get_by_text(text).first.wait_for()
    page.wait_for_timeout(1000)  # the page fades in
    page.screenshot(path=HERE / f"{name}.png")


def main() -> None:
    from playwright.sync_api import sync_playwright

    from zyda_flows.flows.command.demo import write_demo

    write_demo(HERE.parent / "demo")
    shutil.rmtree(STORAGE, ignore_errors=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with stack() as api, sync_playwright() as started:
        url = api.dashboard
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(api.link)  # loads the dashboard before the first screenshot
        page.wait_for_url("**/runs")
        build = zyda("build", str(HERE.parent / "demo/recipe.yaml"), "--storage", STORAGE)
        deadline = time.monotonic() + SECONDS
        while build.poll() is None and time.monotonic() < deadline:
            build_page = artifacts(api).get("build")
            if build_page and is_half_way(build_page["data"]):
                picture(page, url, "live-page", build_page, "Stages")
                break
            time.sleep(0.2)
        build.wait(SECONDS)
        picture(page, url, "report", artifacts(api)["report"], "Tokens")
        browser.close()
    shutil.rmtree(STORAGE)


if __name__ == "__main__":
    main()
