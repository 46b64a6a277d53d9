"""Merge many artifacts into one by a tree of jobs, so that no job reads more than FAN_IN of them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import pyarrow as pa

from zyda_flows.tasks.stage.cost import StageCost, Workload, scaled
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import read_table, write_table

FAN_IN = 64  # artifacts that a job merges

# Makes the job that merges some artifacts, given its place in the tree.
Merge = Callable[[str, tuple[Artifact, ...]], ArtifactJob]


@dataclass(frozen=True)
class SumOfTables(ArtifactJob):
    """Add up some tables. place: of the job in the tree."""

    place: Annotated[str, NotInKey("part of the path")]
    artifacts: tuple[Artifact, ...]

    @staticmethod
    @abstractmethod
    def added_up(tables: Iterable[pa.Table]) -> pa.Table:
        """Add up tables."""

    @property
    def name(self) -> str:
        return f"sum-{self.place}"

    def make(self) -> Artifact:
        tables = (read_table(self.folder, artifact) for artifact in self.artifacts)
        return write_table(self.folder, self.path, self.name, self.added_up(tables))


def merge_in_tree(
    artifacts: Sequence[Artifact], merge: Merge, run_jobs: Callable[[Sequence[ArtifactJob]], list[Artifact]]
) -> tuple[Artifact, list[str]]:
    """Merge artifacts, FAN_IN neighbours at a time, until one artifact remains.

    Args:
        artifacts: To merge.
        merge: Makes the job that merges some artifacts.
        run_jobs: Runs jobs, and returns their results in order.

    Returns:
        The last artifact, which a job wrote even if there is only one artifact or none, and the paths of the
        artifacts of the levels below it.
    """
    level, paths = 0, list[str]()
    while True:
        jobs = [merge(f"{level}-{number:06d}", group) for number, group in enumerate(groups(artifacts))]
        artifacts = run_jobs(jobs)
        if len(artifacts) == 1:
            return artifacts[0], paths
        paths += [artifact.path for artifact in artifacts]
        level += 1


def jobs_of_tree(artifacts: int) -> int:
    """Return the number of jobs that merge so many artifacts into one."""
    jobs = merged = max(1, -(-artifacts // FAN_IN))
    while merged > 1:
        merged = -(-merged // FAN_IN)
        jobs += merged
    return jobs


def tree_cost(workload: Workload, name: str, jobs: int) -> Iterator[StageCost]:
    """Yield the cost of merging in trees with so many jobs, if the trial has such jobs. name: of their fan-out."""
    tried = workload.tried(name)
    if tried.calls:
        yield StageCost(name, replace(scaled(tried, jobs / tried.calls), calls=jobs))


def groups(artifacts: Sequence[Artifact]) -> list[tuple[Artifact, ...]]:
    """Group FAN_IN neighbouring artifacts; without artifacts there is one empty group."""
    return [tuple(artifacts[at : at + FAN_IN]) for at in range(0, max(1, len(artifacts)), FAN_IN)]
