"""The work of a stage on one shard: where its artifact goes, and that it is made once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tasks.storage.artifacts import Shard, finished_shard, shard_path, stage_key
from tasks.storage.folder import Folder


@dataclass(frozen=True)
class ShardJob(ABC):
    """One artifact to make, on whichever worker; calling it makes it, unless that was done before."""

    folder: Folder
    source: str | None

    @property
    @abstractmethod
    def stage(self) -> str:
        """The stage that makes it, whose folder it lies in."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that is raised when the same inputs give another artifact."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the artifact is called, beside its key."""

    @property
    def asked(self) -> Any:
        """All that the recipe says which can change the artifact: a JSON value."""
        return None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The digests of what the artifact is made from."""
        return ()

    @abstractmethod
    def make(self) -> Shard:
        """Write the artifact at `path`."""

    @property
    def key(self) -> str:
        return stage_key(self.stage, self.version, self.asked, *self.inputs)

    @property
    def path(self) -> str:
        return shard_path(self.stage, self.source, self.name, self.key)

    def __call__(self) -> Shard:
        return finished_shard(self.folder, self.path) or self.make()
