"""Distribute the copies of each cluster over its published documents.

The published documents of a cluster get equal numbers of copies; the remaining copies are assigned by ascending
doc_id. A document in clusters of several rounds gets the smallest of its numbers.

The documents of a cluster can be in any files, so files exchange rows (`tasks.dedup.exchange`): each file sends its
clusters to the parts of all clusters, and each part answers with one row for each cluster and file. A file sends at
most as many documents of a cluster as a document can have copies, because only so many can get a remaining copy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import (
    Exchange,
    Files,
    GatheredRows,
    RowsByPart,
    RunOnWorkers,
    exchange_parts,
)
from zyda_flows.tasks.dedup.part_tables import PART, PLACE, columns_of, place_among, run_starts, table_of
from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.mixing.planning import salt_of
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import WHOLE, Section, groups_of_section, open_table

VERSION = 1
MOST_COPIES = 255  # of a document in one epoch: `copies` are uint8
CLUSTERED = pa.schema(
    [
        PART,
        ("cluster", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("documents", pa.uint32()),
        ("size", pa.int64()),
    ]
)
SHARES = pa.schema([PART, ("cluster", pa.uint64()), ("copies", pa.uint8()), ("end", pa.uint64())])
Repeat = tuple[tuple[int, int], ...]  # smallest size of a cluster, and the copies of its documents


@dataclass(frozen=True)
class CorpusFile:
    """A section of a published file of a corpus. salt: of the names of the corpus's clusters."""

    corpus: Annotated[PublishedCorpus, NotInKey("only `artifact` is read from it")]
    artifact: Artifact
    salt: int
    section: Section = WHOLE


@dataclass(frozen=True)
class ClusteredDocuments(RowsByPart):
    """The clusters of a published file's documents: CLUSTERED.

    A cluster has a row for each of its smallest doc_ids, at most `most` rows and at least one. The last row counts
    the other documents of the cluster in this file. size: represented documents, the largest number in the file.
    """

    stage, version = "shares", VERSION

    file: CorpusFile = field(kw_only=True)
    most: int = field(kw_only=True)

    def rows(self) -> pa.Table:
        with self.file.corpus.reading(), open_table(self.file.corpus.folder, self.file.artifact) as parquet:
            rounds = round_columns(parquet.schema_arrow.names)
            names = ["doc_id", *(name for columns in rounds for name in columns)]
            table = parquet.read_row_groups([*groups_of_section(parquet, self.file.section)], names)
        all_ids = table.column("doc_id").to_numpy()
        represented = represented_documents(table, [size for _, size in rounds])
        pairs = clusters_in(table, rounds, self.file.salt)
        documents = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in pairs)])
        clusters = np.concatenate([np.empty(0, np.uint64), *(names for _, names in pairs)])
        order = np.lexsort([all_ids[documents], clusters])
        ids, clusters, sizes = all_ids[documents[order]], clusters[order], represented[documents[order]]
        starts = run_starts(clusters)
        members = np.diff(np.append(starts, len(ids)))
        sent = np.minimum(members, max(1, self.most))
        counts = np.ones(len(ids), np.uint32)
        counts[starts + sent - 1] += (members - sent).astype(np.uint32)
        largest = np.maximum.reduceat(sizes, starts) if len(ids) else sizes
        is_sent = np.arange(len(ids)) - np.repeat(starts, members) < np.repeat(sent, members)
        clusters, sizes = clusters[is_sent], np.repeat(largest, sent)
        return table_of(
            CLUSTERED, self.naming.parts(clusters), clusters, ids[is_sent], counts[is_sent], sizes
        )


@dataclass(frozen=True)
class GatheredClusters(GatheredRows):
    """The rows of some files: a cluster in all files has a row for each file, and MOST_COPIES rows more at most."""

    def merged(self, rows: pa.Table) -> pa.Table:
        """Add the documents of removed rows to the first row of their cluster and file."""
        order = np.lexsort([rows.column("doc_id").to_numpy(), rows.column("cluster").to_numpy()])
        clusters, files = (rows.column(name).to_numpy()[order] for name in ("cluster", PLACE.name))
        starts = run_starts(clusters)
        rank = np.arange(len(clusters)) - np.repeat(starts, np.diff(np.append(starts, len(clusters))))
        by_file = np.lexsort([rank, files, clusters])
        firsts = run_starts(clusters[by_file], files[by_file])
        first_of_row = np.empty(len(clusters), np.int64)
        first_of_row[by_file] = np.repeat(by_file[firsts], np.diff(np.append(firsts, len(clusters))))
        is_kept = (rank < MOST_COPIES) | (first_of_row == np.arange(len(clusters)))
        counts = rows.column("documents").to_numpy()[order]
        np.add.at(counts, first_of_row[~is_kept], counts[~is_kept])
        merged = rows.take(order).set_column(3, CLUSTERED.field("documents"), pa.array(counts))
        return merged.filter(pa.array(is_kept))


@dataclass(frozen=True)
class CopiesOfClusters(RowsByPart):
    """The copies of a part's clusters with several published documents, for each file with the cluster: SHARES.

    Each document has `copies`, and a document with a doc_id below `end` one more.
    """

    stage, version = "shares", VERSION

    repeat: Repeat = field(kw_only=True)

    def rows(self) -> pa.Table:
        (clusters, ids, counts, sizes), files = self.part_columns(CLUSTERED)
        order = np.lexsort([ids, clusters])
        clusters, ids, counts, sizes = (column[order] for column in (clusters, ids, counts, sizes))
        starts = run_starts(clusters)
        if not len(starts):
            return SHARES.empty_table()
        members = np.add.reduceat(counts.astype(np.int64), starts)
        copies = copies_of(np.maximum.reduceat(sizes, starts), self.repeat)
        rest = copies % members if self.repeat else np.zeros(len(starts), np.int64)
        each = copies // members if self.repeat else np.ones(len(starts), np.int64)
        ends = np.where(rest > 0, ids[starts + np.maximum(rest, 1) - 1] + np.uint64(1), np.uint64(0))
        names = clusters[starts]
        del clusters, ids, counts, sizes
        places = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(files))))
        is_shared = members[places] > 1
        files, places = files[order][is_shared], places[is_shared]
        order = np.argsort(files, kind="stable")
        order = order[run_starts(files[order], places[order])]
        places = places[order]
        return table_of(SHARES, files[order], names[places], each[places].astype(np.uint8), ends[places])


class FileShares(NamedTuple):
    """The rows of SHARES for a file, by cluster: (c,) each."""

    clusters: Ids
    copies: NDArray[np.uint8]
    ends: Ids

    def of(self, table: pa.Table, salt: int) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return the smallest share of each document of a table, (n,), and whether it has a share, (n,)."""
        ids = table.column("doc_id").to_numpy()
        smallest, has_share = np.full(len(ids), 255, np.uint8), np.zeros(len(ids), np.bool_)
        for rows, clusters in clusters_in(table, round_columns(table.column_names), salt):
            places, is_known = place_among(self.clusters, clusters)
            rows, places = rows[is_known], places[is_known]
            share = self.copies[places] + (ids[rows] < self.ends[places])
            smallest[rows] = np.minimum(smallest[rows], share)
            has_share[rows] = True
        return smallest, has_share


def shares_for_file(files: Files, number: int) -> FileShares:
    """Read the shares for a file by its number in the exchange."""
    clusters, copies, ends = columns_of(files.part(number)[0], SHARES)
    order = np.argsort(clusters)
    return FileShares(clusters[order], copies[order], ends[order])


def shares_of_files(
    folder: Folder, files: Sequence[CorpusFile], clustered: int, repeat: Repeat, run_jobs: RunOnWorkers
) -> Exchange:
    """Return the shares of the documents of all files, for each file by its number.

    clustered: most documents in clusters, over all rounds.
    """
    naming, most = Naming.for_rows(clustered), max((copies for _, copies in repeat), default=0)
    sending = [
        ClusteredDocuments(folder, None, naming, i, file=file, most=most) for i, file in enumerate(files)
    ]
    sent = exchange_parts(sending, len(naming.numbers), run_jobs, GatheredClusters)
    sharing = [
        CopiesOfClusters(folder, None, naming, i, (), sent.files(i), repeat=repeat) for i in naming.numbers
    ]
    return exchange_parts(sharing, len(files), run_jobs)


def clusters_in(
    table: pa.Table, rounds: Sequence[tuple[str, str]], salt: int
) -> list[tuple[NDArray[np.int64], Ids]]:
    """Return the rows of the clustered documents of a table, and the names of their clusters, for each round."""
    clustered = []
    for number, (name, size) in enumerate(rounds):
        rows = np.flatnonzero(table.column(size).to_numpy() > 1)
        # Clusters of different rounds, and of different corpora, can have the same id.
        round_salt = np.uint64(salt_of(salt, number))
        clustered.append((rows, hash_ids(hash_ids(table.column(name).to_numpy()[rows]) + round_salt)))
    return clustered


def round_columns(names: list[str]) -> list[tuple[str, str]]:
    """Return the columns of cluster id and cluster size of each deduplication round."""
    pairs = [(f"cluster_id{number}", f"cluster_size{number}") for number in ("", *"23456789")]
    return [pair for pair in pairs if {*pair} <= {*names}]


def represented_documents(table: pa.Table, sizes: list[str]) -> NDArray[np.int64]:
    """Return the number of documents in the clusters of each document, over all rounds, with itself: (n,)."""
    others = [table.column(name).to_numpy().astype(np.int64) - 1 for name in sizes]
    return np.asarray(sum(others, np.ones(len(table), np.int64)))


def copies_of(sizes: NDArray[np.int64], repeat: Repeat) -> NDArray[np.int64]:
    """Return the copies of clusters of these sizes, (n,); 1 without `repeat`."""
    steps, copies = zip(*repeat, strict=True) if repeat else ((1,), (1,))
    return np.array(copies, np.int64)[np.searchsorted(np.array(steps), sizes, side="right") - 1]
