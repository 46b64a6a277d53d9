"""The jobs of the search for repeated windows (`tasks.passages.search`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from zyda_flows.tasks.dedup.exchange import (
    GatheredRows,
    PartJob,
    RowsByPart,
)
from zyda_flows.tasks.dedup.part_tables import PART, PLACE
from zyda_flows.tasks.dedup.preference import Preference
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.passages.fingerprints import (
    FINGERPRINTS,
    REPEATED,
    DistinctFingerprints,
)
from zyda_flows.tasks.passages.units import VERSION as UNITS_VERSION
from zyda_flows.tasks.passages.units import units_of
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.recipe.passages import AnyPart, PassagePart
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import ShardHistory
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import write_parts
from zyda_flows.tasks.storage.tables import write_artifact, write_table
from zyda_flows.tasks.tokens.engine import TokenEngine, batches
from zyda_flows.tasks.tokens.stored import stored_engine

VERSION = 1
STAGE = "passages"
RANGE_BYTES = 128 << 20  # of contexts that a job compares at once, about
TEXTS = pa.schema([("doc_id", pa.uint64()), ("text", pa.large_string())])
PARTS = TypeAdapter[PassagePart](AnyPart)
NOT_SEARCHED = {"keep", "cut", "gap", "markdown", "drop_document"}


@dataclass(frozen=True)
class StoredTokenizer:
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
    tokenizer: StoredTokenizer
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


def searched(part: PassagePart) -> str:
    """Return the fields of a part on which its repeated windows depend, as JSON."""
    return part.model_dump_json(by_alias=True, exclude=NOT_SEARCHED)


@dataclass(frozen=True)
class SearchJob(PartJob[Artifact], ArtifactJob):
    """A job of the search. settings: the fields of the part of `passages`, from `searched`."""

    stage, version = STAGE, VERSION

    settings: str = ""

    @property
    def passages(self) -> PassagePart:
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
        return write_rows(self, self.rows(), [PART.name, "party"], shift=self.shift)


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
class GatheredContexts(GatheredRows):
    """Contexts of some shards, compressed."""

    stage = STAGE

    def make(self) -> Artifact:
        return write_rows(self, self.rows(), [PART.name, PLACE.name], compression="zstd")


def write_rows(
    job: RowsByPart | GatheredRows,
    rows: pa.Table,
    repeated: list[str],
    *,
    shift: int = 0,
    compression: str = "none",
) -> Artifact:
    """Write rows by part, 2**shift parts together. repeated: columns with few values."""

    def fill(scratch: Path) -> None:
        write_parts(scratch, rows, shift=shift, compression=compression, use_dictionary=repeated)

    return write_artifact(job.folder, job.path, job.name, fill)


@dataclass(frozen=True)
class GatheredRowsOfSearch(GatheredRows):
    """Rows of some files."""

    stage = STAGE
