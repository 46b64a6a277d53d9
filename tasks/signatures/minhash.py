"""Minhash: from a shard's text to sorted band keys (hashes of the bands of its MinHash signatures).

Rows in: `doc_id`, `text` of a shard. Rows out: for every document with a shingle, a row in each band: `band`
(uint8), `key` (uint64), `doc_id` (uint64), sorted by the three, in row groups of a single band, so that a range of
a band's keys can be read alone (see `tasks.signatures.bands`).

Ingest computes the keys of a shard while it has the text in memory, which saves reading it again. The stage reads
only shards without band keys, after `dedup` in a recipe was changed. The rows of documents that earlier stages
removed are dropped here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import ExactColumn, ExactRound, MinHashRound
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.signatures.bands import ALL_KEYS, read_range, rows_schema, write_band_rows
from zyda_flows.tasks.signatures.costs import minhash_cost
from zyda_flows.tasks.signatures.keys import VERSION, keys_of_texts
from zyda_flows.tasks.signatures.merging import merge_groups
from zyda_flows.tasks.signatures.shingles import folded_characters
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.equal_values import equal_texts
from zyda_flows.tasks.sources.named_values import column_of
from zyda_flows.tasks.sources.web_addresses import comparable_text
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import ShardHistory, Trail, load_histories, removed_ids
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key
from zyda_flows.tasks.storage.counts import Counts, total
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import footer_of, tables_of, write_artifact
from zyda_flows.tasks.workers.dask_cluster import SHARE
from zyda_flows.tasks.workers.engine import Engine, is_on_gpu


def columns_for(names: Sequence[str], dedup: Dedup) -> list[str]:
    """Return the columns of documents that a round reads: a source may lack the column of the keys."""
    column = column_of(dedup.key_column, names)
    return ["doc_id"] + ([column] if column else [])


def values_in(documents: pa.Table, dedup: Dedup) -> pa.LargeStringArray:
    """Return the values from which keys are computed, (n,): an empty text for a document without a value."""
    if dedup.key_column == "text":
        return as_one_array(documents.column("text"))
    values = equal_texts(documents, dedup.key_column)
    if isinstance(dedup, ExactRound) and isinstance(dedup.exact, ExactColumn) and dedup.exact.normalize:
        return pa.array(map(comparable_text, values.to_pylist()), pa.large_string())
    return values


class BandKeys:
    """The band keys of a shard, collected as its documents are ingested."""

    def __init__(self, dedup: Dedup) -> None:
        self.dedup = dedup
        self.doc_ids = list[NDArray[np.uint64]]()
        self.keys = list[NDArray[np.uint64]]()

    def add(self, documents: pa.Table) -> None:
        """Sketch some documents: `doc_id`, and the column of the keys."""
        for batch in documents.select(columns_for(documents.column_names, self.dedup)).to_batches():
            values = values_in(pa.Table.from_batches([batch]), self.dedup)
            keys, has_keys = keys_of_texts(values, self.dedup)
            self.keys.append(keys[has_keys])
            self.doc_ids.append(batch.column("doc_id").to_numpy()[has_keys])

    def write(self, folder: Folder, source: str, shard: Artifact) -> None:
        """Write the band keys of a shard of which all documents were added."""
        KeysOfShard(folder, source, shard, self.dedup).write_keys(*self.doc_ids_and_keys())

    def doc_ids_and_keys(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the collected ids and keys: (n,) and (n, bands), or (n, bands, 2) for wide keys."""
        return np.concatenate(self.doc_ids), np.concatenate(self.keys)


class KeysOfRounds:
    """The band keys of a shard for each round of deduplication: a companion of ingest."""

    @classmethod
    def for_source(cls, recipe: Recipe, source: str) -> "partial[KeysOfRounds]":
        """Return a function that begins the band keys of a shard, with only the required part of the recipe."""
        return partial(cls, rounds_with_keys(recipe, source))

    @classmethod
    def with_gpus(
        cls, recipe: Recipe, source: str
    ) -> "tuple[partial[KeysOfRounds], partial[list[KeysOfShard]]]":
        """Return functions that begin the keys of a shard on the CPU, and that return the jobs for the GPU."""
        rounds = rounds_with_keys(recipe, source)
        by_cpu = tuple(dedup for dedup in rounds if not dedup.has_signatures)
        by_gpu = tuple(dedup for dedup in rounds if dedup.has_signatures)
        return partial(cls, by_cpu), partial(keys_in_rounds, recipe.folder, source, by_gpu)

    def __init__(self, rounds: tuple[Dedup, ...]) -> None:
        self.rounds_keys = [BandKeys(dedup) for dedup in rounds]

    def add(self, documents: pa.Table) -> None:
        """Sketch some documents: `doc_id` and `text`."""
        for keys in self.rounds_keys:
            keys.add(documents)

    def write(self, folder: Folder, source: str, shard: Artifact) -> None:
        """Write the band keys of a shard of which all documents were added."""
        for keys in self.rounds_keys:
            keys.write(folder, source, shard)


def rounds_with_keys(recipe: Recipe, source: str) -> tuple[Dedup, ...]:
    """Return the rounds in which a source's documents need keys, without rounds that have equal keys."""
    if recipe.source(source).exempt and not recipe.publish_bands:
        return ()
    with_keys = [dedup for dedup in recipe.rounds if dedup.has_keys]
    return tuple({digest_of(dedup.key_parameters): dedup for dedup in with_keys}.values())


@dataclass(frozen=True)
class KeysOfShard(ArtifactJob):
    """The band keys of all documents of a shard."""

    stage, version = "minhash", VERSION

    shard: Artifact
    dedup: Annotated[Dedup, NotInKey("only the parameters of its keys count")]

    @property
    def name(self) -> str:
        return self.shard.name

    @property
    def also_in_key(self) -> Any:
        return self.dedup.key_parameters

    def make(self) -> Artifact:
        if is_on_gpu() and isinstance(self.dedup, MinHashRound):
            from zyda_flows.tasks.gpu.shard_keys import keys_of_shard  # CUDA's libraries come with it

            folded = folded_characters() if self.dedup.shingle == "words" else None
            return self.write_keys(*keys_of_shard(self.folder, self.shard, self.dedup, folded, self.sketched))
        names = columns_for(footer_of(self.folder, self.shard).schema.to_arrow_schema().names, self.dedup)
        return self.write_keys(*self.sketched(*tables_of(self.folder, self.shard, names)))

    def sketched(self, *tables: pa.Table) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the ids and keys of the documents with keys, (n,) and (n, bands), as the CPU computes them."""
        keys = BandKeys(self.dedup)
        for documents in tables:
            keys.add(documents)
        return keys.doc_ids_and_keys()

    def write_keys(self, doc_ids: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Artifact:
        """Write the keys, (n, bands), of the shard's documents with keys, (n,), in the shard's order."""

        def fill(scratch: Path) -> None:
            parts = ((b, keys[:, b], doc_ids) for b in range(self.dedup.key_bands))
            write_band_rows(scratch, parts, rows_schema(is_wide=self.dedup.is_wide))

        return write_artifact(self.folder, self.path, self.name, fill, counts=self.shard.counts)


@dataclass(frozen=True)
class RemainingKeys(ArtifactJob):
    """The band keys of a shard without those of removed documents."""

    stage, version = "keys-left", VERSION

    history: Annotated[ShardHistory, NotInKey("only the removed documents count, not other verdicts")]
    whole: Annotated[KeysOfShard, NotInKey("its key is in the key")]

    @property
    def name(self) -> str:
        return self.whole.name

    @cached_property
    def dropped_ids(self) -> NDArray[np.uint64]:
        return removed_ids(self.folder, self.history)

    @property
    def also_in_key(self) -> list[str]:
        return [self.whole.key, sha256(self.dropped_ids.tobytes()).hexdigest()]

    def make(self) -> Artifact:
        keys_of_all, dropped_ids, dedup = self.whole(), self.dropped_ids, self.whole.dedup

        def left_of(band: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
            keys, doc_ids = read_range(self.folder, [keys_of_all], band, ALL_KEYS)
            is_remaining = ~np.isin(doc_ids, dropped_ids)
            return keys[is_remaining], doc_ids[is_remaining]

        def fill(scratch: Path) -> None:
            parts = ((b, *left_of(b)) for b in range(dedup.key_bands))
            write_band_rows(scratch, parts, rows_schema(is_wide=dedup.is_wide))

        return write_artifact(self.folder, self.path, self.name, fill, counts=self.history.counts)


def keys_in_rounds(
    folder: Folder, source: str, rounds: tuple[Dedup, ...], shard: Artifact
) -> list[KeysOfShard]:
    return [KeysOfShard(folder, source, shard, dedup) for dedup in rounds]


def keys_of(folder: Folder, source: str, history: ShardHistory, dedup: Dedup) -> ArtifactJob:
    """Return the job that makes the band keys of a shard's remaining documents."""
    whole = KeysOfShard(folder, source, history.shard, dedup)
    return whole if history.is_whole else RemainingKeys(folder, source, history, whole)


@dataclass(frozen=True)
class KeysOfSource:
    """The band keys of a source's remaining documents, in few files, and the paths of intermediate files."""

    files: tuple[Artifact, ...]
    intermediate: tuple[str, ...]
    counts: Counts


def keys_of_source(
    dedup_round: Round, source: str, histories: Sequence[ShardHistory], stage: str
) -> KeysOfSource:
    """Make the missing band keys of a source's remaining documents, and merge those of a large source."""
    folder, dedup, name = dedup_round.folder, dedup_round.dedup, dedup_round.name_of(stage)
    jobs = [keys_of(folder, source, history, dedup) for history in histories]
    on = dedup_round.recipe.engine if dedup.has_signatures else Engine.CPU
    shards = fan_out(ArtifactJob.__call__, jobs, stage=name, source=source, engine=on, gpus=SHARE)
    *lower_levels, top_level = merge_groups(folder, source, shards, dedup.key_bands)
    merged = [shard.path for level in lower_levels for shard in level]
    whole = [job.whole.path for job in jobs if isinstance(job, RemainingKeys)]
    return KeysOfSource(tuple(top_level), (*merged, *whole), total(shard.counts for shard in shards))


def key(dedup_round: Round, trail: Trail) -> str:
    if dedup_round.recipe.source(trail.source).exempt:
        return stage_key("minhash", VERSION, "exempt", *trail.identities)
    return stage_key("minhash", VERSION, dedup_round.dedup.key_parameters, *trail.identities)


def takes_part(dedup_round: Round, source: str) -> bool:
    return dedup_round.dedup.has_keys and not dedup_round.recipe.source(source).exempt


@stage("minhash", key, enabled=takes_part, extends_trail=False, cost=minhash_cost)
def minhash(dedup_round: Round, trail: Trail) -> Manifest:
    """Sketch the remaining documents of a source, and merge the band keys of a large source."""
    source = trail.source
    keys = keys_of_source(dedup_round, source, load_histories(dedup_round.folder, trail), "minhash")
    column = dedup_round.dedup.key_column
    if column != "text" and trail.remaining.documents and not sum(file.rows for file in keys.files):
        warn(f"source {source}: no document has a value in {column!r}, so this round keeps all documents")
    return Manifest(
        stage="minhash",
        source=source,
        artifacts=keys.files,
        intermediate=keys.intermediate,
        entering=trail.remaining,
        out=keys.counts,
    )
