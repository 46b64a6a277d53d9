"""Add up the pieces of a source as they are ingested; a process holds only the artifacts of all pieces."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import pyarrow as pa

from zyda_flows.tasks.ingest.file_pieces import IngestedPiece
from zyda_flows.tasks.sources.columns import unify
from zyda_flows.tasks.sources.type_unification import ValueRanges
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import CleaningCounts, SpecialCounts
from zyda_flows.tasks.storage.records import unpack

Value = TypeVar("Value", int, CleaningCounts, SpecialCounts)
Name = TypeVar("Name", bound=Hashable)

EMPTY = IngestedPiece(name="", shards=(), set_aside=(), table_schema="", spans=ValueRanges(), rows=0)


class SumsByName(Generic[Name, Value]):
    """Sums of values by name, in the order in which the names first occur in the pieces."""

    def __init__(self) -> None:
        self.sums: dict[Name, Value] = {}
        self.first: dict[Name, tuple[int, int]] = {}

    def add(self, place: int, values: Mapping[Name, Value]) -> None:
        """Add the values of a piece. place: number of the piece."""
        for at, (name, value) in enumerate(values.items()):
            self.sums[name] = self.sums[name] + value if name in self.sums else value
            self.first[name] = min(self.first.get(name, (place, at)), (place, at))

    def in_order(self) -> dict[Name, Value]:
        return {name: self.sums[name] for name in sorted(self.sums, key=self.first.__getitem__)}


class PieceSums:
    """The sums of the pieces of a source. names: of all pieces, in their order."""

    def __init__(self, names: Iterable[str]) -> None:
        self.places = {name: place for place, name in enumerate(names)}
        self.shards_of_pieces: list[tuple[Artifact, ...]] = [()] * len(self.places)
        self.tables_aside: list[tuple[Artifact, ...]] = [()] * len(self.places)
        self.rows = self.differing = 0
        self.spans = ValueRanges()
        self.schemas = SumsByName[str, int]()
        self.cleaned = SumsByName[str, CleaningCounts]()
        self.skipped = SumsByName[str, int]()
        self.special_tokens = SumsByName[str, SpecialCounts]()

    def add(self, piece: IngestedPiece) -> IngestedPiece:
        """Add a piece. Returns a piece without content, which takes its place among the results."""
        place = self.places[piece.name]
        self.shards_of_pieces[place], self.tables_aside[place] = piece.shards, piece.set_aside
        self.rows += piece.rows
        self.differing += piece.differing
        self.spans += piece.spans
        self.schemas.add(place, {piece.table_schema: 1} if piece.shards else {})
        self.cleaned.add(place, piece.cleaned)
        self.skipped.add(place, piece.skipped)
        self.special_tokens.add(place, piece.special_tokens)
        return EMPTY

    @property
    def shards(self) -> tuple[Artifact, ...]:
        return tuple(shard for shards in self.shards_of_pieces for shard in shards)

    @property
    def set_aside(self) -> tuple[Artifact, ...]:
        return tuple(table for tables in self.tables_aside for table in tables)

    def common_schema(self) -> pa.Schema:
        """Return the schema of the source's documents; the type of each column holds all its values."""
        return unify([unpack(schema) for schema in self.schemas.in_order()], self.spans)
