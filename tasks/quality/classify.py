"""Classify: run a quality model on the remaining documents.

Rows out: `doc_id` and the columns of the model's form (see `tasks.quality.forms`), sorted by doc_id. This is the
most expensive stage. If other documents of a shard remain than in an earlier build, only documents without an
earlier answer are classified.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved, bad_input
from zyda_flows.tasks.quality.forms import Model, load_model
from zyda_flows.tasks.quality.ingested import read_ingest_facts
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.sources.register import file_and_row_of
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import SourceSize, StageCost, Workload
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.progress import reporting_progress
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_jobs
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import WORK, Manifest, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import read_table, tables_of
from zyda_flows.tasks.workers.engine import Engine

VERSION = 1
NO_NUMBER = "Check the weights of the model, or remove the document from its file; then build again."


@dataclass(frozen=True)
class AnswersForShard(VerdictJob):
    """The answers of a model for the remaining documents of a shard."""

    stage, version = "classify", VERSION

    model: Annotated[Model, NotInKey("its digest is in the key")]
    max_tokens: int
    # If it is None, the best device of the worker.
    device: Annotated[str | None, NotInKey("its precision is in the key")]

    @property
    def also_in_key(self) -> list[Any]:
        return [self.model.digest, self.model.precision(self.device)]

    @property
    def answers(self) -> str:
        """The folder of all answers of the model for this shard, in the precision of this machine."""
        params = [self.max_tokens, *self.also_in_key]
        key = stage_key(self.stage, self.version, params, self.history.shard.digest)
        return f"{WORK}/{self.stage}/{self.source}/{self.name}-{key}"

    @property
    def path(self) -> str:
        return f"{self.answers}/{digest_of(','.join(self.history.digests[1:]))}.parquet"

    @property
    def schema(self) -> pa.Schema:
        return self.model.table_schema

    @property
    def added_columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.model.added_columns)

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        earlier = self.earlier_answers()
        ids = remaining.column("doc_id").to_numpy()
        is_known = np.isin(ids, earlier.column("doc_id").to_numpy())
        new_answers = [self.classified(ids[~is_known])] if not is_known.all() else []
        is_remaining = pc.is_in(earlier.column("doc_id"), pa.array(ids))
        table = pa.concat_tables([earlier.filter(is_remaining), *new_answers]).sort_by("doc_id")
        self.expect_numbers(str(self.source), table)
        if len(table) != self.history.counts.documents:
            raise NotConserved(
                f"{self.whose}: expected {self.history.counts.documents:,} answers of the model, got {len(table):,}"
            )
        return table

    def expect_numbers(self, source: str, table: pa.Table) -> None:
        """Raise BadInput for the first document whose answer is not a finite number."""
        for field in self.model.added_columns:
            if not pa.types.is_floating(field.type):
                continue
            invalid = np.flatnonzero(~np.isfinite(table.column(field.name).to_numpy()))
            if len(invalid):
                url, row = file_and_row_of(self.folder, source, table.column("doc_id")[invalid[0]].as_py())
                answer = (
                    f"{field.name} {table.column(field.name)[invalid[0]].as_py()}, expected a finite number"
                )
                fault = f"classify.model: {self.model.name} answers {answer}"
                error = bad_input(source, fault, file=url, row=row)
                error.advice = NO_NUMBER
                raise error

    def earlier_answers(self) -> pa.Table:
        """Return the answers of earlier builds for documents of this shard, each document once."""
        records = [path for path in self.folder.files(self.answers) if path.endswith(".parquet.json")]
        shards = [finished_artifact(self.folder, path.removesuffix(".json")) for path in records]
        tables = [self.model.table_schema.empty_table()]
        seen_ids = np.empty(0, np.uint64)
        for shard in filter(None, shards):
            table = read_table(self.folder, shard)
            ids = table.column("doc_id").to_numpy()
            # The files of earlier builds overlap: each has the answers for all documents that remained then.
            tables.append(table.filter(pa.array(~np.isin(ids, seen_ids))))
            seen_ids = np.union1d(seen_ids, ids)
        return pa.concat_tables(tables)

    def classified(self, doc_ids: NDArray[np.uint64]) -> pa.Table:
        """Run the model on documents of the shard. doc_ids: uint64, (n,), ascending."""
        answers = load_model(self.model, self.max_tokens, self.device)
        tables = tables_of(self.folder, self.history.shard, ["doc_id", "text"])
        documents = pa.concat_tables([table.filter(pc.field("doc_id").isin(doc_ids)) for table in tables])
        with reporting_progress(self.stage, self.source, self.name):
            columns = answers(documents.column("text"))
        return pa.table([documents.column("doc_id"), *columns], schema=self.model.table_schema)


def key(recipe: Recipe, trail: Trail) -> str:
    """Return the key of the stage. The model is a part of the trail, because ingest records it."""
    classify = recipe.source(trail.source).classify
    return stage_key("classify", VERSION, [classify.max_tokens] if classify else None, *trail.identities)


def has_model(recipe: Recipe, source: str) -> bool:
    return recipe.source(source).classify is not None


def cost(workload: Workload, _: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the models that were measured, on a core or on the device of the trial."""
    sources = [source for source in workload.sources.values() if source.model]
    spent = sum((cost_of_model(source, workload.workers) for source in sources), Spent())
    if sources:
        yield StageCost(name, spent)


def cost_of_model(source: SourceSize, workers: int) -> Spent:
    """Return the cost of a source's model if no document is removed as a duplicate."""
    assert source.model is not None
    shards = len(source.shards)
    seconds = source.model.seconds * source.entering_model + source.model.loading * min(workers, shards)
    return Spent(calls=shards, cpu=seconds, files=2 * shards, requests=8 * shards)


@stage("classify", key, enabled=has_model, cost=cost)
def classify(recipe: Recipe, trail: Trail) -> Manifest:
    """Classify the remaining documents of a source."""
    settings = recipe.source(trail.source).classify
    assert settings is not None
    folder = recipe.folder
    model = read_ingest_facts(folder, trail).model
    assert model is not None
    device = "cpu" if recipe.engine is Engine.CPU else None
    jobs = [
        AnswersForShard(folder, trail.source, history, model, settings.max_tokens, device)
        for history in load_histories(folder, trail)
    ]
    return run_jobs("classify", trail, jobs, engine=recipe.engine)
