"""Jobs: the work of a stage on a shard, with the path of its artifact; a finished job is not repeated."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from zyda_flows.tasks.errors import Denied, Unavailable
from zyda_flows.tasks.stage.keys import NotInKey, key_content
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    artifact_path,
    stage_key,
)
from zyda_flows.tasks.storage.finished import finished_artifact, finished_record
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, Sealed, digest_of, write_record
from zyda_flows.tasks.workers.attempts import ALLOWED_DEATHS, PoisonItem, TooManyDeaths

Made = TypeVar("Made", bound=Record | Artifact)

ATTEMPTS = (
    "work/attempts"  # folder with a mark for each job of the current build that has begun and not ended
)


def forget_attempts(folder: Folder) -> None:
    """Remove the marks of a build; a build that shares the folder may remove them at the same time."""
    for name, _ in [*folder.stamps_in(ATTEMPTS)]:
        folder.remove(f"{ATTEMPTS}/{name}")


@dataclass(frozen=True)
class Job(ABC, Generic[Made]):
    """An output of a stage, made on any worker. Calling a job makes the output unless it is already finished."""

    folder: Annotated[Folder, NotInKey("the location of the output")]
    source: Annotated[str | None, NotInKey("part of the path")]

    @property
    @abstractmethod
    def stage(self) -> str:
        """Name of the stage that makes the output, and of the folder in which the output is stored."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number to increase if the same inputs give a different output."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the output, without its key."""

    @property
    def also_in_key(self) -> Any:
        """Dependencies that are not fields, such as constants and content of storage: a JSON value."""
        return None

    @abstractmethod
    def make(self) -> Made:
        """Make the output, and return its record."""

    @abstractmethod
    def made_before(self) -> Made | None:
        """Return the record if the output is finished, otherwise None."""

    @property
    def key(self) -> str:
        """A hash of the class, the stage and its version, the fields and `also_in_key`."""
        return stage_key(self.stage, self.version, [type(self).__name__, self.also_in_key, key_content(self)])

    @property
    def path(self) -> str:
        """Path of the artifact."""
        return artifact_path(self.stage, self.source, self.name, self.key)

    @property
    def whose(self) -> str:
        """Description of the job for messages."""
        return (
            f"stage {self.stage}, "
            + (f"source {self.source}, " if self.source else "")
            + f"shard {self.name}"
        )

    def __call__(self) -> Made:
        return self.made_before() or self.counted()

    def counted(self) -> Made:
        """Make the output; a mark remains if the worker dies. Raises TooManyDeaths if all allowed marks exist."""
        if not (allowed := ALLOWED_DEATHS.get()):
            return self.make()
        marks = (f"{ATTEMPTS}/{digest_of(self.path)}-{number}" for number in range(allowed))
        mark = next((mark for mark in marks if self.folder.create(mark, self.whose.encode())), None)
        if mark is None:
            raise TooManyDeaths(PoisonItem(self.whose, allowed))
        try:
            return self.make()
        finally:
            with suppress(
                Denied, Unavailable
            ):  # then the mark counts as a death, and a few deaths are allowed
                self.folder.remove(mark)


@dataclass(frozen=True)
class ArtifactJob(Job[Artifact]):
    """A job that makes an artifact; `make` writes the artifact at `path`, with its record."""

    def made_before(self) -> Artifact | None:
        return finished_artifact(self.folder, self.path)


@dataclass(frozen=True)
class RecordJob(Job[Sealed]):
    """A job that makes a record about any number of artifacts, and writes the record after them."""

    @property
    @abstractmethod
    def kind(self) -> type[Sealed]:
        """Class of the record."""

    @property
    def record(self) -> str:
        """Path of the record."""
        return self.path.removesuffix(".parquet") + ".json"

    def made_before(self) -> Sealed | None:
        return finished_record(self.folder, self.record, self.kind)

    def recorded(self, made: Sealed) -> Sealed:
        """Write the record, which marks the job as finished."""
        write_record(self.folder, self.record, made)
        return made
