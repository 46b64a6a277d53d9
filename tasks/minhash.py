"""Minhash: a shard's text to sorted band keys.

Rows in: `doc_id`, `text` of a shard. Rows out: for every document with a shingle, one row in each
band: `band` (uint8), `key` (uint64), `doc_id` (uint64), sorted by the three, in row groups of
one band each, so that a range of a band's keys can be read alone (see `tasks.bands`).

Ingest does this to a shard while it has the text in memory, which saves reading it again. The stage
reads only shards of which nobody has made the band keys: those of a recipe whose `dedup` has changed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.artifacts import (
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    shard_path,
    stage_key,
)
from tasks.bands import merge_groups, write_band_rows
from tasks.cluster import fan_out
from tasks.columns import text_buffers
from tasks.folding import UNICODE, word_hashes
from tasks.kernels import cpu
from tasks.recipe import Dedup, Recipe
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import tables_of, write_shard

VERSION = 1


@dataclass(frozen=True)
class Job:
    """One shard to minhash, on whichever worker."""

    folder: Folder
    source: str
    shard: Shard
    dedup: Dedup

    @property
    def path(self) -> str:
        key = stage_key("minhash", VERSION, signature_parameters(self.dedup), self.shard.digest)
        return shard_path("minhash", self.source, self.shard.name, key)


def signature_parameters(dedup: Dedup) -> dict[str, Any]:
    """Return what a band key depends on; the scope decides later who goes."""
    unicode = {"unicode": UNICODE} if dedup.shingle == "words" else {}
    return dedup.model_dump(exclude={"scope"}) | unicode


def signatures(texts: pa.LargeStringArray, dedup: Dedup) -> NDArray[np.uint64]:
    """Return the signature of each text: (n, values) uint64, all EMPTY where it has no shingle."""
    size: dict[str, Any] = {"width": dedup.width, "values": dedup.values}
    if dedup.shingle == "words":
        found: NDArray[np.uint64] = cpu.word_signatures(*word_hashes(texts), **size)
    else:
        found = cpu.signatures(*text_buffers(texts), **size)
    return found


def band_keys(texts: pa.LargeStringArray, dedup: Dedup) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the band keys of each text, (n, bands) uint64, and which texts have any, (n,) bool."""
    found = signatures(texts, dedup)
    keys: NDArray[np.uint64] = cpu.band_keys(found, bands=dedup.bands)
    return keys, found[:, 0] != cpu.EMPTY


class BandKeys:
    """The band keys of a shard, collected as its documents pass by."""

    def __init__(self, dedup: Dedup) -> None:
        self.dedup = dedup
        self.doc_ids = list[NDArray[np.uint64]]()
        self.keys = list[NDArray[np.uint64]]()

    def add(self, documents: pa.Table) -> None:
        """Sketch some documents: `doc_id` and `text`."""
        for batch in documents.select(["doc_id", "text"]).to_batches():
            keys, has_shingle = band_keys(batch.column("text"), self.dedup)
            self.keys.append(keys[has_shingle])
            self.doc_ids.append(batch.column("doc_id").to_numpy()[has_shingle])

    def write(self, folder: Folder, source: str, shard: Shard) -> Shard:
        """Write the band keys of a shard that has been added whole."""
        path = Job(folder, source, shard, self.dedup).path
        doc_ids, keys = np.concatenate(self.doc_ids), np.concatenate(self.keys)

        def fill(scratch: Path) -> None:
            write_band_rows(scratch, ((b, keys[:, b], doc_ids) for b in range(self.dedup.bands)))

        return write_shard(folder, path, shard.name, fill, counts=shard.counts)


def minhash_shard(job: Job) -> Shard:
    """Minhash one shard, unless that was done before; its rows are its documents' x bands."""
    if done := finished_shard(job.folder, job.path):
        return done
    found = BandKeys(job.dedup)
    for documents in tables_of(job.folder, job.shard, ["doc_id", "text"]):
        found.add(documents)
    return found.write(job.folder, job.source, job.shard)


def key(recipe: Recipe, ingested: Done) -> str:
    return stage_key("minhash", VERSION, signature_parameters(recipe.dedup), ingested.identity)


@stage_task("minhash", key=key)
def minhash(recipe: Recipe, ingested: Done) -> Manifest:
    """Minhash all the shards of a source, and merge the files of a large one."""
    folder = corpus_folder(recipe)
    source = str(ingested.source)
    jobs = [Job(folder, source, shard, recipe.dedup) for shard in load_manifest(folder, ingested).shards]
    shards = fan_out(minhash_shard, jobs, stage="minhash", source=source)
    *merged, last = merge_groups(folder, source, shards, recipe.dedup.bands)
    return Manifest(
        stage="minhash",
        source=source,
        shards=tuple(last),
        intermediate=tuple(shard.path for level in merged for shard in level),
        entering=ingested.out,
        out=ingested.out,
    )
