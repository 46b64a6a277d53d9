"""Decisions by documents: choose the kept documents of each cluster, if their ids are not enough to decide.

The required columns of the documents are read once and stored by cluster (`tasks.dedup.contested`), in parts, which
are compared by the rule of the round (`tasks.dedup.comparison`). Rows out: as of `tasks.dedup.decisions`, with the
exact similarities, in files by ranges of doc_ids.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pyarrow as pa

from zyda_flows.tasks.accounts.audited import IndexCounts
from zyda_flows.tasks.dedup.comparison import Comparison, rank_members
from zyda_flows.tasks.dedup.contested import ContestedDocuments, RowsByCluster, RowsOfPart, neighbours
from zyda_flows.tasks.dedup.exchange import Files, list_files
from zyda_flows.tasks.dedup.preference import Preference
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import ArtifactJob, RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import with_columns
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import total
from zyda_flows.tasks.storage.parts import TextFile, read_part
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import read_table, rows_between, write_table

VERSION = 2
PART_BYTES = 256 << 20  # of text in a part, about
# The binary logarithm of the most parts into which shards are cut at once. Each file has a row group for each
# part, and a part reads the footers of all files.
MOST_BITS = 9
ALL_BITS = 24  # the same for all parts: 4 PB of text


class ComparedPartRecord(Record):
    """The removed documents of a part with the documents that are kept for them, by doc_id."""

    shard: Artifact
    by_index: IndexCounts


@dataclass(frozen=True)
class ComparedPart(RecordJob[ComparedPartRecord]):
    """The documents of a part to compare.

    part: its number in `gathered`. number: its number among all parts. order_key: of the order of preference.
    """

    stage, version, kind = "verify", VERSION, ComparedPartRecord

    gathered: Files
    part: int
    number: int
    order: Annotated[Preference, NotInKey("`order_key` is a hash of it")]
    order_key: str
    comparison: Annotated[Comparison, NotInKey("its settings are in the key")]

    @property
    def name(self) -> str:
        return f"part-{self.number:05d}"

    @property
    def also_in_key(self) -> list[Any]:
        return self.comparison.key_settings

    def make(self) -> ComparedPartRecord:
        with self.folder.scratch_file() as scratch:
            reading = read_part(self.folder, self.gathered.artifacts, self.part, scratch)
            with reading as (rows, texts):
                compared = [] if rows is None else [*self.compare(rows, texts)]
                are_pieces = rows is not None and self.comparison.columns
                by_index = IndexCounts(cut_pairs=pairs_of_pieces(rows) if are_pieces else 0)
        none = self.comparison.schema.empty_table()
        table = pa.concat_tables([none, *(removed for removed, _ in compared)]).sort_by("doc_id")
        shard = write_table(self.folder, self.path, self.name, table)
        return self.recorded(
            ComparedPartRecord(shard=shard, by_index=sum((by for _, by in compared), by_index))
        )

    def compare(self, rows: pa.Table, texts: TextFile) -> Iterator[tuple[pa.Table, IndexCounts]]:
        members = rank_members(rows, self.order, self.comparison.dedup)
        return self.comparison.compare(members, rows, texts)


def pairs_of_pieces(rows: pa.Table) -> int:
    """Count the pairs of documents of a cluster that are in different pieces. rows: `cluster_id`, `piece`."""
    piece_counts = rows.group_by(["cluster_id", "piece"]).aggregate([([], "count_all")])
    cluster_counts = rows.group_by("cluster_id").aggregate([([], "count_all")])
    squares = [sum(n * n for n in table["count_all"].to_pylist()) for table in (cluster_counts, piece_counts)]
    return (squares[0] - squares[1]) // 2


@dataclass(frozen=True)
class VerifiedFile(ArtifactJob):
    """The decisions about the documents of a file of clusters: DECIDED by doc_id."""

    stage, version = "verify", VERSION

    clustered: Artifact
    number: int
    compared_parts: Files
    schema: pa.Schema

    @property
    def name(self) -> str:
        return f"range-{self.number:05d}"

    def make(self) -> Artifact:
        rows = read_table(self.folder, self.clustered)
        ids = rows.column("doc_id").to_numpy()
        compare = [self.schema.empty_table()]
        if len(ids) and (parts := self.compared_parts.artifacts):
            compare.append(rows_between(self.folder, parts, int(ids[0]), int(ids[-1])))
        table = with_columns(rows, pa.concat_tables(compare).sort_by("doc_id"))
        return write_table(self.folder, self.path, self.name, table)


def decided_by_documents(
    dedup_round: Round,
    shards: Sequence[Artifact],
    tables: Sequence[Artifact],
    order: Preference,
    order_key: str,
    comparison: Comparison,
) -> tuple[list[Artifact], list[str], IndexCounts]:
    """Decide about all clustered documents of some shards, cluster by cluster.

    Returns the files of decisions, the paths of intermediate files, and the counts of comparisons by an index.
    """
    folder = dedup_round.folder
    is_across = dedup_round.dedup.scope == "across"
    contested_jobs = [
        ContestedDocuments(folder, None, clusters_file, number, is_across)
        for number, clusters_file in enumerate(tables)
    ]
    contested = list_files(
        folder,
        fan_out(ArtifactJob.__call__, contested_jobs, stage=dedup_round.name_of("contested"), source=None),
    )
    text = total(shard.counts for shard in shards)
    share = contested.rows / max(1, text.documents)
    all_bits = min(ALL_BITS, int(comparison.memory_bytes(text, contested.rows) / PART_BYTES).bit_length())
    bits = all_bits if all_bits <= MOST_BITS else (all_bits + 1) // 2
    reading = [
        RowsByCluster(
            folder=folder,
            source=None,
            shards=group,
            contested=contested,
            bits=bits,
            order=order,
            comparison=comparison,
        )
        for group in neighbours(shards, share)
    ]
    gathered = fan_out(
        ArtifactJob.__call__, reading, stage=dedup_round.name_of("clustered texts"), source=None
    )
    files_of_parts, cut_again = cut_once_more(dedup_round, gathered, bits, all_bits)
    more_bits = all_bits - bits
    numbers = [(part, part >> more_bits, part & ((1 << more_bits) - 1)) for part in range(1 << all_bits)]
    parts = [
        ComparedPart(
            folder=folder,
            source=None,
            gathered=files_of_parts[first],
            part=second if more_bits else part,
            number=part,
            order=order,
            order_key=order_key,
            comparison=comparison,
        )
        for part, first, second in numbers
    ]
    records = fan_out(ComparedPart.__call__, parts, stage=dedup_round.name_of("verify"), source=None)
    compared_parts = [compared.shard for compared in records]
    cut = sum(shard.counts.documents for shard in contested.artifacts) if comparison.columns else 0
    by_index = sum((compared.by_index for compared in records), IndexCounts(cut=cut))
    compare = list_files(folder, [shard for shard in compared_parts if shard.rows])
    files = [
        VerifiedFile(folder, None, clusters_file, number, compare, comparison.schema)
        for number, clusters_file in enumerate(tables)
    ]
    decided = fan_out(ArtifactJob.__call__, files, stage=dedup_round.name_of("decisions"), source=None)
    intermediate = [*contested.artifacts, *gathered, *cut_again, *compared_parts]
    lists = dict.fromkeys([contested, *files_of_parts, compare])
    return decided, [*(made.path for made in intermediate), *(each.path for each in lists)], by_index


def cut_once_more(
    dedup_round: Round, gathered: list[Artifact], bits: int, all_bits: int
) -> tuple[list[Files], list[Artifact]]:
    """Cut the texts into 2**all_bits parts, if they are in 2**bits parts so far.

    Return the list of files from which each of the 2**bits parts is read, and the files that were written for this.
    If all_bits equals bits, no files are written and all parts are read from the same files.
    """
    folder, listed = dedup_round.folder, list_files(dedup_round.folder, gathered)
    if all_bits == bits:
        return [listed] * (1 << bits), []
    # The parts of the same files follow each other, so that a worker reads the footers of these files once.
    jobs = [
        RowsOfPart(
            folder=folder, source=None, gathered=listed, part=part, first=start, bits=bits, all_bits=all_bits
        )
        for start in range(0, len(gathered), 1 << bits)
        for part in range(1 << bits)
    ]
    cut_again = fan_out(ArtifactJob.__call__, jobs, stage=dedup_round.name_of("clustered texts"), source=None)
    return [list_files(folder, cut_again[part :: 1 << bits]) for part in range(1 << bits)], cut_again
