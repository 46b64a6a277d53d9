"""An estimate of the remaining time of a build, from the usual costs of its stages and their costs so far.

Each second is divided among the stages that run in it. If a part of a stage is done, the rest of the stage is
estimated from its recent costs and the fraction that was done in that time. If nothing of a stage is done, the
estimate is its usual cost multiplied by the pace of the build: the costs of everything that is done, divided by its
usual costs.
"""

from collections import deque
from dataclasses import dataclass, field

# Seconds on two cores without other load: of a stage, of a MB of text in a stage, and of a shard in a stage.
START, END = 6.0, 3.0
ONCE = {
    "prepare": 3.0,
    "ingest": 4.0,
    "minhash": 2.0,
    "own_clusters": 0.3,
    "overlap": 0.5,
    "audit": 1.5,
    "publish": 1.5,
}
USUAL = 0.7
EACH_MB = {"ingest": 0.016, "minhash": 0.008, "publish": 0.008, "removals": 0.001, "index": 0.002}
EACH_SHARD = {"removals": 0.03, "audit": 0.005, "index": 0.01}
MODELS = "classify"  # with which the names of the stages of judges begin
LATELY, MARKS = 120.0, 5  # the pace of a stage is measured over the last seconds, and at least so many marks
LITTLE = 0.005  # a finished fraction of a stage that is too small for a measurement, such as a tiny source
ENOUGH, LONG = 0.2, 30.0  # the finished fraction or the seconds after which only the pace of the stage counts
LEAST_FRACTION = 0.1  # the finished fraction of the work before which no remaining time is estimated


@dataclass
class WorkPart:
    """The usual costs, the costs so far and the finished fraction of a stage, or of the start or end of a build.

    once, more: usual seconds that are independent of the size, and that depend on it. made: the fraction of the
    stage that this build makes; earlier builds made the rest. spent: seconds so far. marks: the seconds spent and
    the finished fraction at each recent increase of the fraction.
    """

    once: float = 0.0
    more: float = 0.0
    made: float = 1.0
    done: float = 0.0
    spent: float = 0.0
    is_on: bool = False
    waves: float = 1.0  # the number of shards divided by the number of cores
    marks: deque[tuple[float, float]] = field(default_factory=lambda: deque([(0.0, 0.0)]))

    def update(self, more: float, done: float, made: float, *, is_on: bool) -> None:
        if done > self.done:
            self.marks.append((self.spent, done))
            # The time before the first shard is not repeated: it includes imports and the compilation of kernels.
            if len(self.marks) > 2 and not self.marks[0][1]:
                self.marks.popleft()
            while len(self.marks) > MARKS and self.spent - self.marks[1][0] > LATELY:
                self.marks.popleft()
        self.more, self.done, self.made, self.is_on = more, max(done, self.done), made, is_on

    def left(self, pace: float) -> float:
        """Return the remaining seconds. pace: the duration of the build divided by its usual duration."""
        if self.done >= 1:
            return 0.0
        usual = (self.once + self.more) * self.made * pace
        (before, done_before), (then, done) = self.marks[0], self.marks[-1]
        if done <= done_before or then <= before or done < LITTLE:
            # The first shard is not done: either all shards take longer than usual, or only this shard.
            slow = (usual * self.spent * self.waves) ** 0.5
            return max(max(usual, slow) - self.spent, self.spent / 2)
        # Shards report only when they are done: between two reports, the remaining time decreases with the clock.
        whole = (1 - done) * (then - before) / (done - done_before)
        own = max(whole - (self.spent - then), whole / 2)
        trust = min(1.0, max(self.done / ENOUGH, self.spent / LONG))
        return trust * own + (1 - trust) * max(usual * (1 - self.done), 0.0)


@dataclass
class Clockwork:
    """The parts of a build, and the time that each part has taken."""

    parts: dict[str, WorkPart] = field(default_factory=dict)
    looked_at: float | None = None
    idle: float = 0.0  # seconds in which no stage was running

    def spend(self, now: float) -> None:
        """Divide the time since the last call among the running parts."""
        under_way = {name: part for name, part in self.parts.items() if part.is_on}
        # While a model runs, the model has all the time: the other parts wait for it, or are negligible.
        models = [part for name, part in under_way.items() if name.startswith(MODELS)]
        on = models or [*under_way.values()]
        seconds = now - (now if self.looked_at is None else self.looked_at)
        for part in on:
            part.spent += seconds / len(on)
        self.idle += 0.0 if on else seconds
        self.looked_at = now

    @property
    def pace(self) -> float:
        """The time of everything that is done except models, divided by its usual time."""
        begun = [
            part
            for name, part in self.parts.items()
            if part.spent and part.done and not name.startswith(MODELS)
        ]
        usual = sum((part.once + part.more * part.done) * part.made for part in begun)
        return (self.idle + sum(part.marks[-1][0] for part in begun)) / usual if usual else 1.0

    def left(self) -> float:
        pace = self.pace
        return sum(part.left(pace) for part in self.parts.values())

    def fraction(self) -> float:
        """Return the finished fraction of the build, by time."""
        spent = self.idle + sum(part.spent for part in self.parts.values())
        return spent / (spent + self.left()) if spent else 0.0
