"""Control: compare a judge that reads only undecided documents with the judge alone, on a sample of the documents.

For each document of the sample, two decisions are compared: `keep` of the recipe, in which the answers of the judge
are null if `only_if` is not true; and the condition of `tasks.quality.keep_alone`, with the judge's answer for each
document. The additional answers are stored beside the answers of `classify`, where a later build finds them. They
are neither published nor read by other stages.

A document is in the sample if the hash of its id is below a bound, which is chosen so that the sample has at least
`control` documents, unless all are fewer: its expected size is five standard deviations more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import Annotated

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.quality.classify import AnswersForShard, inputs_of_jobs
from zyda_flows.tasks.quality.conditions import Condition, judge_keep, only_if
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.recipe.judged import Judged
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import StageCost, Workload
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdict_jobs import run_counting_jobs
from zyda_flows.tasks.stage.verdicts import Trail, counts_of, load_histories, with_columns
from zyda_flows.tasks.storage.artifacts import Manifest, stage_key
from zyda_flows.tasks.storage.counts import ControlCounts, Counts
from zyda_flows.tasks.storage.records import digest_of

VERSION = 1
DEVIATIONS = 5  # of the size of a sample
SAMPLED, EQUAL = "sampled", "equal"


def share_of(control: int, documents: float) -> float:
    """Return the share of documents that are drawn, so that `control` documents are in the sample, or all."""
    return min(1.0, (control + DEVIATIONS * sqrt(control) + DEVIATIONS**2) / max(1.0, documents))


def is_drawn(doc_ids: Ids, share: float) -> np.ndarray:
    """Return the documents of a sample: uint64, (n,), to bool, (n,)."""
    if share >= 1:
        return np.ones(len(doc_ids), np.bool_)
    return hash_ids(doc_ids) < np.uint64(share * 2**64)


@dataclass(frozen=True)
class ControlOfShard(AnswersForShard):
    """The answers of a judge for the documents of a sample in a shard. share: of the documents that are drawn."""

    keep: Annotated[Condition, NotInKey("its params are in the path")]
    alone: Annotated[Condition, NotInKey("its params are in the path")]
    share: Annotated[float, NotInKey("in the path")]

    @property
    def path(self) -> str:
        params = [VERSION, self.history.digests[1:], self.keep.params, self.alone.params, self.share]
        return f"{self.answers}/control-{digest_of(params)}.parquet"

    def ids_to_judge(self, remaining: pa.Table) -> Ids:
        ids = remaining.column("doc_id").to_numpy()
        return ids[is_drawn(ids, self.share)]

    def other_counts(self, table: pa.Table, remaining: pa.Table) -> dict[str, Counts]:
        equal = [np.empty(0, np.uint64), *self.equal_decisions(table)]
        sampled = table.column("doc_id").to_numpy()
        return {SAMPLED: counts_of(remaining, sampled), EQUAL: counts_of(remaining, np.concatenate(equal))}

    def equal_decisions(self, answers: pa.Table) -> Iterator[Ids]:
        """Yield the ids of documents with equal decisions. answers: of all documents of the sample."""
        if not len(answers):
            return
        for part in remaining_documents(self.folder, self.history, self.table_schema):
            documents = part.filter(pa.array(is_drawn(part.column("doc_id").to_numpy(), self.share)))
            if not len(documents):
                continue
            judged = with_columns(documents.drop_columns([*self.added_columns]), answers)
            is_equal = self.keep.mask(self.folder, documents) == self.alone.mask(self.folder, judged)
            yield documents.column("doc_id").to_numpy()[is_equal]


def key(judged: Judged, trail: Trail) -> str:
    judge, source = judged.settings_of(trail.source), judged.recipe.source(trail.source)
    params = [judge.keep, judge.only_if, judge.control, judge.max_tokens, source.text]
    return stage_key(judged.name_of("control"), VERSION, params, *trail.identities)


def is_controlled(judged: Judged, source: str) -> bool:
    judge = judged.of(source)
    return judge is not None and judge.is_controlled


def cost(workload: Workload, subject: Subject, name: str) -> Iterator[StageCost]:
    """Yield the cost of the answers for documents for which `only_if` is not true."""
    assert isinstance(subject, Judged)
    for source, size in workload.sources.items():
        judge = subject.of(source)
        if judge is None or not judge.is_controlled or judge.name not in size.models:
            continue
        tried, shards = size.models[judge.name], len(size.shards)
        entering = size.entering_judge(judge.name)
        documents = share_of(judge.control, entering) * entering * (1 - tried.judged)
        yield StageCost(
            name,
            Spent(
                calls=shards,
                cpu=tried.seconds * documents,
                files=2 * shards,
                requests=8 * shards,
            ),
        )


@stage("control", key, enabled=is_controlled, extends_trail=False, cost=cost)
def control(judged: Judged, trail: Trail) -> Manifest:
    """Compare a judge with its `only_if` on a sample of the documents of a source."""
    from zyda_flows.tasks.quality.keep import columns_of  # late, as in `conditions`
    from zyda_flows.tasks.quality.keep_alone import alone  # late

    source, judge = judged.recipe.source(trail.source), judged.settings_of(trail.source)
    keep, condition, step = judge_keep(source, judge), only_if(source, judge), judged.name_of("control")
    assert keep is not None
    assert condition is not None
    inputs = inputs_of_jobs(judged, trail, step, None, keep.columns)
    own = [column.name for column in inputs["model"].added_columns]
    by_judge = alone(keep.expression, columns_of(condition.expression), own)
    if by_judge is None:  # `keep` does not depend on the judge
        return Manifest(stage=step, source=trail.source, entering=trail.remaining, out=trail.remaining)
    share = share_of(judge.control, trail.remaining.documents)
    by_judge_alone = replace(keep, expression=by_judge, field=f"{judge.field}.control")
    jobs = [
        ControlOfShard(history=history, keep=keep, alone=by_judge_alone, share=share, **inputs)
        for history in load_histories(judged.folder, trail)
    ]
    manifest, counts = run_counting_jobs(step, trail, jobs, engine=judged.recipe.engine)
    sampled, equal = (counts.get(name, Counts()).documents for name in (SAMPLED, EQUAL))
    found = ControlCounts(documents=sampled, equal=equal, alone=by_judge)
    return manifest.model_copy(update={"added_columns": (), "control": found})
