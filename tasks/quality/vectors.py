"""Vectors: publish the vectors of the kept documents that a judge judged, in 8 bits.

They are published as `vectors/`, in a file for each judge and shard. Rows out: `doc_id`, `scale` (float32) and
`vector` (int8), whose product is about the vector. Documents that the judge did not judge have no row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.accounts.published import PublishedVectors
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.quality.stored_vectors import STAGE, StoredVectors
from zyda_flows.tasks.quality.vector_body import VectorBody
from zyda_flows.tasks.quality.vector_forms import expect_body, quantised
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import ShardHistory, Trail, load_histories, load_remaining
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, write_artifact
from zyda_flows.tasks.workers.engine import Engine

VERSION = 1
BYTES_OF_ROW = 12  # of a document, beside its vector: its id and its scale
BYTES_STORED = 4  # of a number of a stored vector


class VectorsOfJudge(Record):
    """The vectors of a judge in a shard. largest: relative error. errors: the sum of all relative errors."""

    source: str
    judge: str
    artifact: Artifact
    dims: int
    largest: float
    errors: float


class VectorFacts(Facts):
    """The facts of the stage: the accounts of the published vectors of each judge and source."""

    accounts: tuple[PublishedVectors, ...] = ()


@dataclass(frozen=True)
class VectorsOfShard(RecordJob[VectorsOfJudge]):
    """The vectors of a judge for the kept documents of a shard. classify: the name of the judge's stage."""

    stage, version, kind = STAGE, VERSION, VectorsOfJudge

    source: str
    history: ShardHistory
    judge: str
    classify: str
    model: Annotated[Model, NotInKey("the digest of the body is in the key")]
    body: VectorBody
    max_tokens: Annotated[int, NotInKey("in the digest of the body, if texts are cut")]
    device: Annotated[str | None, NotInKey("its precision is in the key")]

    @property
    def name(self) -> str:
        return f"{self.judge}/{self.source}/{self.history.shard.name}"

    @property
    def stored(self) -> StoredVectors:
        shard = self.history.shard
        return StoredVectors(
            self.folder, self.source, shard, self.model, self.body, self.max_tokens, self.device
        )

    @property
    def also_in_key(self) -> str:
        return self.model.precision(self.device)

    @property
    def path(self) -> str:
        """A path in the folder of the stored vectors, whose key keeps both from being cleaned."""
        return f"{self.stored.path}/published-{self.judge}-{self.key}.parquet"

    def make(self) -> VectorsOfJudge:
        errors = list[float]()
        artifact = write_artifact(
            self.folder, self.path, self.name, lambda scratch: errors.extend(self.fill(scratch))
        )
        return self.recorded(
            VectorsOfJudge(
                source=self.source,
                judge=self.judge,
                artifact=artifact,
                dims=self.body.dims,
                largest=max(errors, default=0),
                errors=fsum(errors),
            )
        )

    def fill(self, scratch: Path) -> Iterator[float]:
        """Write the vectors; yield their relative errors."""
        vector = pa.list_(pa.int8(), self.body.dims)
        schema = pa.schema([("doc_id", pa.uint64()), ("scale", pa.float32()), ("vector", vector)])
        with parquet_writer(scratch, schema) as writer:
            for ids, exact in self.stored.batches(self.kept_and_judged()):
                scales, numbers, errors = quantised(exact, self.body.unit)
                lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), type=vector)
                writer.write_table(pa.table([pa.array(ids), pa.array(scales), lists], schema=schema))
                yield from errors.tolist()

    def kept_and_judged(self) -> Ids:
        """Return the documents that are kept and have an answer of the judge: (n,), ascending."""
        kept = load_remaining(self.folder, self.history).column("doc_id").to_numpy()
        answers = next(output for output in self.history.outputs if output.stage == self.classify)
        judged = read_table(self.folder, answers.artifact, ["doc_id"]).column("doc_id").to_numpy()
        return kept[np.isin(kept, judged, assume_unique=True)]


def has_vectors(recipe: Recipe, _: str) -> bool:
    return bool(recipe.publish_vectors)


def published_bodies(recipe: Recipe, trail: Trail) -> Iterator[tuple[Judge, Model, VectorBody]]:
    """Yield the judges of a source whose vectors are published. Raises BadInput for a model without vectors."""
    models = {model.judge: model for model in read_ingest_facts(recipe.folder, trail).models}
    for judge in recipe.judges_of(trail.source):
        if judge.name in recipe.publish_vectors:
            model = models[judge.name]
            yield judge, model, expect_body(model, judge.max_tokens)


def key(recipe: Recipe, trails: list[Trail]) -> str:
    bodies = [
        [trail.source, model.judge, body.model_dump()]
        for trail in trails
        for _, model, body in published_bodies(recipe, trail)
    ]
    return stage_key(STAGE, VERSION, bodies, *(identity for trail in trails for identity in trail.identities))


def cost(workload: Workload, subject: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the vectors, which `classify` has computed for the answers."""
    assert isinstance(subject, Recipe)
    for source, size in workload.sources.items():
        for judge in subject.judges_of(source):
            tried = size.models.get(judge.name)
            if tried is None or judge.name not in subject.publish_vectors:
                continue
            documents = size.documents * size.kept * tried.judged
            spent = Spent(
                calls=len(size.shards),
                read=round(documents * tried.dims * BYTES_STORED),
                written=round(documents * (tried.dims + BYTES_OF_ROW)),
                files=2 * len(size.shards),
                requests=8 * len(size.shards),
            )
            yield StageCost(name, spent)


@stage(STAGE, key, scope="corpus", inputs=("trails",), enabled=has_vectors, published_as=STAGE, cost=cost)
def vectors(recipe: Recipe, trails: list[Trail]) -> Manifest:
    """Write the vectors of all sources. Raises NotConserved if a vector is missing."""
    folder = recipe.folder
    jobs = [
        VectorsOfShard(
            folder=folder,
            source=trail.source,
            history=history,
            judge=judge.name,
            classify=Judged(recipe, judge.name).name_of("classify"),
            model=model,
            body=body,
            max_tokens=judge.max_tokens,
            device="cpu" if recipe.engine is Engine.CPU else None,
        )
        for trail in trails
        for judge, model, body in published_bodies(recipe, trail)
        for history in load_histories(folder, trail)
    ]
    made: list[VectorsOfJudge] = fan_out(
        RecordJob.__call__, jobs, stage=STAGE, source=None, engine=recipe.engine
    )
    found = tuple(accounts(made))
    expect_conserved(recipe, trails, found)
    return Manifest(
        stage=STAGE,
        artifacts=tuple(sorted((each.artifact for each in made), key=lambda artifact: artifact.name)),
        facts=VectorFacts(accounts=found).written(),
    )


def expect_conserved(recipe: Recipe, trails: Sequence[Trail], found: Sequence[PublishedVectors]) -> None:
    """Raise NotConserved unless each kept document has a vector; with `only_if`, at most each."""
    kept = {trail.source: trail.remaining.documents for trail in trails}
    partial = {(source, judge.name) for source in kept for judge in recipe.judges_of(source) if judge.only_if}
    for each in found:
        documents, is_partial = kept[each.source], (each.source, each.judge) in partial
        if each.documents > documents or (each.documents < documents and not is_partial):
            raise NotConserved(
                f"vectors of judge {each.judge}, source {each.source}: {each.documents:,} vectors of "
                f"{documents:,} kept documents"
            )


def accounts(made: Sequence[VectorsOfJudge]) -> Iterator[PublishedVectors]:
    """Yield the account of each judge and source.

    Errors have four digits, because the last digits of their sums depend on the machine.
    """
    for source, judge in dict.fromkeys((each.source, each.judge) for each in made):
        own = [each for each in made if (each.source, each.judge) == (source, judge)]
        documents = sum(each.artifact.rows for each in own)
        mean = fsum(each.errors for each in own) / max(1, documents)
        yield PublishedVectors(
            judge=judge,
            source=source,
            dimensions=own[0].dims,
            documents=documents,
            mean_error=float(f"{mean:.4g}"),
            largest_error=float(f"{max(each.largest for each in own):.4g}"),
        )
