"""Send documents of pairs between groups of shards, so that a task compares the pairs of a group.

1. The group of a pair's first document sends the document to the group of the second (`SentDocuments`): once to
   each group, with the first of its pairs there.
2. The group of the second document compares the pairs, and returns them to the group of the first.
3. Each group has all pairs of its documents, from both sides (`PairsOfGroup`).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.exchange import (
    PartJob,
    RowsByPart,
    RunOnWorkers,
    exchange_parts,
    gather_files,
    with_common_shift,
)
from zyda_flows.tasks.dedup.part_tables import PART, distinct_pairs, run_starts
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.semantic.candidates import CANDIDATES
from zyda_flows.tasks.semantic.groups import group_of
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import read_table, write_table

MOST_SMALL = 1024  # numbers of a vector
SIDES = ("_a", "_b")  # endings of the columns of a side of a pair


@dataclass(frozen=True, kw_only=True)
class SentDocuments(RowsByPart):
    """The pairs whose first document is in a group, with this document, by the group of the second document.

    starts: of the groups.
    """

    starts: Ids

    @abstractmethod
    def pairs(self) -> pa.Table:
        """Return the pairs: `a`, `b`, and further columns, sorted by `a` and `b`."""

    @abstractmethod
    def content(self, doc_ids: Ids) -> pa.Table:
        """Return columns of documents. doc_ids: (n,), ascending; each row is that of a document."""

    def rows(self) -> pa.Table:
        pairs = self.pairs()
        a, b = (pairs.column(name).to_numpy() for name in ("a", "b"))
        groups = group_of(self.starts, b)
        order = np.argsort(groups, kind="stable")
        firsts = np.zeros(len(order), np.bool_)
        firsts[run_starts(groups[order], a[order])] = True
        documents = np.unique(a)
        places = pa.array(np.searchsorted(documents, a[order]), mask=~firsts)
        rows = pairs.take(pa.array(order)).add_column(0, PART, pa.array(groups[order]))
        content = self.content(documents)
        for name in content.column_names:
            rows = rows.append_column(name, content.column(name).take(places))
        return rows


@dataclass(frozen=True, kw_only=True)
class SentCandidates(SentDocuments):
    """The candidates whose first document is in a group. shared_files: the candidates of all ranges."""

    def pairs(self) -> pa.Table:
        (a, b), _ = self.part_columns(CANDIDATES)
        a, b = distinct_pairs(a, b)  # several bands may propose a pair
        return pa.table({"a": a, "b": b})


def places_of_first(has_content: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the row with the content of each row's first document: the last row before that has content, (n,)."""
    return np.flatnonzero(has_content)[np.cumsum(has_content) - 1]


@dataclass(frozen=True, kw_only=True)
class PairsOfGroup(PartJob[Artifact], ArtifactJob):
    """All pairs of a group's documents, a row for each side: `doc_id`, `other_id` and further columns.

    artifacts: the file that the group has compared. shared_files: the files of all groups. A column with an ending
    of SIDES is that of the side; the other side's column is dropped.
    """

    @property
    def name(self) -> str:
        return f"{self.part:05d}"

    def make(self) -> Artifact:
        (compared,) = self.artifacts
        assert self.shared_files
        from_others, _ = self.shared_files.part(self.part)
        own = read_table(self.folder, compared)
        table = pa.concat_tables([of_side(own, "_b"), *(of_side(table, "_a") for table in from_others)])
        order = np.lexsort([table.column(name).to_numpy() for name in ("other_id", "doc_id")])
        return write_table(self.folder, self.path, self.name, table.take(pa.array(order)), group_rows=1 << 16)


def of_side(pairs: pa.Table, side: str) -> pa.Table:
    """Return the pairs of a side: `doc_id`, `other_id`, and the columns of the pair and of the side."""
    doc_id, other_id = side[1:], "ab".replace(side[1:], "")
    columns: dict[str, Any] = {"doc_id": pairs.column(doc_id), "other_id": pairs.column(other_id)}
    for name in pairs.column_names:
        if name not in ("a", "b", PART.name) and not name.endswith(tuple(set(SIDES) - {side})):
            columns[name.removesuffix(side)] = pairs.column(name)
    return pa.table(columns)


def cosines(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cosines of pairs of vectors of whole numbers, (n, dims) twice to (n,), from exact sums.

    float32 represents sums of up to 1,024 products of 8-bit numbers, and float64 sums for vectors of length UNIT.
    """
    kind = np.float32 if a.dtype == np.int8 and a.shape[1] <= MOST_SMALL else np.float64
    a, b = a.astype(kind), b.astype(kind)
    products, squares, others = (
        np.einsum("ij,ij->i", *both).astype(np.float64) for both in ((a, b), (a, a), (b, b))
    )
    return np.asarray(products / np.sqrt(np.maximum(squares * others, 1)))


def exchanged_pairs(
    sending: Sequence[SentDocuments],
    comparing: Sequence[RowsByPart],
    returning: type[PairsOfGroup],
    run_jobs: RunOnWorkers,
) -> tuple[list[Artifact], list[Artifact]]:
    """Run the three steps; return the files of pairs of each group, and the files that were exchanged.

    sending, comparing: a job of each group; the latter without the files that were sent to it.
    """
    parts = len(sending)
    sent = exchange_parts(sending, parts, run_jobs)
    jobs = [replace(job, shared_files=sent.files(job.part)) for job in comparing]
    compared = run_jobs(with_common_shift(jobs, parts))
    returned = gather_files(jobs[0], compared, parts, run_jobs)
    pairs = run_jobs(
        [
            returning(job.folder, None, job.naming, job.part, (artifact,), returned.files(job.part))
            for job, artifact in zip(jobs, compared, strict=True)
        ]
    )
    return pairs, list(dict.fromkeys([*sent.artifacts, *compared, *returned.artifacts]))


def files_by_group(files: Sequence[Artifact], members: Sequence[Sequence[Any]]) -> list[tuple[Artifact, ...]]:
    """Divide the files of shards by group."""
    remaining = iter(files)
    return [tuple(next(remaining) for _ in group) for group in members]
