"""Test the estimate of the remaining time on recorded builds.

A recording has a line for each event that the page of a real build received, with its time in seconds.
"""

import gzip
import json
from pathlib import Path

import pytest
from small_corpus import REPOSITORY

from zyda_flows.flows.dashboard.state import BuildState
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.artifacts import Receipt

BUILDS = Path(__file__).parent.parent / "data/builds"
UPDATES = 3  # seconds between two writes of a page


class Clock:
    """A clock that shows the time of a recording."""

    now = 0.0

    def __call__(self):
        return self.now


class Future:
    """A Prefect future that is done when the recording contains its receipts."""

    receipts = None

    def __init__(self):
        self.wrapped_future = self

    def done(self):
        return self.receipts is not None

    def result(self, **_):
        return self.receipts


class Recording:
    """A recorded build: the events that its page received."""

    def __init__(self, name):
        with gzip.open(BUILDS / f"{name}.jsonl.gz", "rt") as lines:
            models = f'"{REPOSITORY}/recipes/models/'
            self.events = [json.loads(line.replace('"recipes/models/', models)) for line in lines]
        self.clock, self.futures = Clock(), {}
        first = self.events.pop(0)
        self.began, self.ended = first["t"], self.events[-1]["t"]
        self.state = BuildState(Recipe.model_validate(first["recipe"]), self.clock)
        self.stages = {event.get("stage") for event in self.events}

    def tell(self, event):
        self.clock.now = event["t"]
        match event["kind"]:
            case "begin":
                self.state.begin()
                for stage in (
                    self.state.rows.keys() - self.stages
                ):  # the stage did not exist when the build was recorded
                    del self.state.rows[stage]
            case "hear":
                self.state.add_report(event["report"])
            case "wait_for":
                task = Future()
                self.futures.setdefault(event["stage"], []).append(task)
                self.state.wait_for(event["stage"], task)
            case "take":
                task = self.futures[event["stage"]].pop(0)
                task.receipts = [
                    Receipt(key="0" * 20, path="", identity="", **receipt) for receipt in event["receipts"]
                ]
                self.state.look()

    def updates(self):
        """Yield at each update: elapsed share, actual seconds left, and estimated seconds left (or None)."""
        self.clock.now = self.began
        while self.clock.now < self.ended:
            now = self.clock.now
            while self.events and self.events[0]["t"] <= now:
                self.tell(self.events.pop(0))
            self.clock.now = now
            self.state.look()
            yield (now - self.began) / (self.ended - self.began), self.ended - now, self.state.seconds_left()
            self.clock.now = now + UPDATES


@pytest.mark.parametrize("name", sorted(path.name.partition(".")[0] for path in BUILDS.glob("*.jsonl.gz")))
def test_time_left_is_within_a_factor_of_two_in_nine_of_ten_updates(name):
    recording = Recording(name)
    assert recording.ended - recording.began > 180
    updates = [update for update in recording.updates() if not recording.state.is_at_end]
    estimates = [(actual, left) for _, actual, left in updates if left is not None]
    accurate = [(actual, left) for actual, left in estimates if actual / 2 <= left <= 2 * actual]
    assert len(accurate) >= 0.9 * len(estimates), f"{len(accurate)} of {len(estimates)}: {estimates}"
    first = next(elapsed for elapsed, _, left in updates if left is not None)
    assert all(
        left is not None for elapsed, _, left in updates if elapsed > first
    )  # after the first estimate, each update has an estimate
    assert first < 0.35
