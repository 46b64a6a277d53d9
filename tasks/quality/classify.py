"""Classify: run the model of a judge on the remaining documents, or on documents for which its `only_if` is true.

Rows out: `doc_id` and the columns of the model's form (see `tasks.quality.forms`) of each judged document, sorted
by doc_id. This is the most expensive stage. If other documents of a shard remain than in an earlier build, only
documents without an earlier answer are classified.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved, bad_input
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.conditions import Condition, check_conditions, only_if
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.quality.forms import Model, load_model
from zyda_flows.tasks.quality.ingested import read_columns, read_ingest_facts
from zyda_flows.tasks.quality.stored_vectors import StoredVectors
from zyda_flows.tasks.quality.vector_body import VectorBody
from zyda_flows.tasks.quality.vector_forms import load_vectors, stored_bodies
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.sources.register import file_and_row_of
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import SourceSize, StageCost, Workload
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.progress import reporting_progress
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob, run_counting_jobs
from zyda_flows.tasks.stage.verdicts import Trail, counts_of, load_histories
from zyda_flows.tasks.storage.artifacts import WORK, Manifest, stage_key
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import read_table, tables_of
from zyda_flows.tasks.workers.engine import Engine

VERSION = 1
JUDGED = "judged"
NO_NUMBER = "Check the weights of the model, or remove the document from its file; then build again."


@dataclass(frozen=True)
class AnswersForShard(VerdictJob):
    """The answers of a model for the remaining documents of a shard.

    step: the name of the stage for the judge. condition: for the documents to judge; None for all documents.
    table_schema: of the columns that the condition reads. body: of the model, if its vectors are stored.
    """

    stage, version = "classify", VERSION

    step: Annotated[str, NotInKey("only for the progress")]
    model: Annotated[Model, NotInKey("its digest is in the key")]
    max_tokens: int
    # If it is None, the best device of the worker.
    device: Annotated[str | None, NotInKey("its precision is in the key")]
    condition: Annotated[Condition | None, NotInKey("its params are in the path")]
    table_schema: Annotated[pa.Schema, NotInKey("follows from the condition and the shard")]
    body: Annotated[VectorBody | None, NotInKey("answers are the same without stored vectors")]

    @property
    def also_in_key(self) -> list[Any]:
        return [self.model.digest, self.model.precision(self.device), *self.added_columns]

    @property
    def answers(self) -> str:
        """The folder of all answers of the model for this shard, in the precision of this machine."""
        params = [self.max_tokens, *self.also_in_key]
        key = stage_key(self.stage, self.version, params, self.history.shard.digest)
        return f"{WORK}/{self.stage}/{self.source}/{self.name}-{key}"

    @property
    def path(self) -> str:
        params = self.condition.params if self.condition else []
        return f"{self.answers}/{digest_of(','.join([*self.history.digests[1:], *params]))}.parquet"

    @property
    def schema(self) -> pa.Schema:
        return self.model.table_schema

    @property
    def added_columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.model.added_columns)

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        earlier = self.earlier_answers()
        ids = self.ids_to_judge(remaining)
        is_known = np.isin(ids, earlier.column("doc_id").to_numpy())
        new_answers = [self.classified(ids[~is_known])] if not is_known.all() else []
        is_remaining = pc.is_in(earlier.column("doc_id"), pa.array(ids))
        table = pa.concat_tables([earlier.filter(is_remaining), *new_answers]).sort_by("doc_id")
        self.expect_numbers(str(self.source), table)
        if len(table) != len(ids):
            raise NotConserved(
                f"{self.whose}: expected {len(ids):,} answers of the model, got {len(table):,}"
            )
        return table

    def other_counts(self, table: pa.Table, remaining: pa.Table) -> dict[str, Counts]:
        return {JUDGED: counts_of(remaining, table.column("doc_id").to_numpy())}

    def ids_to_judge(self, remaining: pa.Table) -> Ids:
        """Return the ids of the documents to judge: uint64, (n,), ascending."""
        if self.condition is None:
            return remaining.column("doc_id").to_numpy()
        ids = [np.empty(0, np.uint64)]
        for documents in remaining_documents(self.folder, self.history, self.table_schema):
            if len(documents):
                mask = self.condition.mask(self.folder, documents)
                ids.append(documents.column("doc_id").to_numpy()[mask])
        return np.concatenate(ids)

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
                fault = f"{self.model.field}.model: {self.model.name} answers {answer}"
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
        if (stored := self.stored) is not None:
            return self.answered_by_vectors(doc_ids, stored)
        answers = load_model(self.model, self.max_tokens, self.device)
        tables = tables_of(self.folder, self.history.shard, ["doc_id", "text"])
        documents = pa.concat_tables([table.filter(pc.field("doc_id").isin(doc_ids)) for table in tables])
        with reporting_progress(self.step, self.source, self.name):
            columns = answers(documents.column("text"))
        return pa.table([documents.column("doc_id"), *columns], schema=self.model.table_schema)

    @property
    def stored(self) -> StoredVectors | None:
        """The stored vectors of the shard; None if vectors are not stored."""
        if self.body is None:
            return None
        source, shard = str(self.source), self.history.shard
        return StoredVectors(self.folder, source, shard, self.model, self.body, self.max_tokens, self.device)

    def answered_by_vectors(self, doc_ids: NDArray[np.uint64], stored: StoredVectors) -> pa.Table:
        """Run the head of the model on the vectors of documents, which are stored for other judges."""
        answers = load_vectors(self.model, self.max_tokens, self.device).answers
        with reporting_progress(self.step, self.source, self.name):
            tables = [
                pa.table([pa.array(ids), *answers(vectors)], schema=self.model.table_schema)
                for ids, vectors in stored.batches(doc_ids)
            ]
        return pa.concat_tables(tables)


def key(judged: Judged, trail: Trail) -> str:
    """Return the key of the stage. The model is a part of the trail, because ingest records it."""
    judge, source = judged.settings_of(trail.source), judged.recipe.source(trail.source)
    condition = only_if(source, judge)
    params = [judge.name, judge.max_tokens, condition.params if condition else None]
    return stage_key("classify", VERSION, params, *trail.identities)


def has_judge(judged: Judged, source: str) -> bool:
    return judged.of(source) is not None


def cost(workload: Workload, subject: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the model of a judge, measured on a core or on the device of the trial."""
    assert isinstance(subject, Judged)
    sources = [source for source in workload.sources.values() if subject.judge in source.models]
    spent = sum((cost_of_model(source, subject.judge, workload.workers) for source in sources), Spent())
    if sources:
        yield StageCost(name, spent)


def cost_of_model(source: SourceSize, judge: str, workers: int) -> Spent:
    """Return the cost of a source's judge if no document is removed before it."""
    model, shards = source.models[judge], len(source.shards)
    seconds = model.seconds * model.judged * source.entering_judge(judge) + model.loading * min(
        workers, shards
    )
    return Spent(calls=shards, cpu=seconds, files=2 * shards, requests=8 * shards)


@stage("classify", key, enabled=has_judge, cost=cost)
def classify(judged: Judged, trail: Trail) -> Manifest:
    """Run the model of a judge on the remaining documents of a source."""
    recipe, folder, source = judged.recipe, judged.folder, judged.recipe.source(trail.source)
    models = read_ingest_facts(folder, trail).models
    check_conditions(source, recipe.judges_of(trail.source), read_columns(folder, trail), models)
    condition = only_if(source, judged.settings_of(trail.source))
    step = judged.name_of("classify")
    inputs = inputs_of_jobs(judged, trail, step, condition, condition.columns if condition else ())
    jobs = [AnswersForShard(history=history, **inputs) for history in load_histories(judged.folder, trail)]
    manifest, counts = run_counting_jobs(step, trail, jobs, engine=recipe.engine)
    stored = tuple(job.stored.path for job in jobs if job.stored)  # whose keys keep them from being cleaned
    return manifest.model_copy(update={"judged": counts.get(JUDGED, Counts()), "intermediate": stored})


def inputs_of_jobs(
    judged: Judged, trail: Trail, step: str, condition: Condition | None, columns: Iterable[str]
) -> dict[str, Any]:
    """Return the fields of AnswersForShard except the shard. columns: that conditions read."""
    judge, facts = judged.settings_of(trail.source), read_ingest_facts(judged.folder, trail)
    names = {*columns, *DOCUMENT_COUNTS.names}
    recipe = judged.recipe
    bodies = stored_bodies(facts.models, recipe.judges_of(trail.source), recipe.publish_vectors)
    return {
        "folder": judged.folder,
        "source": trail.source,
        "step": step,
        "model": next(model for model in facts.models if model.judge == judge.name),
        "max_tokens": judge.max_tokens,
        "device": "cpu" if recipe.engine is Engine.CPU else None,
        "condition": condition,
        "table_schema": pa.schema([field for field in facts.columns if field.name in names]),
        "body": bodies.get(judge.name),
    }
