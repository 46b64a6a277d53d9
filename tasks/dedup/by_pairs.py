"""Pairs: a document of a cluster is removed for a kept document with which it is a confirmed pair.

The documents of a cluster are tested in the order of preference, as by `tasks.dedup.verify`. The pairs come from
the stage `confirm` (`tasks.semantic`), which has compared the texts and their facts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.audited import IndexCounts
from zyda_flows.tasks.dedup.comparison import Comparison, RankedMembers
from zyda_flows.tasks.dedup.exchange import Files
from zyda_flows.tasks.dedup.part_tables import place_among
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import TextFile
from zyda_flows.tasks.storage.tables import rows_between
from zyda_flows.textkernels.greedy import KEPT, choose_removed

EVIDENCE = pa.schema([("cosine", pa.float32()), ("proposed_cosine", pa.float32()), ("novel", pa.float32())])
PARTNER = pa.struct([pa.field("other_id", pa.uint64()), *EVIDENCE])
PARTNERS = pa.field("partners", pa.list_(PARTNER))
PAIR_BYTES = 64  # estimated bytes of memory for a pair


def is_duplicate(pairs: pa.Table, cosine: float, facts: str) -> pa.ChunkedArray:
    """Return for which pairs a document may be removed for the other: bool, (n,).

    Cosines are compared as float32, as they are stored.
    """
    is_similar = pc.greater_equal(pairs.column("cosine"), pa.scalar(np.float32(cosine), pa.float32()))
    return is_similar if facts == "ignore" else pc.and_(is_similar, pairs.column("agrees"))


@dataclass(frozen=True)
class PairComparison(Comparison):
    """Remove a document for a kept document of a confirmed pair. pairs: the files of the stage `confirm`."""

    evidence_schema = EVIDENCE

    dedup: SemanticRound
    pairs: Files

    @property
    def key_settings(self) -> list[Any]:
        settings = self.dedup.semantic
        return [self.dedup.scope, settings.cosine, settings.facts, settings.remove, self.pairs.path]

    @property
    def needs_only_ids(self) -> bool:
        return False

    @property
    def rows_key(self) -> Any:
        return self.key_settings

    def memory_bytes(self, counts: Counts, contested_documents: int) -> float:
        return super().memory_bytes(counts, contested_documents) + self.pairs.rows * PAIR_BYTES

    def added_columns(self, folder: Folder, doc_ids: Ids) -> dict[str, pa.Array]:
        """Return the partners for which each document may be removed: PARTNERS. doc_ids: (n,), ascending."""
        files = self.pairs.artifacts
        if not len(doc_ids) or not files or not self.dedup.semantic.remove:
            return {PARTNERS.name: pa.array([[]] * len(doc_ids), PARTNERS.type)}
        table = rows_between(folder, files, int(doc_ids[0]), int(doc_ids[-1]))
        settings = self.dedup.semantic
        table = table.filter(is_duplicate(table, settings.cosine, settings.facts))
        ids = table.column("doc_id").to_numpy()
        table = table.filter(pa.array(np.isin(ids, doc_ids)))
        counts = np.searchsorted(ids := table.column("doc_id").to_numpy(), doc_ids, side="right")
        offsets = np.concatenate([np.searchsorted(ids, doc_ids[:1]), counts]).astype(np.int32)
        columns = [table.column(field.name).combine_chunks() for field in PARTNER]
        partners = pa.StructArray.from_arrays(columns, fields=list(PARTNER))
        return {PARTNERS.name: pa.ListArray.from_arrays(pa.array(offsets), partners)}

    def compare(
        self, members: RankedMembers, rows: pa.Table, texts: TextFile
    ) -> Iterator[tuple[pa.Table, IndexCounts]]:
        partners = rows.column(PARTNERS.name).take(pa.array(members.table_rows)).combine_chunks()
        counts = pc.list_value_length(partners).to_numpy(zero_copy_only=False)
        others = pa.Table.from_struct_array(partners.flatten())
        by_id = np.argsort(members.doc_ids)
        places, is_present = place_among(members.doc_ids[by_id], others.column("other_id").to_numpy())
        owners = np.repeat(np.arange(len(counts)), counts)[is_present]
        others = others.filter(pa.array(is_present))
        ends = np.searchsorted(owners, np.arange(len(counts) + 1))
        chosen = choose_removed(
            ends, by_id[places[is_present]], others.column("cosine").to_numpy(), members.removal_groups,
            members.is_removable,
        )  # fmt: skip
        removed = np.flatnonzero(chosen != KEPT)
        evidence = others.take(pa.array(chosen[removed]))
        kept = evidence.column("other_id")
        columns = [
            pa.array(members.doc_ids[removed]),
            kept,
            *(evidence.column(name) for name in EVIDENCE.names),
        ]
        yield pa.table(columns, schema=self.schema), IndexCounts()
