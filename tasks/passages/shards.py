"""The passages of a shard, what is cut of its documents, and which of them are removed for it.

Rows of the first table: PASSAGES. Rows of the second, CUTS, for each changed document: its reason if it is removed;
otherwise its tokens and bytes after the cut, and the bytes that are cut, as begins and ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.passages import spans
from zyda_flows.tasks.passages.cutting import (
    CutOfPart,
    cut_of_part,
    cut_spans,
    is_blank,
    owned_spans,
    without_spans,
)
from zyda_flows.tasks.passages.marks import PASSAGES, RunsOfShard, passages_of
from zyda_flows.tasks.passages.search_jobs import STAGE, ShardToSearch
from zyda_flows.tasks.passages.spans import Places, Spans
from zyda_flows.tasks.passages.units import VERSION as UNITS_VERSION
from zyda_flows.tasks.passages.units import units_of
from zyda_flows.tasks.recipe.passages import AnyPart, PassagePart
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.verdicts import VERDICTS
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import read_table, write_table
from zyda_flows.tasks.tokens.engine import EngineDiffers
from zyda_flows.tasks.tokens.stored import stored_engine
from zyda_flows.textkernels.buffers import text_buffers

VERSION = 2
REPEATED_PASSAGES = "repeated_passages"
PLACES = pa.list_(pa.uint32())
CUTS = pa.schema(
    [
        *VERDICTS,
        ("tokens_left", pa.uint32()),
        ("bytes_left", pa.uint32()),
        ("cut_start", PLACES),
        ("cut_end", PLACES),
    ]
)
ALL_PARTS = TypeAdapter[tuple[PassagePart, ...]](tuple[AnyPart, ...])


class ShardPassages(Record):
    """The passages of a shard, and the documents that are cut or removed."""

    passages: Artifact
    cuts: Artifact


@dataclass(frozen=True)
class PassagesOfShard(RecordJob[ShardPassages]):
    """The passages of a shard, and what is cut.

    runs: for each part of `passages`, the runs of the shard. settings: the parts as JSON. is_protected: whether
    nothing is cut of the source.
    """

    stage, version, kind = STAGE, VERSION, ShardPassages

    shard: ShardToSearch
    runs: tuple[Artifact, ...]
    settings: str
    is_protected: bool

    @property
    def name(self) -> str:
        return self.shard.history.shard.name

    @property
    def also_in_key(self) -> Any:
        return UNITS_VERSION

    @cached_property
    def parts(self) -> tuple[PassagePart, ...]:
        return ALL_PARTS.validate_json(self.settings)

    def make(self) -> ShardPassages:
        runs = [RunsOfShard(read_table(self.folder, artifact)) for artifact in self.runs]
        passages, cuts = [PASSAGES.empty_table()], [CUTS.empty_table()]
        if any(len(shard_runs.starts) for shard_runs in runs):
            for passages_of_batch, cuts_of_batch in self.batches(runs):
                passages.append(passages_of_batch)
                cuts.append(cuts_of_batch)
        name, source = f"{self.source}/{self.name}", self.source
        path = artifact_path(f"{STAGE}-cuts", source, self.name, self.key)
        return self.recorded(
            ShardPassages(
                passages=write_table(self.folder, self.path, name, pa.concat_tables(passages)),
                cuts=write_table(self.folder, path, self.name, pa.concat_tables(cuts)),
            )
        )

    def batches(self, runs: Sequence[RunsOfShard]) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield the passages and the cuts of some documents at a time."""
        engine = self.shard.tokenizer.engine(self.folder)
        for texts, doc_ids in self.shard.batches(self.folder):
            tables, cut_by_part = list[pa.Table](), list[tuple[PassagePart, CutOfPart]]()
            for number, (part, shard_runs) in enumerate(zip(self.parts, runs, strict=True), 1):
                units = units_of(texts, part, engine)
                marks = shard_runs.marks(units, part, doc_ids)
                tables.append(passages_of(marks, units, texts, doc_ids, part, number))
                cut_by_part.append((part, cut_of_part(marks, units, part)))
            found = pa.concat_tables(tables).sort_by([("doc_id", "ascending"), ("start", "ascending")])
            yield found, CUTS.empty_table() if self.is_protected else self.cuts(texts, doc_ids, cut_by_part)

    def cuts(
        self, texts: pa.LargeStringArray, doc_ids: Ids, cut_by_part: list[tuple[PassagePart, CutOfPart]]
    ) -> pa.Table:
        """Return what is cut of some documents: CUTS."""
        cut, owned = cut_spans(texts, cut_by_part), owned_spans(cut_by_part)
        offsets = text_buffers(texts)[1]
        borders = offsets - offsets[0]
        lost = np.diff(spans.bytes_before(cut, borders))
        changed = np.flatnonzero(lost)
        if not len(changed):
            return CUTS.empty_table()
        left = without_spans(texts, cut).take(pa.array(changed))
        is_owner = np.diff(spans.bytes_before(owned, borders))[changed] > 0
        shares = [part.drop_document for part, _ in cut_by_part if part.drop_document is not None]
        is_removed = is_blank(left)
        if shares:
            is_removed |= lost[changed] > min(shares) * np.diff(borders)[changed]
        is_removed &= ~is_owner
        begins, ends = spans_by_text(cut, borders, changed, ~is_removed)
        tokens = np.zeros(len(changed), np.uint32)
        tokens[~is_removed] = self.count(left.filter(pa.array(~is_removed)))
        columns = [
            doc_ids[changed],
            pa.array([REPEATED_PASSAGES] * len(changed), pa.string(), mask=~is_removed),
            tokens,
            (np.diff(borders) - lost)[changed].astype(np.uint32),
            begins,
            ends,
        ]
        return pa.table([*map(pa.array, columns)], schema=CUTS)

    def count(self, texts: pa.LargeStringArray) -> NDArray[np.uint32]:
        """Count the tokens of texts, as ingest does."""
        try:
            return self.shard.tokenizer.engine(self.folder).count(texts)
        except EngineDiffers:
            tokenizer = self.shard.tokenizer
            exact = stored_engine(self.folder, tokenizer.digest, tokenizer.special_tokens, is_exact=True)
            return exact.count(texts)


def spans_by_text(
    cut: Spans, borders: Places, changed: Places, is_listed: NDArray[np.bool_]
) -> tuple[pa.ListArray, pa.ListArray]:
    """Return the spans of some texts as lists of begins and ends within each: (n,) twice, empty if not listed."""
    cut = spans.divided(cut, borders)
    numbers = np.searchsorted(borders, cut.starts, side="right") - 1
    # Empty texts begin at the same byte: the last of them has the bytes.
    places = np.searchsorted(changed, numbers)
    chosen = is_listed[places]
    starts, stops, numbers, places = (values[chosen] for values in (cut.starts, cut.stops, numbers, places))
    offsets = np.searchsorted(places, np.arange(len(changed) + 1)).astype(np.int32)
    lists = [
        pa.ListArray.from_arrays(pa.array(offsets), pa.array((values - borders[numbers]).astype(np.uint32)))
        for values in (starts, stops)
    ]
    return lists[0], lists[1]
