"""Merge many artifacts into one by a tree of jobs, so that no job reads more than FAN_IN of them."""

from collections.abc import Callable, Sequence

from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.storage.artifacts import Artifact

FAN_IN = 64  # artifacts that a job merges

# Makes the job that merges some artifacts, given its place in the tree.
Merge = Callable[[str, tuple[Artifact, ...]], ArtifactJob]


def merge_in_tree(
    artifacts: Sequence[Artifact], merge: Merge, *, stage: str, source: str | None
) -> tuple[Artifact, list[str]]:
    """Merge artifacts, FAN_IN neighbours at a time, until one artifact remains.

    Returns:
        The last artifact, which a job wrote even if there is only one artifact or none, and the paths of the
        artifacts of the levels below it.
    """
    level, paths = 0, list[str]()
    while True:
        groups = [tuple(artifacts[at : at + FAN_IN]) for at in range(0, max(1, len(artifacts)), FAN_IN)]
        jobs = [merge(f"{level}-{number:06d}", group) for number, group in enumerate(groups)]
        artifacts = fan_out(ArtifactJob.__call__, jobs, stage=stage, source=source)
        if len(artifacts) == 1:
            return artifacts[0], paths
        paths += [artifact.path for artifact in artifacts]
        level += 1
