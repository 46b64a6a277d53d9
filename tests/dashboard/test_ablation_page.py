"""The page of an ablation shows the curves of unfinished and finished runs, side by side."""

import re
import threading
import time
from base64 import b64decode
from types import SimpleNamespace

import pytest

from zyda_flows.flows.dashboard.ablation_page import AblationPage
from zyda_flows.tasks.ablation.progress import (
    RunProgress,
    read_progress,
    remove_progress,
    watched,
    write_progress,
)
from zyda_flows.tasks.errors import Unavailable
from zyda_flows.tasks.storage.folder import Folder


@pytest.fixture
def page():
    made = AblationPage.__new__(AblationPage)  # without an artifact on a server
    made.finished = {}
    return made


def test_curves_of_unfinished_runs(page, tmp_path):
    folder = Folder(str(tmp_path))
    page.runs = [
        SimpleNamespace(folder=folder, key=name, variant=name, size=size)
        for name, size in (("first", 0), ("second", 0), ("waiting", 0), ("larger", 1))
    ]
    assert page.picture() == ""
    for name in ("first", "second", "larger"):
        write_progress(folder, name, RunProgress(step=2, curve=((1, 3.0), (2, 2.5))))
    (picture,) = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)\)", page.picture())
    drawn = b64decode(picture).decode()
    assert [name for name in ("first", "second", "waiting", "larger") if f">{name}<" in drawn] == [
        "first",
        "second",
    ]
    page.finished["waiting"] = SimpleNamespace(curve=((1, 3.0), (9, 1.0)))
    (picture,) = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)\)", page.picture())
    assert ">waiting<" in b64decode(picture).decode()
    remove_progress(folder, "first")
    assert read_progress(folder, "first") is None


def test_a_look_is_repeated_until_the_end(monkeypatch):
    monkeypatch.setattr("zyda_flows.tasks.ablation.progress.SECONDS", 0.001)
    looks, before = [], threading.active_count()

    def look():
        looks.append(1)
        raise Unavailable("the store does not answer")

    with watched(look):
        while len(looks) < 3:
            time.sleep(0.001)
    assert threading.active_count() == before
