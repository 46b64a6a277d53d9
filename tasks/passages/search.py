"""Search: find the repeated windows of all sources, in jobs on shards and on ranges of fingerprints.

1. Each shard writes its distinct fingerprints, by range.
2. Each range returns to the shards those that are repeated in scope.
3. Each shard writes the distinct contexts of repeated fingerprints, by range.
4. Each range compares the windows of contexts, and returns the runs of repeated windows to the shards.

The rows of a shard are copied to a file of its own, so that a shard is not processed again if they have not changed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import (
    Exchange,
    GatheredRows,
    PartJob,
    RowsByPart,
    exchange_parts,
)
from zyda_flows.tasks.dedup.part_tables import PART, PLACE
from zyda_flows.tasks.dedup.preference import Preference
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.passages.contexts import CONTEXTS, RUNS, combined_contexts, contexts_of, runs_of
from zyda_flows.tasks.passages.fingerprints import (
    FINGERPRINTS,
    REPEATED,
    DistinctFingerprints,
    repeated_fingerprints,
)
from zyda_flows.tasks.passages.units import VERSION as UNITS_VERSION
from zyda_flows.tasks.passages.units import units_of
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.recipe.passages import AnyPart, Part
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob, Job
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import ShardHistory
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import write_parts
from zyda_flows.tasks.storage.tables import read_table, write_artifact, write_table
from zyda_flows.tasks.tokens.engine import TokenEngine, batches
from zyda_flows.tasks.tokens.stored import stored_engine
from zyda_flows.textkernels.anchors import width_of

VERSION = 1
STAGE = "passages"
PART_BYTES = 96 << 20  # of contexts in a range, about
CONTEXT_BYTES = 128  # of the numbers of a context
TEXTS = pa.schema([("doc_id", pa.uint64()), ("text", pa.large_string())])
PARTS = TypeAdapter[Part](AnyPart)
NOT_SEARCHED = {"keep", "cut", "gap", "markdown", "drop_document"}
run_jobs = partial(fan_out, Job.__call__, stage=STAGE, source=None)


@dataclass(frozen=True)
class Tokenizer:
    """The stored tokenizer of a corpus."""

    digest: str
    special_tokens: SpecialAs
    is_exact: bool

    def engine(self, folder: Folder) -> TokenEngine:
        return stored_engine(folder, self.digest, self.special_tokens, is_exact=self.is_exact)


@dataclass(frozen=True)
class ShardToSearch:
    """The remaining documents of a shard, and the order of preference."""

    source: str
    history: ShardHistory
    tokenizer: Tokenizer
    order: Annotated[Preference, NotInKey("`order_key` is a hash of it")]
    order_key: str

    def batches(self, folder: Folder) -> Iterator[tuple[pa.LargeStringArray, Any]]:
        """Yield the texts of some MiB of documents, and their ids."""
        for table in remaining_documents(folder, self.history, TEXTS):
            texts, doc_ids = as_one_array(table.column("text")), table.column("doc_id").to_numpy()
            at = 0
            for batch in batches(texts):
                yield batch, doc_ids[at : at + len(batch)]
                at += len(batch)


def searched(part: Part) -> str:
    """Return the fields of a part on which its repeated windows depend, as JSON."""
    return part.model_dump_json(by_alias=True, exclude=NOT_SEARCHED)


@dataclass(frozen=True)
class SearchJob(PartJob[Artifact], ArtifactJob):
    """A job of the search. settings: the fields of the part of `passages`, from `searched`."""

    stage, version = STAGE, VERSION

    settings: str = ""

    @property
    def passages(self) -> Part:
        return PARTS.validate_json(self.settings)

    @property
    def also_in_key(self) -> Any:
        return UNITS_VERSION


@dataclass(frozen=True)
class ShardJob(SearchJob):
    """A job about a shard, whose number is `part`."""

    part: Annotated[int, NotInKey("the output does not contain it")]
    searched_shard: ShardToSearch | None = None

    @property
    def name(self) -> str:
        return f"{self.naming.number}-{type(self).__name__.lower()}-{self.shard.history.shard.name}"

    @property
    def shard(self) -> ShardToSearch:
        assert self.searched_shard is not None
        return self.searched_shard

    @property
    def engine(self) -> TokenEngine | None:
        """The tokenizer, if units are tokens."""
        return self.shard.tokenizer.engine(self.folder) if self.passages.units == "tokens" else None


@dataclass(frozen=True)
class FingerprintsOfShard(ShardJob, RowsByPart):
    """The distinct fingerprints of a shard: FINGERPRINTS."""

    def rows(self) -> pa.Table:
        part = self.passages
        found = DistinctFingerprints(within=part.within)
        for texts, doc_ids in self.shard.batches(self.folder):
            found.add(units_of(texts, part, self.engine), part, doc_ids)
        found.merge()
        party = found.is_repeated.astype(np.uint16)
        if part.scope == "across" and not part.within:
            party = sources_of(found.doc_ids)
        numbers = self.naming.parts(found.fingerprints)
        return pa.table([numbers, found.fingerprints, party], schema=FINGERPRINTS)

    def make(self) -> Artifact:
        return write_rows(self, self.rows(), ["part", "party"])


@dataclass(frozen=True)
class RepeatedOfRange(SearchJob, RowsByPart):
    """The repeated fingerprints of a range, for each shard: REPEATED."""

    def rows(self) -> pa.Table:
        (fingerprints, parties), places = self.part_columns(FINGERPRINTS)
        return repeated_fingerprints(fingerprints, parties, places, self.passages)


@dataclass(frozen=True)
class RowsOfShard(PartJob[Artifact], ArtifactJob):
    """The rows of all ranges for a shard, whose number is `part`, without PART."""

    stage, version = STAGE, VERSION

    schema: pa.Schema = REPEATED

    def make(self) -> Artifact:
        assert self.shared_files
        tables, _ = self.shared_files.part(self.part)
        rows = pa.concat_tables([self.schema.empty_table(), *tables]).drop_columns(PART.name)
        return write_table(self.folder, self.path, self.name, rows)


@dataclass(frozen=True)
class ContextsOfShard(ShardJob, RowsByPart):
    """The distinct contexts of a shard's repeated fingerprints: CONTEXTS. artifacts: its RowsOfShard."""

    def rows(self) -> pa.Table:
        (repeated,) = self.artifacts
        fingerprints = np.sort(read_table(self.folder, repeated).column("fingerprint").to_numpy())
        contexts = combined_contexts(pa.concat_tables([EMPTY_CONTEXTS, *self.tables(fingerprints)]))
        numbers = self.naming.parts(contexts.column("fingerprint").to_numpy())
        return contexts.add_column(0, PART, pa.array(numbers)).cast(CONTEXTS)

    def tables(self, fingerprints: Any) -> Iterator[pa.Table]:
        if not len(fingerprints):
            return
        for texts, doc_ids in self.shard.batches(self.folder):
            units = units_of(texts, self.passages, self.engine)
            ranks = self.shard.order.priority(doc_ids)
            yield from contexts_of(units, self.passages, fingerprints, doc_ids, ranks)

    def make(self) -> Artifact:
        return write_rows(self, self.rows(), ["part"], compression="zstd")


EMPTY_CONTEXTS = CONTEXTS.empty_table().drop_columns(PART.name)


@dataclass(frozen=True)
class GatheredContexts(GatheredRows):
    """Contexts of some shards, compressed."""

    stage = STAGE

    def make(self) -> Artifact:
        return write_rows(self, self.rows(), [PART.name, PLACE.name], compression="zstd")


@dataclass(frozen=True)
class RunsOfRange(SearchJob, RowsByPart):
    """The runs of repeated windows in a range of fingerprints, for each shard: RUNS."""

    def rows(self) -> pa.Table:
        assert self.shared_files
        tables, places = self.shared_files.part(self.part)
        contexts = pa.concat_tables([CONTEXTS.empty_table(), *tables]).drop_columns(PART.name)
        return runs_of(contexts, places, self.passages)


def write_rows(
    job: RowsByPart | GatheredRows, rows: pa.Table, repeated: list[str], compression: str = "none"
) -> Artifact:
    """Write rows by part. repeated: columns with few values."""

    def fill(scratch: Path) -> None:
        write_parts(scratch, rows, shift=job.shift, compression=compression, use_dictionary=repeated)

    return write_artifact(job.folder, job.path, job.name, fill)


def estimated_fingerprints(text_bytes: int, part: Part) -> int:
    """Return the number of anchors in text, at most about: two in each window of hashes."""
    return text_bytes * 2 // (part.window - width_of(part.window) + 2)


@dataclass(frozen=True)
class Search:
    """The search for the repeated windows of a part. number: of the part in the recipe."""

    folder: Folder
    shards: Sequence[ShardToSearch]
    part: Part
    number: int

    @property
    def settings(self) -> str:
        return searched(self.part)

    def run(self) -> list[Artifact]:
        """Return RUNS without PART for each shard."""
        naming = self.naming(estimated_fingerprints(self.text_bytes, self.part))
        repeated = self.by_shard(
            self.jobs(FingerprintsOfShard, naming), naming, RepeatedOfRange, GatheredRowsOfSearch, REPEATED
        )
        rows = sum(artifact.rows for artifact in repeated)
        row_bytes = CONTEXT_BYTES + self.part.window * 2 * (16 if self.part.units != "characters" else 1)
        naming = self.naming(0, rows * row_bytes // PART_BYTES)
        contexts = self.jobs(ContextsOfShard, naming, [(artifact,) for artifact in repeated])
        return self.by_shard(contexts, naming, RunsOfRange, GatheredContexts, RUNS)

    @property
    def text_bytes(self) -> int:
        return sum(shard.history.counts.bytes for shard in self.shards)

    def naming(self, rows: int, parts: int = 0) -> Naming:
        return Naming(self.number, max(Naming.for_rows(rows).bits, parts.bit_length()))

    def jobs(
        self, kind: Callable[..., Any], naming: Naming, artifacts: Sequence[tuple[Artifact, ...]] = ()
    ) -> list[Any]:
        return [
            kind(
                self.folder, shard.source, naming, number, artifacts[number] if artifacts else (),
                settings=self.settings, searched_shard=shard,
            )
            for number, shard in enumerate(self.shards)
        ]  # fmt: skip

    def by_shard(
        self,
        jobs: Sequence[RowsByPart],
        naming: Naming,
        of_range: Callable[..., Any],
        gathering: type[GatheredRows],
        schema: pa.Schema,
    ) -> list[Artifact]:
        """Exchange rows of shards by range, and the results of ranges by shard; return a file for each shard."""
        by_range = exchange_parts(jobs, len(naming.numbers), run_jobs, gathering)
        ranges = [
            of_range(
                self.folder, None, naming, number, (), by_range.files(number), settings=self.settings
            )
            for number in naming.numbers
        ]
        results = exchange_parts(ranges, len(self.shards), run_jobs, GatheredRowsOfSearch)
        return self.copied(results, naming, schema)

    def copied(self, results: Exchange, naming: Naming, schema: pa.Schema) -> list[Artifact]:
        copies = [
            RowsOfShard(
                self.folder, shard.source, naming, number, (), results.files(number), schema=schema
            )
            for number, shard in enumerate(self.shards)
        ]
        return run_jobs(copies)


@dataclass(frozen=True)
class GatheredRowsOfSearch(GatheredRows):
    """Rows of some files."""

    stage = STAGE
