"""How long a build goes on: what its stages usually cost, put right by what they have cost so far.

Each second is shared by the stages that are under way in it. So what a stage has cost lately, beside how much of
it was done, says what the rest of it will; of a stage of which nothing is done yet, the usual cost does, times what
all that is done has cost beside what it usually would.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

# Seconds on two cores that are idle otherwise (benchmarks/end_to_end.py): of a stage, and of a MB of text in it.
START, END = 8.0, 4.0
ONCE, USUAL = {"prepare": 2.0, "ingest": 3.0, "audit": 2.0, "publish": 2.0}, 0.7
EACH_MB = {"ingest": 0.016, "publish": 0.008, "removals": 0.0005, "edges": 0.001, "audit": 0.0002}
LATELY = 120.0  # seconds of a stage
LEAST = 0.1  # of the work: before that is done, nobody can say how long it takes


class Pace(NamedTuple):
    """How many times as long as usual a build takes for a stage, and for its text."""

    of_stages: float
    of_text: float


@dataclass
class Part:
    """A stage, or what comes before or after all: what it usually costs, what it has cost, what is done of it.

    once, more: seconds, whatever its size and by its size. made: the share of it that this build makes, where the
    rest is there from before. marks: what it had cost, and what was done of it, when more of it was done lately.
    """

    once: float = 0.0
    more: float = 0.0
    made: float = 1.0
    done: float = 0.0
    spent: float = 0.0
    is_on: bool = False
    marks: deque[tuple[float, float]] = field(default_factory=lambda: deque([(0.0, 0.0)]))

    def know(self, once: float, more: float, done: float, made: float, *, is_on: bool) -> None:
        if done > self.done:
            self.marks.append((self.spent, done))
            while len(self.marks) > 2 and self.spent - self.marks[1][0] > LATELY:
                self.marks.popleft()
        self.once, self.more, self.done, self.made, self.is_on = once, more, done, made, is_on

    def left(self, pace: Pace) -> float:
        """Return the seconds that are left of it."""
        (before, done_before), (then, done) = self.marks[0], self.marks[-1]
        if self.done >= 1:
            return 0.0
        if done <= done_before or then <= before:
            usual = self.once * pace.of_stages + self.more * pace.of_text
            return max(usual * self.made - self.spent, self.spent)
        # Nothing is heard of a shard before it is done: between two of them, time goes by as it did.
        rest = (1 - done) * (then - before) / (done - done_before)
        return max(rest - (self.spent - then), rest / 2)


@dataclass
class Clockwork:
    """The parts of a build, and the time that each has cost."""

    parts: dict[str, Part] = field(default_factory=dict)
    looked_at: float | None = None

    def spend(self, now: float) -> None:
        """Share the time since the last look among what is under way."""
        on = [part for part in self.parts.values() if part.is_on]
        for part in on:
            part.spent += (now - (now if self.looked_at is None else self.looked_at)) / len(on)
        self.looked_at = now

    @property
    def pace(self) -> Pace:
        """Compare what is done with what it usually costs."""
        begun = [part for part in self.parts.values() if part.spent and part.done]
        small, large = ([part for part in begun if bool(part.more) is has_text] for has_text in (False, True))
        once = sum(part.once * part.made * part.done for part in small)
        of_stages = sum(part.marks[-1][0] for part in small) / once if once else 1.0
        more = sum(part.more * part.made * part.done for part in large)
        spent = sum(part.marks[-1][0] - part.once * of_stages for part in large)
        return Pace(of_stages, max(spent, 0.0) / more if more and spent > 0 else of_stages)

    def left(self) -> float:
        pace = self.pace
        return sum(part.left(pace) for part in self.parts.values())

    def fraction(self) -> float:
        """How much of the build is done, by time."""
        spent = sum(part.spent for part in self.parts.values())
        return spent / (spent + self.left()) if spent else 0.0
