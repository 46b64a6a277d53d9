"""The work of a stage on one shard: where what it makes goes, and that it is made once."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from zyda_flows.tasks.errors import Denied, Unavailable
from zyda_flows.tasks.stage.keys import NotInKey, key_content
from zyda_flows.tasks.storage.artifacts import (
    Artifact,
    artifact_path,
    finished_artifact,
    finished_record,
    stage_key,
)
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, write_record
from zyda_flows.tasks.workers.attempts import ALLOWED_DEATHS, SetApart, TooManyDeaths

Made = TypeVar("Made", bound=Record)

ATTEMPTS = "work/attempts"  # a mark for each job that was begun in the build under way, and has not ended


def forget_attempts(folder: Folder) -> None:
    """Remove the marks of a build; another one that shares the folder may do so in the same moment."""
    for name, _ in [*folder.stamps_in(ATTEMPTS)]:
        folder.remove(f"{ATTEMPTS}/{name}")


@dataclass(frozen=True)
class Job(ABC, Generic[Made]):
    """Something to make, on whichever worker; calling it makes it, unless that was done before."""

    folder: Annotated[Folder, NotInKey("where it lies")]
    source: Annotated[str | None, NotInKey("its path has it")]

    @property
    @abstractmethod
    def stage(self) -> str:
        """The stage that makes it, whose folder it lies in."""

    @property
    @abstractmethod
    def version(self) -> int:
        """A number that is raised when the same inputs give something else."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called, beside its key."""

    @property
    def also_in_key(self) -> Any:
        """What can change it besides its fields, as constants and content of storage: a JSON value."""
        return None

    @abstractmethod
    def make(self) -> Made:
        """Make it, and return its record."""

    @abstractmethod
    def made_before(self) -> Made | None:
        """Return its record where it is finished, else None."""

    @property
    def key(self) -> str:
        """A hash of its class, its stage and version, its fields and `also_in_key`."""
        return stage_key(self.stage, self.version, [type(self).__name__, self.also_in_key, key_content(self)])

    @property
    def path(self) -> str:
        """Where its artifact goes."""
        return artifact_path(self.stage, self.source, self.name, self.key)

    @property
    def whose(self) -> str:
        """What it is about, in words."""
        return (
            f"stage {self.stage}, "
            + (f"source {self.source}, " if self.source else "")
            + f"shard {self.name}"
        )

    def __call__(self) -> Made:
        return self.made_before() or self.counted()

    def counted(self) -> Made:
        """Make it, and leave a mark where its worker dies of it. Raises TooManyDeaths where there are enough."""
        if not (allowed := ALLOWED_DEATHS.get()):
            return self.make()
        marks = (f"{ATTEMPTS}/{digest_of(self.path)}-{number}" for number in range(allowed))
        mark = next((mark for mark in marks if self.folder.create(mark, self.whose.encode())), None)
        if mark is None:
            raise TooManyDeaths(SetApart(self.whose, allowed))
        try:
            return self.make()
        finally:
            with suppress(Denied, Unavailable):  # then it counts as a death, of which a few are allowed
                self.folder.remove(mark)


@dataclass(frozen=True)
class ArtifactJob(Job[Artifact]):
    """One artifact to make; `make` writes it at `path`, and its record beside it."""

    def made_before(self) -> Artifact | None:
        return finished_artifact(self.folder, self.path)


@dataclass(frozen=True)
class RecordJob(Job[Made]):
    """A record to make that vouches for any number of artifacts, and is written after them."""

    @property
    @abstractmethod
    def kind(self) -> type[Made]:
        """What its record is."""

    @property
    def record(self) -> str:
        """Where its record goes."""
        return self.path.removesuffix(".parquet") + ".json"

    def made_before(self) -> Made | None:
        return finished_record(self.folder, self.record, self.kind)

    def recorded(self, made: Made) -> Made:
        """Write the record, by which it is finished."""
        write_record(self.folder, self.record, made)
        return made
