"""Companions of ingest: what is made of a shard while its text is in memory, so that nobody reads it again.

A companion (what stream processors call a side output) sees the documents of a shard as they pass and writes
what it made beside the shard, under a key that the shard's digest is part of. The stage that wants it looks
there, and makes it where it is not. Each costs one line in COMPANIONS. Where the build has GPUs, they make it of
the finished shard, so that the CPUs go on to the next.
"""

from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import pyarrow as pa

from zyda_flows.tasks.documents.deny_signatures import LettersOfShard
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.signatures.minhash import KeysOfRounds
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder


class Companion(Protocol):
    """Sees the documents of one shard: `doc_id`, the counts, `text` and the source's own columns."""

    def add(self, documents: pa.Table) -> None:
        """See some more documents of the shard."""

    def write(self, folder: Folder, source: str, shard: Artifact) -> None:
        """Write what was made of the shard, which has been seen whole."""


class CompanionKind(Protocol):
    """A class of companions; one that GPUs can make, too, is OnGpus besides."""

    def for_source(self, recipe: Recipe, source: str) -> Callable[[], Companion]:
        """Return what begins one for a shard; it travels to workers, so it holds no more than it needs."""


@runtime_checkable
class OnGpus(Protocol):
    """A class of companions of which GPUs make some of the finished shard."""

    def with_gpus(
        self, recipe: Recipe, source: str
    ) -> tuple[Callable[[], Companion], Callable[[Artifact], Iterable[ArtifactJob]]]:
        """Return what begins the rest, as `for_source` does, and what gives the jobs that make the others."""


COMPANIONS: tuple[CompanionKind, ...] = (KeysOfRounds, LettersOfShard)
