"""The jobs that count the decisions and scores of judges in a published file, and add up the counts.

The size of JUDGE_STATISTICS does not depend on the corpus: a sample has at most SAMPLE documents of each pair of
judges. Documents removed on request are left out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.part_tables import run_starts
from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.lookup.judge_columns import JudgeColumns, JudgeThreshold
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.trees import SumOfTables
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import write_table

VERSION = 1
STATS = "judge_stats"
SAMPLE = 10_000  # documents of each pair of judges
EXAMPLES = 3  # documents on each side of a threshold
KEPT, REMOVED, NOT_JUDGED = range(3)  # the decision of a judge
OUTCOMES = 3

# first, second: numbers of judges, or of a threshold. place: of the row in its list. value, other: the scores of
# both judges; or the score and its distance from the threshold.
JUDGE_STATISTICS = pa.schema(
    [
        ("kind", pa.uint8()),
        ("first", pa.uint16()),
        ("second", pa.uint16()),
        ("place", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("value", pa.float64()),
        ("other", pa.float64()),
        ("count", pa.int64()),
    ]
)
DECISIONS = 0  # documents with the decisions `place // OUTCOMES` and `place % OUTCOMES` of two judges
SAMPLED = 1  # documents that both judges judged, by the hash of their id
BELOW, ABOVE = (
    2,
    3,
)  # documents for which a threshold's `keep` is false, or true, nearest first, one of each score

LENGTHS = {SAMPLED: SAMPLE, BELOW: EXAMPLES, ABOVE: EXAMPLES}


@dataclass(frozen=True)
class JudgesOfFile(ArtifactJob):
    """Count the decisions and scores of judges in a published file.

    columns: of the judges of its source. judges, thresholds: of the corpus, whose places are their numbers.
    """

    stage, version = STATS, VERSION

    file: ClusterFile
    columns: tuple[JudgeColumns, ...]
    judges: tuple[str, ...]
    thresholds: tuple[JudgeThreshold, ...]

    @property
    def name(self) -> str:
        return self.file.artifact.name.replace("/", "-")

    def make(self) -> Artifact:
        tables = (table for part in self.parts() for table in self.statistics(part))
        return write_table(self.folder, self.path, self.name, added_up(tables))

    def parts(self) -> Iterator[pa.Table]:
        """Yield the rows of documents that were not removed on request, some at a time."""
        names = [name for each in self.columns for name in (each.first, each.score) if name]
        for table in self.file.tables(["doc_id", "stage", "reason", *dict.fromkeys(names)]):
            if "stage" in table.column_names:
                table = table.filter(pa.array(values_of(table, "stage") != "deny"))
            if len(table):
                yield table

    def statistics(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield JUDGE_STATISTICS of some documents."""
        ids = table.column("doc_id").to_numpy()
        for one, other in combinations(self.columns, 2):
            first, second = self.judges.index(one.judge), self.judges.index(other.judge)
            place = OUTCOMES * decisions(table, one) + decisions(table, other)
            yield statistics(DECISIONS, first, second, place=place, count=1)
            if one.score and other.score:
                scores, others = scores_of(table, one.score), scores_of(table, other.score)
                is_paired = ~np.isnan(scores) & ~np.isnan(others)
                yield statistics(
                    SAMPLED, first, second, place=hash_ids(ids[is_paired]), doc_id=ids[is_paired],
                    value=scores[is_paired], other=others[is_paired],
                )  # fmt: skip
        for each in self.columns:
            if each.threshold is not None and each.score in table.column_names:
                yield from self.near(table, each.threshold)

    def near(self, table: pa.Table, threshold: JudgeThreshold) -> Iterator[pa.Table]:
        """Yield the documents that are nearest to a threshold, on each side."""
        judged = table.filter(table.column(threshold.column).is_valid())
        ids, scores = (judged.column(name).to_numpy() for name in ("doc_id", threshold.column))
        distances, is_above = threshold.distances(scores)
        for kind, side in ((BELOW, ~is_above), (ABOVE, is_above)):
            yield statistics(
                kind, self.thresholds.index(threshold), place=hash_ids(ids[side]), doc_id=ids[side],
                value=scores[side], other=distances[side],
            )  # fmt: skip


def values_of(table: pa.Table, column: str) -> NDArray[Any]:
    """Return a column of texts as an array of objects: (n,)."""
    return np.array(table.column(column).to_pylist(), object)


def decisions(table: pa.Table, judge: JudgeColumns) -> NDArray[np.int64]:
    """Return the decision of a judge on each document: (n,)."""
    found = np.full(len(table), NOT_JUDGED)
    if judge.first in table.column_names:
        found[table.column(judge.first).is_valid().to_numpy()] = KEPT
    if judge.stage and "stage" in table.column_names:
        is_removed = values_of(table, "stage") == judge.stage
        if judge.reason:
            is_removed &= values_of(table, "reason") == judge.reason
        found[is_removed] = REMOVED
    return found


def scores_of(table: pa.Table, column: str) -> NDArray[np.float64]:
    """Return a column of scores: (n,), NaN for documents without a score."""
    if column not in table.column_names:
        return np.full(len(table), np.nan)
    return np.asarray(table.column(column).cast(pa.float64()).to_numpy(), np.float64)


def statistics(kind: int, first: int, second: int = 0, **columns: Any) -> pa.Table:
    """Return rows of JUDGE_STATISTICS, added up; each column is (n,) or a number, and 0 if missing."""
    given = {"kind": kind, "first": first, "second": second, **columns}
    rows = np.broadcast_arrays(*(given.get(name, 0) for name in JUDGE_STATISTICS.names))
    arrays = [
        pa.array(values.reshape(-1).astype(field.type.to_pandas_dtype()))
        for values, field in zip(rows, JUDGE_STATISTICS, strict=True)
    ]
    return added_up([pa.table(arrays, schema=JUDGE_STATISTICS)])


def added_up(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up JUDGE_STATISTICS: sums of DECISIONS, and the first rows of the other lists."""
    total = JUDGE_STATISTICS.empty_table()
    for table in tables:
        rows = pa.concat_tables([total, table])
        is_counted = rows.column("kind").to_numpy() == DECISIONS
        sums = rows.filter(pa.array(is_counted)).group_by(
            ["kind", "first", "second", "place"], use_threads=False
        )
        counts = sums.aggregate([("count", "sum")]).rename_columns(
            ["kind", "first", "second", "place", "count"]
        )
        zeros = {
            field.name: pa.array(np.zeros(len(counts), field.type.to_pandas_dtype()))
            for field in JUDGE_STATISTICS
            if field.name not in counts.column_names
        }
        counted = pa.table({**dict(zip(counts.column_names, counts.columns, strict=True)), **zeros})
        listed = first_of_list(rows.filter(pa.array(~is_counted)))
        total = pa.concat_tables([counted.select(JUDGE_STATISTICS.names).cast(JUDGE_STATISTICS), listed])
    order = [(name, "ascending") for name in ("kind", "first", "second", "other", "place")]
    return total.sort_by(order).combine_chunks()


class SumOfJudges(SumOfTables):
    """Add up some tables of JUDGE_STATISTICS."""

    stage, version = STATS, VERSION
    added_up = staticmethod(added_up)


def first_of_list(rows: pa.Table) -> pa.Table:
    """Return the first rows of each list: the smallest hashes of a sample, the nearest scores of a threshold."""
    kinds, firsts, seconds, places, _, _, others, _ = (column.to_numpy() for column in rows.columns)
    distances = np.where(kinds == SAMPLED, 0, others)
    order = np.lexsort((places, distances, seconds, firsts, kinds))
    is_listed = kinds[order] == SAMPLED
    first_of_score = run_starts(*(column[order] for column in (kinds, firsts, seconds, distances)))
    is_listed[first_of_score] = True  # documents with equal scores are often copies: one is an example
    order = order[is_listed]
    starts = run_starts(kinds[order], firsts[order], seconds[order])
    numbers = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    lengths = np.array([LENGTHS.get(kind, 0) for kind in range(ABOVE + 1)])
    return rows.take(pa.array(order[numbers < lengths[kinds[order]]]))
