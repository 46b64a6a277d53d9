"""Classify: a quality model over the documents that deduplication left.

Rows out: `doc_id` and either `quality_pred` (string), `quality_prob` (float32) or `score` (float32),
`int_score` (int8), sorted by doc_id. This is the costliest stage, so a shard of which other
documents are left than last time has only those classified that are new.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.artifacts import (
    WORK,
    Done,
    Manifest,
    Shard,
    corpus_folder,
    finished_shard,
    load_manifest,
    stage_key,
)
from tasks.cluster import fan_out
from tasks.quality import Model
from tasks.recipe import Recipe
from tasks.records import digest_of
from tasks.removals import gone_ids
from tasks.stage import stage_task
from tasks.storage import Folder
from tasks.tables import read_table, tables_of, write_table

VERSION = 2


@dataclass(frozen=True)
class Job:
    """One shard to classify, on whichever worker."""

    folder: Folder
    source: str
    shard: Shard
    removed: Shard
    model: Model
    max_tokens: int

    @property
    def answers(self) -> str:
        """The folder of all that the model ever said about this shard, on such a machine."""
        from tasks.models import precision

        asked = [self.model.digest, self.max_tokens, precision()]
        key = stage_key("classify", VERSION, asked, self.shard.digest)
        return f"{WORK}/classify/{self.source}/{self.shard.name}-{key}"

    @property
    def path(self) -> str:
        return f"{self.answers}/{digest_of(self.removed.digest)}.parquet"


def classify_shard(job: Job) -> Shard:
    """Classify one shard, unless that was done before."""
    if done := finished_shard(job.folder, job.path):
        return done
    earlier = earlier_answers(job)
    left = documents_left(job, gone_ids(job.folder, job.removed).to_numpy())
    known = np.isin(left, earlier.column("doc_id").to_numpy())
    tables = [classified(job, left[~known])] if not known.all() else []
    wanted = pc.is_in(earlier.column("doc_id"), pa.array(left))
    table = pa.concat_tables([earlier.filter(wanted), *tables]).sort_by("doc_id")
    return write_table(job.folder, job.path, job.shard.name, table, counts=job.removed.counts)


def documents_left(job: Job, gone: NDArray[np.uint64]) -> NDArray[np.uint64]:
    ids = read_table(job.folder, job.shard, ["doc_id"]).column("doc_id").to_numpy()
    return np.setdiff1d(ids, gone, assume_unique=True)


def earlier_answers(job: Job) -> pa.Table:
    """Return what the model said about documents of this shard in earlier builds, each once."""
    files = [path for path in job.folder.files(job.answers) if path.endswith(".parquet.json")]
    done = [finished_shard(job.folder, path.removesuffix(".json")) for path in files]
    tables = [job.model.table_schema.empty_table()]
    seen = np.empty(0, np.uint64)
    for shard in filter(None, done):
        table = read_table(job.folder, shard)
        ids = table.column("doc_id").to_numpy()
        tables.append(table.filter(pa.array(~np.isin(ids, seen))))
        seen = np.union1d(seen, ids)
    return pa.concat_tables(tables)


def classified(job: Job, doc_ids: NDArray[np.uint64]) -> pa.Table:
    """Run the model over some documents of the shard."""
    from tasks.models import load_classifier

    model = job.model
    classifier = load_classifier(model.name, model.revision, model.digest, job.max_tokens)
    tables = tables_of(job.folder, job.shard, ["doc_id", "text"])
    chosen = pa.concat_tables([table.filter(pc.field("doc_id").isin(doc_ids)) for table in tables])
    texts, ids = chosen.column("text").to_pylist(), chosen.column("doc_id")
    found = classifier.predict(texts) if classifier.labels else classifier.score(texts)
    return pa.table([ids, *(pa.array(column) for column in found)], schema=model.table_schema)


def key(recipe: Recipe, ingested: Done, removed: Done) -> str:
    """Hash what was asked; which model it was asked of is part of what ingest passed on."""
    classify = recipe.source(str(ingested.source)).classify
    asked = [classify.max_tokens] if classify else None
    return stage_key("classify", VERSION, asked, ingested.identity, removed.identity)


@stage_task("classify", key=key)
def classify(recipe: Recipe, ingested: Done, removed: Done) -> Manifest:
    """Classify what deduplication left of a source, if the recipe asks for it."""
    folder, source = corpus_folder(recipe), str(ingested.source)
    asked = recipe.source(source).classify
    shards = list[Shard]()
    if asked:
        whole = load_manifest(folder, ingested)
        model = Model.model_validate(whole.facts["model"])
        pairs = zip(whole.shards, load_manifest(folder, removed).shards, strict=True)
        jobs = [Job(folder, source, shard, gone, model, asked.max_tokens) for shard, gone in pairs]
        shards = fan_out(classify_shard, jobs, stage="classify", source=source, on_gpu=True)
    return Manifest(
        stage="classify", source=source, shards=tuple(shards), entering=removed.out, out=removed.out
    )
