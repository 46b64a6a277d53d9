"""Choose the part of each document, its number of copies in one epoch, and the held-out documents."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.exchange import Files
from zyda_flows.tasks.errors import BadInput, NotConserved
from zyda_flows.tasks.mixing.file_jobs import FileJob
from zyda_flows.tasks.mixing.neighbours import draws_of, may_be_held_out
from zyda_flows.tasks.mixing.shares import (
    FileShares,
    Repeat,
    copies_of,
    represented_documents,
    round_columns,
    shares_for_file,
)
from zyda_flows.tasks.mixing.tokenising import COUNTS
from zyda_flows.tasks.quality.keep import columns_of, keep_mask
from zyda_flows.tasks.quality.keep_parser import BadKeep
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.tables import open_table, read_table, rows_between, write_table

VERSION = 1
NO_PART = 65_535
CHOSEN = pa.schema(
    [("doc_id", pa.uint64()), ("part", pa.uint16()), ("copies", pa.uint8()), ("is_held_out", pa.bool_()),
     ("draw", pa.uint64()), ("n_tokens", pa.uint32()), ("n_special", pa.uint32())]
)  # fmt: skip


@dataclass(frozen=True)
class ChosenOfFile(FileJob):
    """Choose the documents of a published file: CHOSEN, a row for each document of a part.

    parts: candidates as (number, where, whether documents can be held out). repeat: copies by cluster size. number:
    of the file in `shares`, the copies of documents in clusters with several published documents. cluster_salt: of
    the names of clusters. neighbours: held-out candidates that may have a near-duplicate in another corpus.
    held_out: hash below which a document is held out. salt: salt of `draw`, the order in which a fraction of an
    epoch is drawn. around: number of tokens that are added around each document.
    """

    stage, version = "chosen", VERSION

    tokens: Artifact
    parts: tuple[tuple[int, str | None, bool], ...]
    repeat: Repeat
    number: int
    shares: Files | None
    cluster_salt: int
    neighbours: Files | None
    held_out: int
    salt: int
    around: int

    def make(self) -> Artifact:
        wheres = [where for _, where, _ in self.parts if where]
        own = sorted({name for where in wheres for name in columns_of(where)})
        shares = shares_for_file(self.shares, self.number) if self.shares else None
        with self.corpus.reading():
            with open_table(self.corpus.folder, self.artifact) as parquet:
                names = parquet.schema_arrow.names
            rounds = [name for columns in round_columns(names) for name in columns]
            tables = self.tables(list(dict.fromkeys(["doc_id", *rounds, *own])))
            chosen_tables = [self.choose(table, shares) for table in tables]
        chosen = pa.concat_tables([CHOSEN.empty_table().drop_columns(COUNTS), *chosen_tables])
        lengths = read_table(self.folder, self.tokens, ["doc_id", *COUNTS])
        if lengths.column("doc_id") != chosen.column("doc_id"):
            raise NotConserved(f"{self.whose}: its token counts belong to other documents")
        for name in COUNTS:
            chosen = chosen.append_column(name, lengths.column(name))
        chosen = chosen.cast(CHOSEN)
        is_in = chosen.column("part").to_numpy() != NO_PART
        return write_table(self.folder, self.path, self.name, chosen.filter(pa.array(is_in)))

    def choose(self, table: pa.Table, shares: FileShares | None) -> pa.Table:
        """Return CHOSEN without token counts for the documents of a table."""
        ids = table.column("doc_id").to_numpy()
        part = np.full(len(ids), NO_PART, np.uint16)
        may_hold_out = np.zeros(NO_PART + 1, np.bool_)
        for number, where, holds_out in reversed(self.parts):  # the first matching part is set last
            part[self.mask(where, table)] = number
            may_hold_out[number] = holds_out
        sizes = [size for _, size in round_columns(table.column_names)]
        copies = copies_of(represented_documents(table, sizes), self.repeat).astype(np.uint8)
        draw = draws_of(ids, self.salt)
        is_held_out = may_be_held_out(draw, self.held_out) & may_hold_out[part]
        if shares is not None:
            share, has_share = shares.of(table, self.cluster_salt)
            copies = np.where(has_share, share, copies)
            is_held_out &= ~has_share
        if self.neighbours is not None and len(ids):
            ranges = self.neighbours.artifacts
            others = rows_between(self.folder, ranges, int(ids[0]), int(ids[-1])).column("doc_id").to_numpy()
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
