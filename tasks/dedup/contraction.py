"""Contraction: the components of more edges than a task can hold, in rounds over parts of the documents.

In each round every document takes a label: of its neighbours and itself, the document with the smallest name,
compared from the name's lower half on. (By the upper half, labels of large clusters would all lie in the first
parts.) Documents with the same label are merged, and the next edges are those between labels. Names are hashes,
different in each round, so in expectation each round removes a constant share of the documents (Łącki, Mirrokni and
Włodarczyk, "Connected Components at Scale via Local Contractions", 2018). After some rounds the rest fits into a
task, and the labels are followed back, round by round. Before each round the edges of some files are reduced to
trees, in which a document has one row for each file, so that no document has more rows than there are files.

If a part needs data of another part, it sends a question for each name once, and gets an answer
(`tasks.dedup.exchange`): each part asks once for a label of a billion documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import (
    Exchange,
    PartJob,
    RowsByPart,
    RunOnWorkers,
    exchange_parts,
    gather_files,
    group_neighbours,
    with_common_shift,
)
from zyda_flows.tasks.dedup.forests import forest_of_edges, read_forest
from zyda_flows.tasks.dedup.part_tables import (
    PART,
    distinct_pairs,
    place_among,
    run_starts,
    table_of,
    write_numbers,
)
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.stage.jobs import ArtifactJob, RecordJob
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.textkernels import forest

EDGES_BY_NAME = pa.schema([("a", pa.uint64()), ("b", pa.uint64())])
TREES = pa.schema([PART, ("name", pa.uint64()), ("root", pa.uint64())])
LABELS = pa.schema([("name", pa.uint64()), ("label", pa.uint64())])
ROOTS = pa.schema([("name", pa.uint64()), ("root", pa.uint64())])  # the root is a doc_id
QUESTIONS = pa.schema([PART, ("name", pa.uint64())])
ANSWERS = pa.schema([PART, ("name", pa.uint64()), ("root", pa.uint64())])


@dataclass(frozen=True)
class TreesOfFiles(RowsByPart):
    """The trees of some files of edges, `artifacts`: each document with the root of its tree.

    In the first round a file is a forest of documents; in later rounds, edges between names.
    """

    def rows(self) -> pa.Table:
        if self.naming.number == 0:
            (artifact,) = self.artifacts
            trees = read_forest(self.folder, artifact)
            names = self.naming.names(trees.ids)
        else:
            trees = forest_of_edges(*self.own_columns(EDGES_BY_NAME))
            names = trees.ids
        turned = swap_halves(names)
        smallest = turned.copy()  # of each tree, at the position of its root
        forest.keep_smallest(smallest, np.empty_like(names), trees.roots, turned, turned)
        order = np.argsort(names, kind="stable")
        names, roots = names[order], swap_halves(smallest[trees.roots[order]])
        return table_of(TREES, self.naming.parts(names), names, roots)


class LabelledPart(Record):
    """The labels of a part's documents, and the new edges: from roots to the labels of other documents."""

    labels: Artifact
    edges: Artifact


@dataclass(frozen=True)
class LabelsOfPart(PartJob[LabelledPart], RecordJob[LabelledPart]):
    """The labels of a part's documents. shared_files: the trees of all files."""

    kind = LabelledPart

    def make(self) -> LabelledPart:
        (names, roots), _ = self.part_columns(TREES)
        order = np.argsort(names, kind="stable")
        names, roots = names[order], roots[order]
        starts = run_starts(names)
        labels = swap_halves(np.minimum.reduceat(swap_halves(roots), starts)) if len(names) else names
        row_labels = np.repeat(labels, np.diff(np.append(starts, len(names))))
        # A root needs no edge to itself: its label is also the label of the others of its trees.
        is_edge = roots != names
        a, b = distinct_pairs(roots[is_edge], row_labels[is_edge])
        return self.recorded(
            LabelledPart(
                labels=self.write("labels", table_of(LABELS, names[starts], labels)),
                edges=self.write("edges", table_of(TREES, self.naming.parts(a), a, b)),
            )
        )

    def write(self, kind: str, rows: pa.Table) -> Artifact:
        path = self.path.removesuffix(".parquet") + f"-{kind}.parquet"
        return write_numbers(self.folder, path, f"{self.name}-{kind}", rows, self.shift)


@dataclass(frozen=True)
class EdgesOfPart(PartJob[Artifact], ArtifactJob):
    """The edges between the labels of a part's documents, by their names in the next round.

    artifacts: the labels of the part. shared_files: the edges of all parts.
    """

    def make(self) -> Artifact:
        names, labels = self.own_columns(LABELS)
        (a, b), _ = self.part_columns(TREES)
        a = labels[np.searchsorted(names, a)]
        is_edge = a != b
        following = Naming(self.naming.number + 1, 0)
        ends = [following.names(self.naming.ids(end[is_edge])) for end in (a, b)]
        a, b = distinct_pairs(np.minimum(*ends), np.maximum(*ends))
        return write_numbers(self.folder, self.path, self.name, table_of(EDGES_BY_NAME, a, b))


@dataclass(frozen=True)
class LastRoots(PartJob[Artifact], ArtifactJob):
    """The roots of all documents of the last round, in which the edges, `artifacts`, fit into a task."""

    def make(self) -> Artifact:
        trees = forest_of_edges(*self.own_columns(EDGES_BY_NAME))
        roots = self.naming.ids(trees.ids[trees.roots])
        return write_numbers(self.folder, self.path, self.name, table_of(ROOTS, trees.ids, roots))


@dataclass(frozen=True)
class RootQuestions(RowsByPart):
    """Questions of a part of the previous round for the roots of its labels. artifacts: its labels."""

    def rows(self) -> pa.Table:
        _, labels = self.own_columns(LABELS)
        before = Naming(self.naming.number - 1, 0)
        names = np.sort(self.naming.names(before.ids(np.unique(labels))))
        return table_of(QUESTIONS, self.naming.parts(names), names)


@dataclass(frozen=True)
class RootAnswers(RowsByPart):
    """The roots that other parts ask for.

    artifacts: the roots of this part, or of a larger part. shared_files: the questions of the previous round.
    """

    def rows(self) -> pa.Table:
        names, roots = self.own_columns(ROOTS)
        (wanted,), askers = self.part_columns(QUESTIONS)
        places, is_known = place_among(names, wanted)
        return table_of(ANSWERS, askers[is_known], wanted[is_known], roots[places[is_known]])


@dataclass(frozen=True)
class RootsOfPart(PartJob[Artifact], ArtifactJob):
    """The roots of a part's documents.

    artifacts: its labels. shared_files: the answers about labels, if there were questions. A label without an edge
    in the next round is a root.
    """

    def make(self) -> Artifact:
        names, labels = self.own_columns(LABELS)
        (known, known_roots), _ = self.part_columns(ANSWERS)
        order = np.argsort(known)
        roots = self.naming.ids(labels)
        wanted = Naming(self.naming.number + 1, 0).names(roots)
        places, is_known = place_among(known[order], wanted)
        roots[is_known] = known_roots[order][places[is_known]]
        return write_numbers(self.folder, self.path, self.name, table_of(ROOTS, names, roots))


def roots_of(
    folder: Folder, artifacts: Sequence[Artifact], run_jobs: RunOnWorkers, most_edges: int, number: int = 0
) -> tuple[Naming, list[Artifact]]:
    """Find the root of each document of some forests, by part: ROOTS, sorted by name.

    run_jobs: runs jobs and returns their results. most_edges: the most that a task may hold. number: of the round;
    from the second round on, the files are edges.
    """
    rows = sum(artifact.rows for artifact in artifacts)
    if number and rows <= most_edges:
        last = Naming(number, 0)
        return last, run_jobs([LastRoots(folder, None, last, 0, tuple(artifacts))])
    naming = Naming.for_rows(rows, number)
    groups = group_neighbours(artifacts, most_edges) if number else [(artifact,) for artifact in artifacts]
    trees = [TreesOfFiles(folder, None, naming, i, group) for i, group in enumerate(groups)]
    parts = len(naming.numbers)
    exchanged_trees = exchange_parts(trees, parts, run_jobs)
    labelling = [LabelsOfPart(folder, None, naming, i, (), exchanged_trees.files(i)) for i in naming.numbers]
    labelled: list[LabelledPart] = run_jobs(with_common_shift(labelling, parts))
    edges = gather_files(labelling[0], [part.edges for part in labelled], parts, run_jobs)
    labels = [(part.labels,) for part in labelled]
    next_edges = run_jobs(
        [EdgesOfPart(folder, None, naming, i, artifact, edges.files(i)) for i, artifact in enumerate(labels)]
    )
    answers = None
    if any(artifact.rows for artifact in next_edges):
        next_naming, roots = roots_of(folder, next_edges, run_jobs, most_edges, number + 1)
        answers = ask_for_roots(folder, naming, labels, next_naming, roots, run_jobs)
    return naming, run_jobs(
        [
            RootsOfPart(folder, None, naming, i, artifact, answers.files(i) if answers else None)
            for i, artifact in enumerate(labels)
        ]
    )


def ask_for_roots(
    folder: Folder,
    naming: Naming,
    labels: Sequence[tuple[Artifact]],
    next_naming: Naming,
    roots: Sequence[Artifact],
    run_jobs: RunOnWorkers,
) -> Exchange:
    """Send the questions of all parts for the roots of their labels; return the answers, by part.

    naming, labels: of this round, by part. next_naming, roots: of the next round, by part.
    """
    # As many parts as in this round: most labels are asked for, though most have no edge in the next round.
    asking = Naming(next_naming.number, max(naming.bits, next_naming.bits))
    questions = exchange_parts(
        [RootQuestions(folder, None, asking, i, artifact) for i, artifact in enumerate(labels)],
        len(asking.numbers),
        run_jobs,
    )
    shift = asking.bits - next_naming.bits
    answers = [
        RootAnswers(folder, None, asking, part, (roots[part >> shift],), questions.files(part))
        for part in asking.numbers
    ]
    return exchange_parts(answers, len(naming.numbers), run_jobs)


def swap_halves(names: Ids) -> Ids:
    """Return names with their halves exchanged, (n,) to (n,): labels are chosen by this order."""
    return names << np.uint64(32) | names >> np.uint64(32)
