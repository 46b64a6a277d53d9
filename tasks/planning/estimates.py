"""The figures of a plan, with their ranges: of sources, of stages and of a whole build."""

from collections.abc import Sequence
from math import sqrt

from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, write_record

PLAN = "history/plan.json"
# Student's t: the number of standard errors of the 95 % range, by the number of parts minus 1.
T_95 = (12.7, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
OF_MANY_PARTS = 2.0
FROM_ONE_PART = 0.3  # relative error of a total that is estimated from a single part


class Estimate(Record):
    """A figure, and its 95 % range."""

    value: float
    low: float
    high: float

    def __add__(self, other: "Estimate") -> "Estimate":
        """Add another figure. Their errors are independent, and partly cancel out."""
        value = self.value + other.value
        below = sqrt((self.value - self.low) ** 2 + (other.value - other.low) ** 2)
        above = sqrt((self.high - self.value) ** 2 + (other.high - other.value) ** 2)
        return Estimate(value=value, low=value - below, high=value + above)

    def times(self, factor: float) -> "Estimate":
        return Estimate(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def holds(self, value: float) -> bool:
        """Return whether a value is in the range, ends included."""
        return self.low <= value <= self.high


def exactly(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


def ratio_estimate(sizes: Sequence[float], counts: Sequence[float], size: float) -> Estimate:
    """Estimate a total from parts, in proportion to their sizes.

    sizes, counts: of the parts. size: of the whole. The estimator and its error are those of Cochran, "Sampling
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
    """The estimated size of a source. bytes: of files. text: UTF-8 bytes. tried: the share read by the trial."""

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
        """The tokens that are kept if no document is removed as a duplicate."""
        return self.tokens.times(self.kept)


class StageEstimate(Record):
    """The estimated cost of a stage.

    tasks: tasks of Dask, each of which runs one or more jobs; `spent.calls` is the number of jobs. most_clustered:
    processor seconds if 80 % of documents are in clusters.
    """

    stage: str
    tasks: int
    spent: Spent
    most_clustered: float


class Plan(Record):
    """The estimated cost of a build, with a number of threads and workers.

    recipe: a hash of the recipe as written. seconds: from start to end. scheduler_seconds: of the single thread of
    Dask's scheduler. work, published: bytes written to each; in_storage: of both, at the end; at_most: the highest
    value before. scratch: bytes on temporary disks. files_by_folder: the number of published Parquet files of each
    folder, if each file of documents has removed documents. model_seconds: of one device, by source and judge;
    model_seconds_without_only_if: if a judge with `only_if` judged all documents.
    faults: resources that will not suffice. notes: costs that the figures do not include.
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
    scheduler_seconds: float
    seconds: Estimate
    files_by_folder: dict[str, int] = {}
    model_seconds: dict[str, float] = {}
    model_seconds_without_only_if: dict[str, float] = {}
    faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        return sum(stage.tasks for stage in self.stages)

    @property
    def total(self) -> Spent:
        return sum((stage.spent for stage in self.stages), Spent())


def keep_plan(folder: Folder, plan: Plan) -> None:
    """Write a plan to the corpus' folder, so that a build can be compared with it."""
    write_record(folder, PLAN, plan)
