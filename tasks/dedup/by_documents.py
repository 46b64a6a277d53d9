"""Decisions by documents: who goes of each cluster, where that takes more than its documents' ids.

What is needed of the documents is read once and kept by cluster (`tasks.dedup.contested`), in parts, which are
judged as the round says (`tasks.dedup.judging`). Rows out: as of `tasks.dedup.decisions`, with the exact
similarities, in files by ranges of doc_ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tasks.accounts.audited import ByIndex
from tasks.dedup.contested import ContestedDocuments, RowsByCluster, neighbours
from tasks.dedup.judging import JUDGED, Judging, in_order
from tasks.dedup.preference import Preference
from tasks.dedup.verify import judging_of
from tasks.recipe.rounds import Round
from tasks.stage.fan_out import fan_out
from tasks.stage.jobs import RecordJob, ShardJob
from tasks.stage.verdicts import with_columns
from tasks.storage.artifacts import Shard, total
from tasks.storage.folder import Folder
from tasks.storage.parts import read_part
from tasks.storage.records import Record
from tasks.storage.tables import footer_of, open_table, rows_between, write_table

VERSION = 2
PART_BYTES = 256 << 20  # of text in one part, about
MOST_BITS = 12
RANGE_ROWS = 16 << 20


class JudgedPartOutput(Record):
    """The documents of a part that go, each with the one it goes for: JUDGED by doc_id."""

    KIND = "Judged"
    shard: Shard
    by_index: ByIndex


@dataclass(frozen=True)
class JudgedPart(RecordJob[JudgedPartOutput]):
    """The documents of a part to judge.

    order_key: of the order of preference.
    """

    stage, version, kind = "verify", VERSION, JudgedPartOutput

    gathered: tuple[Shard, ...]
    part: int
    order: Preference
    order_key: str
    judging: Judging

    @property
    def name(self) -> str:
        return f"part-{self.part:05d}"

    @property
    def params(self) -> list[Any]:
        return ["judged", self.part, self.judging.rule, self.order_key]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(shard.digest for shard in self.gathered)

    def make(self) -> JudgedPartOutput:
        with self.folder.scratch_file() as scratch:
            reading = read_part(self.folder, self.gathered, self.part, scratch)
            with reading as (rows, texts):
                members = None if rows is None else in_order(rows, self.order, self.judging.dedup)
                found = [] if members is None else [*self.judging.judged(members, texts)]
        table = pa.concat_tables([JUDGED.empty_table(), *(of for of, _ in found)]).sort_by("doc_id")
        shard = write_table(self.folder, self.path, self.name, table)
        return self.recorded(JudgedPartOutput(shard=shard, by_index=sum((by for _, by in found), ByIndex())))


@dataclass(frozen=True)
class DecidedRange(ShardJob):
    """What is decided about the clustered documents of some row groups of the clusters: DECIDED by doc_id."""

    stage, version = "verify", VERSION

    cluster_table: Shard
    groups: tuple[int, ...]
    judged_parts: tuple[Shard, ...]

    @property
    def name(self) -> str:
        return f"range-{self.groups[0]:05d}" if self.groups else "range"

    @property
    def params(self) -> list[Any]:
        return ["decided", self.groups]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.cluster_table.digest, *(shard.digest for shard in self.judged_parts))

    def make(self) -> Shard:
        with open_table(self.folder, self.cluster_table) as parquet:
            rows = parquet.read_row_groups(list(self.groups))
        ids, parts = rows.column("doc_id").to_numpy(), [part for part in self.judged_parts if part.rows]
        said = [JUDGED.empty_table()]
        if len(ids) and parts:
            said.append(rows_between(self.folder, parts, int(ids[0]), int(ids[-1])))
        table = with_columns(rows, pa.concat_tables(said).sort_by("doc_id"))
        return write_table(self.folder, self.path, self.name, table)


def decided_by_documents(
    of_round: Round, shards: Sequence[Shard], cluster_table: Shard, order: Preference, order_key: str
) -> tuple[list[Shard], list[Shard], ByIndex]:
    """Decide about all clustered documents of some shards, cluster by cluster.

    Returns the files of what is decided, those that were made on the way, and what was judged by an index.
    """
    folder, judging = of_round.folder, judging_of(of_round.dedup)
    contested = ContestedDocuments(folder, None, cluster_table, of_round.dedup.scope == "across")()
    text = total(shard.counts for shard in shards)
    share = contested.rows / max(1, text.documents)
    bits = min(MOST_BITS, int(judging.size(text, contested.rows) / PART_BYTES).bit_length())
    reading = [
        RowsByCluster(folder, None, group, contested, bits, order, judging)
        for group in neighbours(shards, share)
    ]
    gathered = fan_out(ShardJob.__call__, reading, stage=of_round.name_of("clustered texts"), source=None)
    parts = [
        JudgedPart(folder, None, tuple(gathered), part, order, order_key, judging)
        for part in range(1 << bits)
    ]
    of_parts = fan_out(JudgedPart.__call__, parts, stage=of_round.name_of("verify"), source=None)
    judged_parts = [of_part.shard for of_part in of_parts]
    by_index = sum((of_part.by_index for of_part in of_parts), ByIndex())
    ranges = [
        DecidedRange(folder, None, cluster_table, groups, tuple(judged_parts))
        for groups in ranges_of(folder, cluster_table)
    ]
    decided = fan_out(ShardJob.__call__, ranges, stage=of_round.name_of("decisions"), source=None)
    return decided, [contested, *gathered, *judged_parts], by_index


def ranges_of(folder: Folder, cluster_table: Shard) -> list[tuple[int, ...]]:
    """Put row groups of the clusters together, of RANGE_ROWS or fewer; one range where there are none."""
    footer = footer_of(folder, cluster_table)
    ranges, rows = [list[int]()], 0
    for group in range(footer.num_row_groups):
        rows += footer.row_group(group).num_rows
        if ranges[-1] and rows > RANGE_ROWS:
            ranges.append([])
            rows = footer.row_group(group).num_rows
        ranges[-1].append(group)
    return [tuple(groups) for groups in ranges]
