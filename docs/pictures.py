"""Take the README's pictures of the dashboard from a real build of the demo: `make pictures`.

A stack of its own is started, with its state in a new folder, and ended. It needs Chromium, and the demo's sources
(`make run` gathers them).
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
STORAGE = "/tmp/corpora"  # it is in the pictures, and nobody's
WIDTH, HEIGHT = 1280, 1180
SECONDS = 240


def zyda(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "flows", *arguments], stdout=subprocess.DEVNULL)


@contextmanager
def stack() -> Iterator[str]:
    """Start what a build needs, with an empty history; give the dashboard's address."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["PREFECT_HOME"] = home
        if zyda("up").wait():
            raise SystemExit("the stack did not start")
        from deployments.local import stack_url

        try:
            yield str(stack_url()).removesuffix("/api")
        finally:
            zyda("down").wait()


def artifacts(url: str) -> dict[str, Any]:
    """Return the artifacts of the build by what they show."""
    import httpx

    answer = httpx.post(f"{url}/api/artifacts/filter", json={"limit": 50}, timeout=30)
    return {one["key"].split("-")[1]: one for one in answer.json() if one["key"]}


def is_half_way(text: str) -> bool:
    """Say whether a build is past its beginning and not at its end."""
    done = re.search(r"\*\*(\d+) %\*\*", text)
    return done is not None and 20 < int(done[1]) < 98 and "running" in text


def picture(page: Any, url: str, name: str, artifact: dict[str, Any], text: str) -> None:
    page.goto(f"{url}/artifacts/artifact/{artifact['id']}")
    page.get_by_text(text).first.wait_for()
    page.wait_for_timeout(1000)  # the page fades in
    page.screenshot(path=HERE / f"{name}.png")


def main() -> None:
    from playwright.sync_api import sync_playwright

    shutil.rmtree(STORAGE, ignore_errors=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with stack() as url, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"{url}/runs")  # so that the first picture does not wait for the dashboard itself
        build = zyda("build", str(HERE.parent / "recipes/demo.yaml"), "--storage", STORAGE)
        deadline = time.monotonic() + SECONDS
        while build.poll() is None and time.monotonic() < deadline:
            found = artifacts(url).get("build")
            if found and is_half_way(found["data"]):
                picture(page, url, "live-page", found, "Stages")
                break
            time.sleep(0.2)
        build.wait(SECONDS)
        picture(page, url, "report", artifacts(url)["report"], "Tokens")
        browser.close()
    shutil.rmtree(STORAGE)


if __name__ == "__main__":
    main()
