"""How long a build goes on: what its stages usually cost, put right by what they have cost so far.

Each second is shared by the stages that are under way in it. So what a stage has cost lately, beside how much of
it was done, says what the rest of it will; of a stage of which nothing is done yet, the usual cost does, times what
all that is done has cost beside what it usually would.
"""

from collections import deque
from dataclasses import dataclass, field

# Seconds on two cores that are idle otherwise: of a stage, and of a MB of text and of a shard in it.
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
MODELS = "classify"
LATELY, MARKS = 120.0, 5  # seconds of a stage, and shards at the least, by which its pace is known
LITTLE = 0.005  # of a stage, which says nothing of it: a source of a few documents
ENOUGH, LONG = 0.2, 30.0  # of a stage, or seconds of it, after which it goes by its own pace alone
LEAST = 0.1  # of the work: before that is done, nobody can say how long it takes


@dataclass
class WorkPart:
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
    waves: float = 1.0  # in which its shards are done, those of a wave at the same time
    marks: deque[tuple[float, float]] = field(default_factory=lambda: deque([(0.0, 0.0)]))

    def know(self, more: float, done: float, made: float, *, is_on: bool) -> None:
        if done > self.done:
            self.marks.append((self.spent, done))
            # What comes before the first shard, imports and kernels to be compiled, does so only once.
            if len(self.marks) > 2 and not self.marks[0][1]:
                self.marks.popleft()
            while len(self.marks) > MARKS and self.spent - self.marks[1][0] > LATELY:
                self.marks.popleft()
        self.more, self.done, self.made, self.is_on = more, max(done, self.done), made, is_on

    def left(self, pace: float) -> float:
        """Return the seconds that are left of it. pace: how many times as long as usual the build takes."""
        if self.done >= 1:
            return 0.0
        usual = (self.once + self.more) * self.made * pace
        (before, done_before), (then, done) = self.marks[0], self.marks[-1]
        if done <= done_before or then <= before or done < LITTLE:
            # The first of its shards is not done: all of them may take longer than usual, or it alone.
            slow = (usual * self.spent * self.waves) ** 0.5
            return max(max(usual, slow) - self.spent, self.spent / 2)
        # Nothing is heard of a shard before it is done: between two of them, time goes by as it did.
        whole = (1 - done) * (then - before) / (done - done_before)
        own = max(whole - (self.spent - then), whole / 2)
        trust = min(1.0, max(self.done / ENOUGH, self.spent / LONG))
        return trust * own + (1 - trust) * max(usual * (1 - self.done), 0.0)


@dataclass
class Clockwork:
    """The parts of a build, and the time that each has cost."""

    parts: dict[str, WorkPart] = field(default_factory=dict)
    looked_at: float | None = None
    idle: float = 0.0  # seconds in which no stage said that it was at something

    def spend(self, now: float) -> None:
        """Share the time since the last look among what is under way."""
        under_way = {name: part for name, part in self.parts.items() if part.is_on}
        # What is under way beside a model waits for it, or is nothing beside it.
        on = [under_way[MODELS]] if MODELS in under_way else [*under_way.values()]
        seconds = now - (now if self.looked_at is None else self.looked_at)
        for part in on:
            part.spent += seconds / len(on)
        self.idle += 0.0 if on else seconds
        self.looked_at = now

    @property
    def pace(self) -> float:
        """How many times as long as usual what is done has taken, but for models, whose pace is their own."""
        begun = [part for name, part in self.parts.items() if part.spent and part.done and name != MODELS]
        usual = sum((part.once + part.more * part.done) * part.made for part in begun)
        return (self.idle + sum(part.marks[-1][0] for part in begun)) / usual if usual else 1.0

    def left(self) -> float:
        pace = self.pace
        return sum(part.left(pace) for part in self.parts.values())

    def fraction(self) -> float:
        """How much of the build is done, by time."""
        spent = self.idle + sum(part.spent for part in self.parts.values())
        return spent / (spent + self.left()) if spent else 0.0
