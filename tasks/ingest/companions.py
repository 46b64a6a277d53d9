"""Companions of ingest: artifacts that are computed from a shard while its text is in memory.

A companion (a side output, in stream processing) receives the documents of a shard while it is written, and writes
its artifact under a key that contains the shard's digest. The stage that needs the artifact finds it by that key,
and computes it if it is missing. A companion is one entry in COMPANIONS. In a build with GPUs, these compute the
artifacts from the finished shard, while the CPUs continue with the next shard.
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
    """Receives the documents of a shard: `doc_id`, the counts, `text` and the source's own columns."""

    def add(self, documents: pa.Table) -> None:
        """Process further documents of the shard."""

    def write(self, folder: Folder, source: str, shard: Artifact) -> None:
        """Write the artifact, after all documents of the shard have been added."""


class CompanionKind(Protocol):
    """A class of companions. If GPUs can compute it too, it is also OnGpus."""

    def for_source(self, recipe: Recipe, source: str) -> Callable[[], Companion]:
        """Return a function that makes the companion of a shard; it is sent to workers, so it should be small."""


@runtime_checkable
class OnGpus(Protocol):
    """A class of companions that GPUs can compute from the finished shard, in whole or in part."""

    def with_gpus(
        self, recipe: Recipe, source: str
    ) -> tuple[Callable[[], Companion], Callable[[Artifact], Iterable[ArtifactJob]]]:
        """Return the function of `for_source` for the part of the CPUs, and the function for a shard's GPU jobs."""


COMPANIONS: tuple[CompanionKind, ...] = (KeysOfRounds, LettersOfShard)
