"""Search: find the repeated windows of all sources, in jobs on shards and on ranges of fingerprints.

1. Each shard writes its distinct fingerprints, by range.
2. Each range returns the fingerprints that are repeated in scope to the shards.
3. Each shard writes the distinct contexts of repeated fingerprints, by range.
4. Each range compares the windows of contexts, and returns the runs of repeated windows to the shards.

The rows of a shard are copied to a file of its own, so that an unchanged shard is not processed again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import Exchange, GatheredRows, gather_files, with_common_shift
from zyda_flows.tasks.passages.context_jobs import ContextsOfShard
from zyda_flows.tasks.passages.fingerprints import REPEATED
from zyda_flows.tasks.passages.range_jobs import RepeatedOfRange, RunsOfRange
from zyda_flows.tasks.passages.runs import RUNS
from zyda_flows.tasks.passages.search_jobs import (
    STAGE,
    FingerprintsOfShard,
    GatheredContexts,
    GatheredRowsOfSearch,
    RowsOfShard,
    ShardToSearch,
    searched,
)
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.finished import finished_record
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, write_record
from zyda_flows.textkernels.anchors import width_of

PART_BYTES = 96 << 20  # of contexts in a range, about
CONTEXT_BYTES = 128  # of the numbers of a context


def estimated_fingerprints(text_bytes: int, part: PassagePart) -> int:
    """Return the number of anchors in text, at most about: two in each window of hashes."""
    return text_bytes * 2 // (part.window - width_of(part.window) + 2)


def context_parts(contexts: int, part: PassagePart) -> int:
    """Return the number of parts of PART_BYTES that contexts need, at least about."""
    return (
        contexts * (CONTEXT_BYTES + part.window * 2 * (16 if part.units != "characters" else 1)) // PART_BYTES
    )


class Exchanged(Record):
    """The record of a finished exchange: a file for each shard."""

    artifacts: tuple[Artifact, ...]


class SearchResult(NamedTuple):
    """RUNS of each shard, and files that save work in later builds."""

    runs: list[Artifact]
    intermediate: list[Artifact]


@dataclass(frozen=True)
class PassageSearch:
    """The search for the repeated windows of a part.

    number: of the part in the recipe. planned: jobs of the whole stage, about.
    """

    folder: Folder
    shards: Sequence[ShardToSearch]
    part: PassagePart
    number: int
    planned: int

    def run_jobs(self, jobs: Sequence[Any]) -> list[Any]:
        return fan_out(Job.__call__, jobs, stage=STAGE, source=None, planned=self.planned)

    @property
    def settings(self) -> str:
        return searched(self.part)

    def run(self) -> SearchResult:
        """Return RUNS without PART for each shard."""
        naming = self.naming(estimated_fingerprints(self.text_bytes, self.part))
        found = self.run_on_shards(FingerprintsOfShard, naming)
        repeated = self.by_shard(found, naming, RepeatedOfRange, GatheredRowsOfSearch, REPEATED)
        naming = self.naming(0, context_parts(sum(artifact.rows for artifact in repeated), self.part))
        contexts = self.run_on_shards(ContextsOfShard, naming, [(artifact,) for artifact in repeated])
        runs = self.by_shard(contexts, naming, RunsOfRange, GatheredContexts, RUNS)
        return SearchResult(runs, [*found, *contexts])

    @property
    def text_bytes(self) -> int:
        return sum(shard.history.counts.bytes for shard in self.shards)

    def naming(self, rows: int, parts: int = 0) -> Naming:
        return Naming(self.number, max(Naming.for_rows(rows).bits, parts.bit_length()))

    def run_on_shards(
        self, kind: Callable[..., Any], naming: Naming, artifacts: Sequence[tuple[Artifact, ...]] = ()
    ) -> list[Artifact]:
        """Run a job on each shard that writes rows for the parts of a naming."""
        jobs = [
            kind(
                self.folder, shard.source, naming, number, artifacts[number] if artifacts else (),
                settings=self.settings, searched_shard=shard,
            )
            for number, shard in enumerate(self.shards)
        ]  # fmt: skip
        return self.run_jobs(with_common_shift(jobs, len(naming.numbers)))

    def by_shard(
        self,
        made: Sequence[Artifact],
        naming: Naming,
        range_job: Callable[..., Any],
        gathering: type[GatheredRows],
        schema: pa.Schema,
    ) -> list[Artifact]:
        """Exchange rows of shards by range, and the results of ranges by shard; return a file for each shard.

        All other files are removed when these are written. A record keeps them from being made again.
        """
        step = range_job(self.folder, None, naming, 0, tuple(made), settings=self.settings)
        path = step.path.removesuffix(".parquet") + ".json"
        if finished := finished_record(self.folder, path, Exchanged):
            return [*finished.artifacts]
        by_range = gather_files(step, made, len(naming.numbers), self.run_jobs, gathering)
        ranges = [
            range_job(self.folder, None, naming, number, (), by_range.files(number), settings=self.settings)
            for number in naming.numbers
        ]
        results: list[Artifact] = self.run_jobs(with_common_shift(ranges, len(self.shards)))
        by_number = gather_files(step, results, len(self.shards), self.run_jobs, GatheredRowsOfSearch)
        copies = self.copied(by_number, naming, schema)
        write_record(self.folder, path, Exchanged(artifacts=tuple(copies)))
        kept = {artifact.path for artifact in made}
        exchanged = {artifact.path for artifact in (*by_range.artifacts, *results, *by_number.artifacts)}
        self.folder.map(self.remove, sorted(exchanged - kept))
        return copies

    def remove(self, path: str) -> None:
        """Remove an artifact, its record first, so that it is not taken for damaged."""
        self.folder.remove(f"{path}.json")
        self.folder.remove(path)

    def copied(self, results: Exchange, naming: Naming, schema: pa.Schema) -> list[Artifact]:
        copies = [
            RowsOfShard(self.folder, shard.source, naming, number, (), results.files(number), schema=schema)
            for number, shard in enumerate(self.shards)
        ]
        return self.run_jobs(copies)
