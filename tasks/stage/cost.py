"""The cost of a stage: the resources that it needs in a whole build, estimated from a trial.

`zyda plan` builds a part of the sources and requests the cost of each stage. A stage that declares no cost is
BY_SHARD. If the tasks of a stage are divided by documents or keys, a trial has too few of them, and the stage
declares a function:

    @stage("edges", key, scope="corpus", inputs=("minhash",), cost=edges_cost)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.spent import NAMES, Spent

MEMORY_OF_WORKER, MEMORY_OF_TASK = 250 << 20, 1200 << 20  # imports; the maximum of a step over documents
USUALLY, AT_MOST = (
    0.1,
    0.8,
)  # share of documents in clusters: docs/speed.md, and the largest sources of Zyda-2


class ModelTrial(NamedTuple):
    """A trial of a model.

    seconds: per document. entering: fraction of documents that the `keep` of earlier judges keep. Of these, judged:
    fraction for which `only_if` is true; kept: fraction that the judge's `keep` keeps. loading: seconds to load it.
    dims: numbers of a document's vector, 0 for a model without vectors.
    """

    documents: int
    seconds: float
    kept: float
    loading: float
    judged: float = 1.0
    entering: float = 1.0
    dims: int = 0


@dataclass(frozen=True)
class SourceSize:
    """The estimated size of a source.

    documents: ingested documents. text: their UTF-8 bytes. kept: fraction of its tokens that rules, filters and
    models keep. before_model: fraction that rules and filters keep. shards: their names. models: the trials of
    its judges, by name. labels: the sizes of the files of each of its joins, in bytes.
    """

    documents: float
    text: float
    kept: float
    before_model: float
    shards: Sequence[str]
    models: Mapping[str, ModelTrial] = field(default_factory=dict)
    labels: Sequence[Sequence[int]] = ()

    @property
    def entering_model(self) -> float:
        """The number of documents that enter the first judge if no document is removed as a duplicate."""
        return self.documents * self.before_model

    def entering_judge(self, judge: str) -> float:
        """Return the number of documents that enter a judge if no document is removed as a duplicate."""
        return self.entering_model * self.models[judge].entering


class Workload(Protocol):
    """The input of a cost: the sizes of a build, and the resources that its stages used in a trial.

    A name is that of a stage or of a fan-out, the argument `stage` of `fan_out`.
    """

    @property
    def workers(self) -> int: ...

    @property
    def sources(self) -> Mapping[str, SourceSize]: ...

    @property
    def tried_shards(self) -> int:
        """The number of shards of the trial."""

    def tried(self, name: str) -> Spent:
        """Return the resources of all calls of a name in the trial."""

    def by_shard(self, name: str) -> Spent:
        """Return the estimated resources of a name that runs one task per shard."""


@dataclass(frozen=True)
class StageCost:
    """The resources of the calls of a name.

    most_clustered: processor seconds if AT_MOST of the documents are in clusters.
    """

    name: str
    spent: Spent
    most_clustered: float = 0.0

    def __add__(self, other: "StageCost") -> "StageCost":
        most = self.most_clustered + other.most_clustered
        return replace(self, spent=self.spent + other.spent, most_clustered=most)


# Takes the stage's subject and its name in the round; yields a cost for each name under which it fans out. Costs of
# the same name are added. A name without a cost is BY_SHARD.
Cost = Callable[[Workload, Subject, str], Iterable[StageCost]]


def by_shard(workload: Workload, _: Subject, name: str) -> Iterable[StageCost]:
    """Scale the trial's calls: one task per shard, and time by the size of the sources."""
    yield StageCost(name, workload.by_shard(name))


def once(workload: Workload, _: Subject, name: str) -> Iterable[StageCost]:
    """Return the resources of the trial: the number of calls does not depend on the size of a build."""
    yield StageCost(name, workload.tried(name))


BY_SHARD: Cost = by_shard
ONCE: Cost = once


def documents_of(workload: Workload) -> float:
    """Return the number of ingested documents of all sources."""
    return sum(source.documents for source in workload.sources.values())


def shards_of(workload: Workload) -> int:
    """Return the number of shards of all sources."""
    return sum(len(source.shards) for source in workload.sources.values())


def scaled(spent: Spent, factor: float) -> Spent:
    """Multiply all resources by a factor, except the memory of the largest call."""
    values = {name: getattr(spent, name) * factor for name in NAMES}
    whole = {name: round(value) for name, value in values.items()}
    return Spent(**(whole | {"cpu": values["cpu"], "peak": spent.peak}))
