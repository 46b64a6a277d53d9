"""The statistics of repeated passages: their lengths, the longest, and the passages of the most documents.

They are counted once for each set of published passages, by a job for each file, whose results are added up in a
tree, and kept in the work folder: PASSAGE_STATISTICS, some hundreds of rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.exchange import RunOnWorkers
from zyda_flows.tasks.dedup.part_tables import run_starts
from zyda_flows.tasks.ids import sources_of
from zyda_flows.tasks.lookup.cluster_counting import ClusterFile
from zyda_flows.tasks.passages.marks import PASSAGES
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.rebuild_damaged import rebuilding_damaged
from zyda_flows.tasks.stage.trees import SumOfTables, merge_in_tree
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 1
STATS = "passage_stats"
LISTED = 5  # passages of each part in each list
LENGTH_ENDS = np.unique(np.round(np.logspace(0, 9, 91)).astype(np.int64))  # characters

# kind: of the row. part: of the recipe's `passages`, from 1; 0 for DOCUMENTS. a: the place among LENGTH_ENDS, the
# number of a source, or a doc_id. count: of passages or documents; or characters (LONGEST). The other columns are
# those of PASSAGES, for a listed passage; high, low: its hash.
PASSAGE_STATISTICS = pa.schema(
    [
        ("kind", pa.uint8()),
        ("part", pa.uint8()),
        ("a", pa.uint64()),
        ("count", pa.int64()),
        ("start", pa.uint32()),
        ("end", pa.uint32()),
        ("owner_id", pa.uint64()),
        ("documents", pa.uint32()),
        ("high", pa.uint64()),
        ("low", pa.uint64()),
    ]
)
LENGTHS, DOCUMENTS, LONGEST, MOST_SHARED = range(4)


@dataclass(frozen=True)
class ListedPassage:
    """One of the longest passages of a part, or of those of the most documents; start, end: characters."""

    part: int
    doc_id: int
    start: int
    end: int
    owner_id: int
    documents: int


@dataclass(frozen=True)
class PassageStats:
    """The repeated passages of a corpus.

    lengths: by part of `passages`, the number of passages between two LENGTH_ENDS, (n,) int64. documents: of each
    source, by its number, that have a passage. longest: copies of passages in other documents than their owners.
    """

    lengths: dict[int, NDArray[np.int64]]
    documents: dict[int, int]
    longest: list[ListedPassage]
    most_shared: list[ListedPassage]


@dataclass(frozen=True)
class PassagesOfFile(ArtifactJob):
    """Count the passages of a published file: PASSAGE_STATISTICS."""

    stage, version = STATS, VERSION

    file: ClusterFile

    @property
    def name(self) -> str:
        return self.file.artifact.name

    def tables(self) -> Iterator[pa.Table]:
        last = -1
        for table in self.file.tables(PASSAGES.names):
            if not len(table):
                continue
            column = {name: table.column(name).to_numpy() for name in PASSAGES.names if name != "hash"}
            high, low = hashes_of(table).T
            ids, lengths = column["doc_id"], column["end"].astype(np.int64) - column["start"]
            bins = np.searchsorted(LENGTH_ENDS, lengths, side="right") - 1
            yield statistics(LENGTHS, column["part"], bins, 1)
            firsts = ids[run_starts(ids)]
            yield statistics(DOCUMENTS, 0, sources_of(firsts[int(firsts[0]) == last :]), 1)
            last = int(ids[-1])
            rest = (column["start"], column["end"], column["owner_id"], column["documents"], high, low)
            is_copy = ids != column["owner_id"]
            copies = [values[is_copy] for values in (column["part"], ids, lengths, *rest)]
            yield statistics(LONGEST, *copies)
            yield statistics(MOST_SHARED, column["part"], ids, column["documents"], *rest)

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, added_up(self.tables()))


def hashes_of(table: pa.Table) -> NDArray[np.uint64]:
    """Return the column `hash` as two numbers each: (n, 2)."""
    hashes = table.column("hash").combine_chunks()
    words = np.frombuffer(hashes.buffers()[1], np.uint64).reshape(-1, 2)
    return words[hashes.offset : hashes.offset + len(hashes)]


def statistics(kind: int, *columns: Any) -> pa.Table:
    """Return rows of PASSAGE_STATISTICS of a kind, added up; each column is (n,) or a number, and 0 if missing."""
    missing = len(PASSAGE_STATISTICS) - 1 - len(columns)
    rows = np.broadcast_arrays(kind, *columns, *[0] * missing)
    arrays = [
        pa.array(values.astype(field.type.to_pandas_dtype()))
        for values, field in zip(rows, PASSAGE_STATISTICS, strict=True)
    ]
    return added_up([pa.table(arrays, schema=PASSAGE_STATISTICS)])


def added_up(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up PASSAGE_STATISTICS, with LISTED passages of each part in each list, and each hash once."""
    total = PASSAGE_STATISTICS.empty_table()
    for table in tables:
        rows = pa.concat_tables([total, table])
        is_listed = rows.column("kind").to_numpy() >= LONGEST
        sums = rows.filter(pa.array(~is_listed)).group_by(["kind", "part", "a"]).aggregate([("count", "sum")])
        counts = [sums.column(name).to_numpy() for name in ("kind", "part", "a", "count_sum")]
        listed = first_of_list(rows.filter(pa.array(is_listed)))
        rest = [np.zeros(len(sums), field.type.to_pandas_dtype()) for field in PASSAGE_STATISTICS]
        added = [pa.array(values) for values in (*counts, *rest[len(counts) :])]
        total = pa.concat_tables([pa.table(added, schema=PASSAGE_STATISTICS), listed])
    return total.sort_by([(name, "ascending") for name in ("kind", "part", "a", "start")]).combine_chunks()


class SumOfPassages(SumOfTables):
    """Add up some tables of PASSAGE_STATISTICS."""

    stage, version = STATS, VERSION
    added_up = staticmethod(added_up)


def first_of_list(rows: pa.Table) -> pa.Table:
    """Return the first LISTED rows of each kind and part with the highest counts, one for each hash."""
    kinds, parts, ids, counts, starts, _, _, _, high, low = (column.to_numpy() for column in rows.columns)
    order = np.lexsort((starts, ids, -counts, low, high, parts, kinds))
    order = order[run_starts(*(column[order] for column in (kinds, parts, high, low)))]
    order = order[np.lexsort((starts[order], ids[order], -counts[order], parts[order], kinds[order]))]
    firsts = run_starts(kinds[order], parts[order])
    places = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
    return rows.take(pa.array(order[places < LISTED]))


def on_workers(jobs: Sequence[Any]) -> list[Any]:
    """Run jobs on the workers of this task's cluster, or in this process."""
    return fan_out(ArtifactJob.__call__, jobs, stage=STATS, source=None)


def passage_stats(corpus: PublishedCorpus, run_jobs: RunOnWorkers = on_workers) -> PassageStats | None:
    """Return the statistics of the published passages; count them unless they have been counted.

    Args:
        corpus: The published corpus.
        run_jobs: Runs jobs, and returns their results.

    Returns:
        None if no passages are published.

    Raises:
        Denied: A published file is damaged.
    """
    files = corpus.artifacts("passages/")
    if not files:
        return None
    folder = corpus.root
    path = artifact_path(STATS, None, "passages", stage_key(STATS, VERSION, *(file.digest for file in files)))

    def table() -> pa.Table:
        made = finished_artifact(folder, path)
        if made is None:
            counted = run_jobs([PassagesOfFile(folder, None, ClusterFile(corpus, file)) for file in files])
            added = merge_in_tree(counted, partial(SumOfPassages, folder, None), run_jobs)[0]
            made = write_table(folder, path, "passages", read_table(folder, added))
        return read_table(folder, made)

    return stats_in(rebuilding_damaged(folder, table))


def stats_in(table: pa.Table) -> PassageStats:
    """Return the statistics in a table: PASSAGE_STATISTICS."""
    stats = PassageStats({}, {}, [], [])
    in_order = table.sort_by([("kind", "ascending"), ("part", "ascending"), ("count", "descending")])
    for row in in_order.to_pylist():
        kind, part, a = row["kind"], row["part"], row["a"]
        if kind == LENGTHS:
            stats.lengths.setdefault(part, np.zeros(len(LENGTH_ENDS), np.int64))[a] = row["count"]
        elif kind == DOCUMENTS:
            stats.documents[a] = row["count"]
        else:
            listed = ListedPassage(part, a, row["start"], row["end"], row["owner_id"], row["documents"])
            (stats.longest if kind == LONGEST else stats.most_shared).append(listed)
    return stats
