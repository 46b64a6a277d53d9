"""Contested clusters: clusters in which documents may be removed, and the rows of their documents, by cluster.

With scope `across`, a cluster of a single source is not contested, so its documents are not read. The documents of
the others are read from the shards of ingest, once, and written by part. A part has whole clusters, selected by a
hash of their ids, and its own row groups in each file, so that a part is read from all files without the rest. If
more than 2**MOST_BITS parts are needed, each part is cut once more, so that neither the row groups of a file nor
the files of a part grow with the corpus.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.comparison import Comparison
from zyda_flows.tasks.dedup.exchange import Files
from zyda_flows.tasks.dedup.preference import Preference
from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import rows_of_part, write_parts
from zyda_flows.tasks.storage.tables import (
    WHOLE,
    Section,
    footer_of,
    groups_of_section,
    parquet_writer,
    rows_between,
    tables_of,
    write_artifact,
)

VERSION = 1
FILE_BYTES = 128 << 20  # of text in a file, about
READ_BYTES = 1 << 30  # of text in the shards from which a file is made, at most
CONTESTED = pa.schema([("doc_id", pa.uint64()), ("cluster_id", pa.uint64()), ("pieces", pa.uint32())])
PLACE_COLUMNS = pa.schema(
    [("part", pa.uint16()), ("cluster_id", pa.uint64()), ("piece", pa.uint32()), ("doc_id", pa.uint64())]
)
CODED: dict[str, Any] = {"use_dictionary": ["part", "piece"]}


@dataclass(frozen=True)
class ContestedDocuments(ArtifactJob):
    """The documents of contested clusters in a file of clusters, CONTESTED by doc_id.

    `counts.documents` is the number of documents in clusters that are cut into pieces.
    """

    stage, version = "verify", VERSION

    cluster_table: Artifact
    number: int
    across: bool

    @property
    def name(self) -> str:
        return f"contested-{self.number:05d}"

    @property
    def also_in_key(self) -> int:
        return limits().cluster_documents

    def make(self) -> Artifact:
        def fill(scratch: Path) -> Counts:
            cut = 0
            with parquet_writer(scratch, CONTESTED, use_dictionary=["pieces"]) as writer:
                for table in tables_of(self.folder, self.cluster_table):
                    rows = table.filter(pc.field("cluster_sources") > 1) if self.across else table
                    # A piece for each started group of `cluster_documents` documents.
                    pieces = (rows.column("cluster_size").to_numpy() - np.uint32(1)) // np.uint32(
                        limits().cluster_documents
                    )
                    rows = rows.select(["doc_id", "cluster_id"])
                    writer.write_table(rows.append_column("pieces", pa.array(pieces + np.uint32(1))))
                    cut += int(np.count_nonzero(pieces))
            return Counts(documents=cut)

        return write_artifact(self.folder, self.path, self.name, fill)


@dataclass(frozen=True)
class RowsByCluster(ArtifactJob):
    """The rows of the contested documents of some neighbouring shards, by part, cluster and piece.

    Columns: PLACE_COLUMNS, the values of the preference, and the columns that are compared. bits: there are 2**bits
    parts.
    """

    stage, version = "verify", VERSION

    shards: tuple[Artifact, ...]
    contested: Annotated[Files, NotInKey("only those of these shards count, which `also_in_key` has")]
    bits: int
    order: Annotated[Preference, NotInKey("only its columns are read here")]
    comparison: Annotated[Comparison, NotInKey("only how it cuts clusters and whether it reads texts count")]

    @property
    def name(self) -> str:
        return self.shards[0].name

    @property
    def also_in_key(self) -> list[object]:
        cut = self.comparison.cut_settings(self.piece_counts)
        return [self.contested_here, cut, self.order.prefer, self.comparison.rows_key]

    @cached_property
    def documents(self) -> pa.Table:
        """CONTESTED of these shards."""
        ranges = [first_and_last(self.folder, shard) for shard in self.shards]
        return pa.concat_tables(rows_between(self.folder, self.contested.artifacts, *both) for both in ranges)

    @cached_property
    def contested_here(self) -> str:
        """A hash of the contested documents of these shards: documents of other shards do not matter."""
        columns = [column.to_numpy().tobytes() for column in self.documents.columns]
        return sha256(b"".join(columns)).hexdigest()

    @property
    def piece_counts(self) -> NDArray[np.uint32]:
        """The number of pieces of the cluster of each document: (n,)."""
        return self.documents.column("pieces").to_numpy()

    def make(self) -> Artifact:
        wanted = ["doc_id", *self.order.columns, *self.comparison.columns]
        parts = [
            self.with_places(table)
            for shard in self.shards
            for table in tables_of(self.folder, shard, columns_in(self.folder, shard, wanted))
        ]
        rows = sorted_rows(pa.concat_tables(parts))
        return write_artifact(
            self.folder, self.path, self.name, lambda scratch: write_parts(scratch, rows, **CODED)
        )

    def with_places(self, table: pa.Table) -> pa.Table:
        """Return the rows of the contested documents of a table."""
        ids, documents = table.column("doc_id").to_numpy(), self.documents
        is_asked = np.isin(ids, documents.column("doc_id").to_numpy(), assume_unique=True)
        table = table.filter(pa.array(is_asked))
        places = np.searchsorted(documents.column("doc_id").to_numpy(), ids[is_asked])
        clusters = documents.column("cluster_id").to_numpy()[places]
        piece = self.comparison.assign_pieces(table, self.piece_counts[places])
        parts = part_of(clusters, piece, self.bits).astype(np.uint16)
        columns = [parts, clusters, piece, ids[is_asked]]
        rows = pa.table([pa.array(column) for column in columns], schema=PLACE_COLUMNS)
        values = self.order.values(table)
        for name in values.column_names:
            rows = rows.append_column(name, values.column(name))
        for name in self.comparison.columns:
            rows = rows.append_column(name, table.column(name).cast(pa.large_string()))
        for name, column in self.comparison.added_columns(self.folder, ids[is_asked]).items():
            rows = rows.append_column(name, column)
        return rows


@dataclass(frozen=True)
class RowsOfPart(ArtifactJob):
    """The rows of a part in some files of `RowsByCluster`, by the parts into which it is cut once more.

    first: the index of the first of these files. bits, all_bits: there are 2**bits parts, and finally 2**all_bits.
    """

    stage, version = "verify", VERSION

    gathered: Files
    part: int
    first: int
    bits: int
    all_bits: int

    @property
    def name(self) -> str:
        return f"part-{self.part:05d}-{self.first:07d}"

    def make(self) -> Artifact:
        # A file has 1/2**bits of its rows in a part, so 2**bits files have as many in this part as a file in all.
        artifacts = self.gathered.artifacts[self.first : self.first + (1 << self.bits)]
        tables = [footer_of(self.folder, artifacts[0]).schema.to_arrow_schema().empty_table()]
        rows = pa.concat_tables([*tables, *rows_of_part(self.folder, artifacts, self.part)])
        clusters, piece = (rows.column(name).to_numpy() for name in ("cluster_id", "piece"))
        parts = part_of(clusters, piece, self.all_bits) & ((1 << self.all_bits - self.bits) - 1)
        rows = rows.set_column(0, PLACE_COLUMNS.field("part"), pa.array(parts.astype(np.uint16)))
        rows = sorted_rows(rows)
        return write_artifact(
            self.folder, self.path, self.name, lambda scratch: write_parts(scratch, rows, **CODED)
        )


def sorted_rows(rows: pa.Table) -> pa.Table:
    """Return rows in the order of PLACE_COLUMNS."""
    return rows.take(np.lexsort([rows.column(name).to_numpy() for name in reversed(PLACE_COLUMNS.names)]))


def columns_in(folder: Folder, shard: Artifact, wanted: Sequence[str]) -> list[str]:
    """Return the wanted columns of a shard: other files of its source may have columns that it lacks."""
    column_names = footer_of(folder, shard).schema.to_arrow_schema().names
    return [name for name in dict.fromkeys(wanted) if name in column_names]


def part_of(clusters: Ids, piece: NDArray[np.uint32], bits: int) -> NDArray[np.uint64]:
    """Return the part of each piece of a cluster: (n,) twice to (n,), below 2**bits."""
    hashes = hash_ids(hash_ids(clusters) + piece.astype(np.uint64))
    # In two steps: NumPy does not shift a number by all of its 64 bits.
    return hashes >> np.uint64(63 - bits) >> np.uint64(1)


def neighbours(shards: Sequence[Artifact], share: float) -> list[tuple[Artifact, ...]]:
    """Group neighbouring shards from which one file is made. share: the contested part of their text."""
    groups = list[list[Artifact]]()
    size = 0
    for shard in shards:
        size += shard.counts.bytes
        if not groups or size > READ_BYTES or size * share > FILE_BYTES:
            groups.append([])
            size = shard.counts.bytes
        groups[-1].append(shard)
    return [tuple(group) for group in groups]


def first_and_last(folder: Folder, shard: Artifact, section: Section = WHOLE) -> tuple[int, int]:
    """Return the smallest and the largest doc_id of a shard, or of a section of it, from its footer."""
    footer = footer_of(folder, shard)
    place = footer.schema.names.index("doc_id")
    groups = [footer.row_group(i).column(place).statistics for i in groups_of_section(footer, section)]
    return groups[0].min, groups[-1].max
