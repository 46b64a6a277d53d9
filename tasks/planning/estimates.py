"""What a plan says: figures with the ranges in which they should lie, of sources, stages and a whole build."""

from collections.abc import Sequence
from math import sqrt

from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, write_record

PLAN = "history/plan.json"
# Student's t: so many standard errors hold 95 of 100 means, by the parts less one.
T_95 = (12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
OF_MANY_PARTS = 2.0
FROM_ONE_PART = 0.3  # by which a total may differ that one part of several stands for


class Estimate(Record):
    """A figure, and the range in which it should lie in 95 cases of 100."""

    value: float
    low: float
    high: float

    def __add__(self, other: "Estimate") -> "Estimate":
        """Add a figure of something else: their errors are independent, and partly cancel out."""
        value = self.value + other.value
        below = sqrt((self.value - self.low) ** 2 + (other.value - other.low) ** 2)
        above = sqrt((self.high - self.value) ** 2 + (other.high - other.value) ** 2)
        return Estimate(value=value, low=value - below, high=value + above)

    def times(self, factor: float) -> "Estimate":
        return Estimate(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def holds(self, value: float) -> bool:
        """Say whether a value is in the range, ends included."""
        return self.low <= value <= self.high


def exactly(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


def ratio_estimate(sizes: Sequence[float], counts: Sequence[float], size: float) -> Estimate:
    """Estimate what there is in all of something, by what parts of it have for their size.

    sizes, counts: of the parts. size: of all. The estimator and its error are those of Cochran, "Sampling
    Techniques", 1977, sections 2.11 and 6.3: the ratio of the sums, and the spread of the parts around it.
    """
    seen, parts = sum(sizes), len(sizes)
    if not seen:
        return exactly(0.0)
    ratio, rest = sum(counts) / seen, max(0.0, 1 - seen / size)
    value = ratio * size
    if rest < 1e-9:
        return exactly(sum(counts))
    if parts == 1:
        error = FROM_ONE_PART * value * rest
    else:
        errors = (count - ratio * of for of, count in zip(sizes, counts, strict=True))
        spread = sum(error**2 for error in errors) / (parts - 1)
        t = T_95[parts - 2] if parts - 2 < len(T_95) else OF_MANY_PARTS
        error = t * sqrt(rest * spread / parts) * size / (seen / parts)
    return Estimate(value=value, low=max(sum(counts), value - error), high=value + error)


class SourceEstimate(Record):
    """What a source should have. bytes: of its files. text: UTF-8 bytes. tried: the part of it that was read."""

    source: str
    files: int
    bytes: int
    shards: int
    tried: float
    documents: Estimate
    tokens: Estimate
    text: Estimate
    set_aside: Estimate
    kept: float

    @property
    def published(self) -> Estimate:
        """The tokens that stay if no document goes as a duplicate."""
        return self.tokens.times(self.kept)


class StageEstimate(Record):
    """What a stage should take. most_clustered: its processor seconds where 80 % of documents are in clusters."""

    stage: str
    spent: Spent
    most_clustered: float


class Plan(Record):
    """What a build should take, with so many threads on so many workers.

    recipe: a hash of it, as it is written. seconds: from its start to its end. work, published: bytes that are
    written for either; in_storage: of both, in the end; at_most: before that. scratch: on temporary disks
    meanwhile. model_seconds: of one device, by source. faults: what will not fit. notes: what the figures leave
    out.
    """

    recipe: str
    made_at: str
    workers: int
    threads: int
    memory: int
    sources: tuple[SourceEstimate, ...]
    stages: tuple[StageEstimate, ...]
    work: float
    published: float
    in_storage: float
    at_most: float
    scratch: float
    seconds: Estimate
    model_seconds: dict[str, float] = {}
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Spent:
        return sum((stage.spent for stage in self.stages), Spent())


def keep_plan(folder: Folder, plan: Plan) -> None:
    """Keep a plan beside the corpus, for a build to compare itself with."""
    write_record(folder, PLAN, plan)
