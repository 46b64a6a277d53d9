"""The time that is left, of builds that were recorded: what their pages knew, and when they ended.

A recording has a line for each thing that the page of a real build was told, with the seconds at which it was.
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
    """A task of Prefect's, which is over when the recording says so."""

    found = None

    def __init__(self):
        self.wrapped_future = self

    def done(self):
        return self.found is not None

    def result(self, **_):
        return self.found


class Recording:
    """A recorded build, as its page saw it."""

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
                for stage in self.state.rows.keys() - self.stages:  # there was none when this was recorded
                    del self.state.rows[stage]
            case "hear":
                self.state.hear(event["report"])
            case "wait_for":
                task = Future()
                self.futures.setdefault(event["stage"], []).append(task)
                self.state.wait_for(event["stage"], task)
            case "take":
                task = self.futures[event["stage"]].pop(0)
                task.found = [Receipt(key="0" * 20, path="", identity="", **one) for one in event["receipts"]]
                self.state.look()

    def updates(self):
        """Yield at each update of the page how much of the time is over, what was left, and what it said."""
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
def test_time_left_is_true_within_a_factor_of_two_in_nine_of_ten_updates(name):
    recording = Recording(name)
    assert recording.ended - recording.began > 180
    updates = [update for update in recording.updates() if not recording.state.is_at_end]
    said = [(true, left) for _, true, left in updates if left is not None]
    right = [(true, left) for true, left in said if true / 2 <= left <= 2 * true]
    assert len(right) >= 0.9 * len(said), f"{len(right)} of {len(said)}: {said}"
    first = next(over for over, _, left in updates if left is not None)
    assert all(
        left is not None for over, _, left in updates if over > first
    )  # once said, it is said at each update
    assert first < 0.35
