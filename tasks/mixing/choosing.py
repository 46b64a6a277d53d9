"""Choose the part of each document, its number of copies in one epoch, and the held-out documents."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadInput, NotConserved
from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.mixing.file_jobs import FileJob
from zyda_flows.tasks.mixing.neighbours import draws_of, may_be_held_out
from zyda_flows.tasks.mixing.tokenising import COUNTS
from zyda_flows.tasks.quality.keep import columns_of, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import open_table, read_table, rows_of, tables_of, write_table

VERSION = 1
NO_PART = 65_535
CHOSEN = pa.schema(
    [("doc_id", pa.uint64()), ("part", pa.uint16()), ("copies", pa.uint8()), ("is_held_out", pa.bool_()),
     ("draw", pa.uint64()), ("n_tokens", pa.uint32()), ("n_special", pa.uint32())]
)  # fmt: skip
TALLY = pa.schema(
    [("part", pa.uint16()), ("bin", pa.uint16()), ("is_held_out", pa.bool_()), ("documents", pa.uint64()),
     ("tokens", pa.uint64()), ("repeated", pa.uint64()), ("unused", pa.uint64()),
     ("special_documents", pa.uint64()), ("special_tokens", pa.uint64())]
)  # fmt: skip
BINS = 1 << 16
SHIFT = np.uint64(48)
SHARES = pa.schema([("doc_id", pa.uint64()), ("copies", pa.uint8())])
Numbers = NDArray[np.uint64]


@dataclass(frozen=True)
class ChosenOfFile(FileJob):
    """Choose the documents of a published file: CHOSEN, a row for each document of a part.

    parts: candidates as (number, where, whether documents can be held out). repeat: copies by cluster size. shares:
    copies of documents in clusters with several published documents. neighbours: held-out candidates that may have
    a near-duplicate in another corpus. held_out: hash below which a document is held out. salt: salt of `draw`, the
    order in which a fraction of an epoch is drawn. around: number of tokens that are added around each document.
    """

    stage, version = "chosen", VERSION

    tokens: Artifact
    parts: tuple[tuple[int, str | None, bool], ...]
    repeat: tuple[tuple[int, int], ...]
    shares: Artifact | None
    neighbours: Artifact | None
    held_out: int
    salt: int
    around: int

    def make(self) -> Artifact:
        wheres = [where for _, where, _ in self.parts if where]
        own = sorted({name for where in wheres for name in columns_of(where)})
        with self.corpus.reading():
            with open_table(self.corpus.folder, self.artifact) as parquet:
                names = parquet.schema_arrow.names
            sizes = [size for _, size in round_columns(names)]
            tables = tables_of(
                self.corpus.folder, self.artifact, list(dict.fromkeys(["doc_id", *sizes, *own]))
            )
            chosen_tables = [self.choose(table, sizes) for table in tables]
        chosen = pa.concat_tables([CHOSEN.empty_table().drop_columns(COUNTS), *chosen_tables])
        lengths = read_table(self.folder, self.tokens, ["doc_id", *COUNTS])
        if lengths.column("doc_id") != chosen.column("doc_id"):
            raise NotConserved(f"{self.whose}: its token counts belong to other documents")
        for name in COUNTS:
            chosen = chosen.append_column(name, lengths.column(name))
        chosen = chosen.cast(CHOSEN)
        is_in = chosen.column("part").to_numpy() != NO_PART
        return write_table(self.folder, self.path, self.name, chosen.filter(pa.array(is_in)))

    def choose(self, table: pa.Table, sizes: list[str]) -> pa.Table:
        """Return CHOSEN without token counts for the documents of a table. sizes: columns of cluster sizes."""
        ids = table.column("doc_id").to_numpy()
        part = np.full(len(ids), NO_PART, np.uint16)
        may_hold_out = np.zeros(NO_PART + 1, np.bool_)
        for number, where, holds_out in reversed(self.parts):  # the first matching part is set last
            part[self.mask(where, table)] = number
            may_hold_out[number] = holds_out
        steps = np.array([size for size, _ in self.repeat] or [1])
        copies_of = np.array([copies for _, copies in self.repeat] or [1], np.uint8)
        copies = copies_of[np.searchsorted(steps, represented_documents(table, sizes), side="right") - 1]
        draw = draws_of(ids, self.salt)
        is_held_out = may_be_held_out(draw, self.held_out) & may_hold_out[part]
        if self.shares is not None and len(ids):
            copies, is_alone = self.shared(ids, copies)
            is_held_out &= is_alone
        if self.neighbours is not None and len(ids):
            others = (
                rows_of(self.folder, self.neighbours, int(ids[0]), int(ids[-1])).column("doc_id").to_numpy()
            )
            is_held_out &= ~np.isin(ids, others)
        copies = np.where(is_held_out, np.uint8(1), copies)
        columns = [pa.array(column) for column in (ids, part, copies, is_held_out, draw)]
        return pa.table(columns, names=CHOSEN.names[: -len(COUNTS)])

    def mask(self, where: str | None, table: pa.Table) -> NDArray[np.bool_]:
        try:
            return np.ones(len(table), np.bool_) if where is None else keep_mask(where, table)
        except BadKeep as error:
            row = f", doc_id {table.column('doc_id')[error.row]}" if error.row is not None else ""
            raise BadInput(f"{self.whose}{row}: where: {error}") from error

    def shared(self, ids: Numbers, copies: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Set the copies of documents in clusters with several published documents.

        Return copies and whether a document is the only one.
        """
        assert self.shares is not None
        shares = rows_of(self.folder, self.shares, int(ids[0]), int(ids[-1]))
        shared_ids = shares.column("doc_id").to_numpy()
        places = np.searchsorted(shared_ids, ids)
        places[places == len(shared_ids)] = 0
        has_share = shared_ids[places] == ids if len(shared_ids) else np.zeros(len(ids), np.bool_)
        copies = copies.copy()
        copies[has_share] = shares.column("copies").to_numpy()[places[has_share]]
        return copies, ~has_share


@dataclass(frozen=True)
class TallyOfFile(ArtifactJob):
    """Sum the chosen documents of a file by part and by the first 16 bits of `draw`: TALLY."""

    stage, version = "tallies", VERSION

    chosen: Artifact
    around: int

    @property
    def name(self) -> str:
        return self.chosen.name

    @property
    def also_in_key(self) -> str:
        return self.chosen.path

    def make(self) -> Artifact:
        table = read_table(self.folder, self.chosen)
        part, copies, is_held_out, draw, n_tokens, n_special = (
            table.column(name).to_numpy() for name in CHOSEN.names[1:]
        )
        copies, lengths = copies.astype(np.uint64), n_tokens.astype(np.uint64) + np.uint64(self.around)
        code = (
            (part.astype(np.uint64) << np.uint64(17))
            | (is_held_out.astype(np.uint64) << np.uint64(16))
            | (draw >> SHIFT)
        )
        codes, places = np.unique(code, return_inverse=True)

        def total(values: Numbers) -> Numbers:
            sums = np.zeros(len(codes), np.uint64)
            np.add.at(sums, places, values)
            return sums

        is_used = (copies > 0).astype(np.uint64)
        more = copies - is_used
        columns = [
            (codes >> np.uint64(17)).astype(np.uint16), (codes & np.uint64(BINS - 1)).astype(np.uint16),
            (codes >> np.uint64(16) & np.uint64(1)).astype(np.bool_), total(is_used),
            total(copies * lengths), total(more * lengths), total(np.uint64(1) - is_used),
            total(is_used * (n_special > 0)), total(is_used * n_special),
        ]  # fmt: skip
        return write_table(
            self.folder, self.path, self.name, pa.table([*map(pa.array, columns)], schema=TALLY)
        )


@dataclass(frozen=True)
class SharesOfClusters(ArtifactJob):
    """Distribute the copies of a cluster over its published documents: SHARES, by doc_id.

    The documents get equal numbers of copies; the remaining copies are assigned by ascending doc_id.
    files: all files of documents of the corpus.
    """

    stage, version = "shares", VERSION

    corpus: Annotated[PublishedCorpus, NotInKey("only `files` are read")]
    files: tuple[Artifact, ...]
    repeat: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        return self.corpus.label

    def make(self) -> Artifact:
        ids, firsts, sizes = list[Numbers](), list[Numbers](), list[NDArray[np.int64]]()
        with self.corpus.reading():
            for file in self.files:
                for own, cluster, size in self.clustered(file):
                    ids.append(own)
                    firsts.append(cluster)
                    sizes.append(size)
        empty = np.empty(0, np.uint64)
        return write_table(
            self.folder, self.path, self.name,
            shares_of(
                np.concatenate([empty, *ids]), np.concatenate([empty, *firsts]),
                np.concatenate([np.empty(0, np.int64), *sizes]), self.repeat,
            ),
        )  # fmt: skip

    def clustered(self, file: Artifact) -> list[tuple[Numbers, Numbers, NDArray[np.int64]]]:
        """Return doc_ids, clusters and sizes for each round, of the documents of a file that are in a cluster."""
        with open_table(self.corpus.folder, file) as parquet:
            rounds = round_columns(parquet.schema_arrow.names)
            table = parquet.read(["doc_id", *(name for columns in rounds for name in columns)])
        ids = table.column("doc_id").to_numpy()
        represented = represented_documents(table, [size for _, size in rounds])
        clustered = []
        for number, (name, size) in enumerate(rounds):
            is_in = table.column(size).to_numpy() > 1
            # Clusters of different rounds can have the same id.
            salt = hash_ids(np.array([number + 1], np.uint64))
            clusters = hash_ids(hash_ids(table.column(name).to_numpy()[is_in]) + salt)
            clustered.append((ids[is_in], clusters, represented[is_in]))
        return clustered


def round_columns(names: list[str]) -> list[tuple[str, str]]:
    """Return the columns of cluster id and cluster size of each deduplication round."""
    pairs = [(f"cluster_id{number}", f"cluster_size{number}") for number in ("", *"23456789")]
    return [pair for pair in pairs if {*pair} <= {*names}]


def represented_documents(table: pa.Table, sizes: list[str]) -> NDArray[np.int64]:
    """Return the number of documents in the clusters of each document, over all rounds, with itself: (n,)."""
    others = [table.column(name).to_numpy().astype(np.int64) - 1 for name in sizes]
    return np.asarray(sum(others, np.ones(len(table), np.int64)))


def shares_of(
    ids: Numbers, clusters: Numbers, sizes: NDArray[np.int64], repeat: tuple[tuple[int, int], ...]
) -> pa.Table:
    """Distribute the copies of clusters with several published documents: SHARES.

    A document in clusters of several rounds gets the smallest of its numbers of copies.
    """
    order = np.lexsort([ids, clusters])
    ids, clusters, sizes = ids[order], clusters[order], sizes[order]
    starts = (
        np.flatnonzero(np.append(True, clusters[1:] != clusters[:-1])) if len(ids) else np.empty(0, np.int64)
    )
    members = np.diff(np.append(starts, len(ids)))
    rank = np.arange(len(ids)) - np.repeat(starts, members)
    cluster_members = np.repeat(members, members)
    largest = np.repeat(np.maximum.reduceat(sizes, starts) if len(starts) else sizes, members)
    steps, copies_of = np.array([size for size, _ in repeat] or [1]), np.array([n for _, n in repeat] or [0])
    copies = copies_of[np.searchsorted(steps, largest, side="right") - 1]
    shared = copies // cluster_members + (rank < copies % cluster_members)
    share = shared if repeat else np.ones(len(ids), np.int64)
    is_several = cluster_members > 1
    ids, share = ids[is_several], share[is_several]
    order = np.lexsort([share, ids])
    ids, share = ids[order], share[order]
    is_first = np.append(True, ids[1:] != ids[:-1]) if len(ids) else np.empty(0, np.bool_)
    columns = [pa.array(ids[is_first]), pa.array(share[is_first].astype(np.uint8))]
    return pa.table(columns, schema=SHARES)
