"""Preference: the order in which documents have the right to stay.

Documents of protected sources come first, then what the recipe's `prefer` says, then source, file and row, which
tell any two apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.errors import bad_input
from tasks.ids import FILE_SHIFT, MAX_ROWS, MAX_SOURCES, SOURCE_SHIFT, files_of, sources_of
from tasks.recipe.fields import DIRECTIONS, PREFERENCES, Recipe, Source
from tasks.sources.listing import NumberedSource, load_listing

Ids = NDArray[np.uint64]
# Of each preference two columns: a number or a text. Numbers come before texts, and both before nothing.
NUMBER, TEXT = "number", "text"


@dataclass(frozen=True)
class Preference:
    """The order of a recipe.

    rank: (256,) uint64, the place of each source number: protected ones first, then as in the recipe. protected:
    (256,) bool. file_places: for each source number, (files,) uint64, the place of each of its file numbers in the
    order of their URLs. prefer: the recipe's.
    """

    rank: Ids
    protected: NDArray[np.bool_]
    file_places: dict[int, Ids]
    prefer: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the documents that it looks at."""
        own = [entry.rpartition(" ")[0] for entry in self.prefer if entry not in PREFERENCES]
        return [*own, *(["n_bytes"] if "longest" in self.prefer else [])]

    @property
    def is_of_places(self) -> bool:
        """Whether `priority` alone is the order."""
        return self.prefer[0] == "source" and not self.columns

    def is_protected(self, doc_ids: Ids) -> NDArray[np.bool_]:
        """Say which documents may not go: (n,) to (n,)."""
        return self.protected[sources_of(doc_ids)]

    def priority(self, doc_ids: Ids) -> Ids:
        """Return a number for each document that is smaller the better its source, file and row: (n,) to (n,)."""
        sources, files = sources_of(doc_ids), files_of(doc_ids)
        places = np.zeros(len(doc_ids), np.uint64)
        for number, places_of_files in self.file_places.items():
            is_of_source = sources == number
            places[is_of_source] = places_of_files[files[is_of_source]]
        rows = doc_ids & np.uint64(MAX_ROWS - 1)
        # Laid out as a doc_id is, with the source's rank and the file's place where their numbers stand.
        return self.rank[sources] << np.uint64(SOURCE_SHIFT) | places << np.uint64(FILE_SHIFT) | rows

    def values(self, documents: pa.Table) -> pa.Table:
        """Return what is looked at of some documents, NUMBER and TEXT of each preference, in types of their own."""
        found = dict[str, pa.ChunkedArray]()
        for entry in self.prefer:
            if entry == "longest":
                found[NUMBER + entry] = pc.cast(documents.column("n_bytes"), pa.float64())
                found[TEXT + entry] = pa.chunked_array([pa.nulls(len(documents), pa.string())])
            elif entry != "source":
                name = entry.rpartition(" ")[0]
                there = name in documents.column_names
                column = documents.column(name) if there else pa.chunked_array([pa.nulls(len(documents))])
                found[NUMBER + entry], found[TEXT + entry] = numbers_and_texts(column)
        return pa.table(found) if found else pa.table({})

    def order(self, rows: pa.Table, within: Sequence[str]) -> NDArray[np.int64]:
        """Sort documents, by the columns `within` first: `doc_id` and `values`, (n,) to (n,) places."""
        ids = rows.column("doc_id").to_numpy()
        priority = self.priority(ids)
        rows = rows.append_column("kept first", pa.array(~self.is_protected(ids)))
        rows = rows.append_column("source", pa.array(priority >> np.uint64(SOURCE_SHIFT)))
        rows = rows.append_column("priority", pa.array(priority))
        keys = [*((name, "ascending") for name in within), ("kept first", "ascending")]
        for entry in self.prefer:
            if entry == "source":
                keys.append((entry, "ascending"))
            else:
                direction = "descending" if entry == "longest" else DIRECTIONS[entry.rpartition(" ")[2]]
                keys += [(NUMBER + entry, direction), (TEXT + entry, direction)]
        places: NDArray[np.int64] = pc.sort_indices(rows, [*keys, ("priority", "ascending")]).to_numpy()
        return places.astype(np.int64)


def numbers_and_texts(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the values of a column as numbers and as texts, of which one is null; both of what has no order."""
    nothing, kind = pa.nulls(len(column)), column.type
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.uint8()), pa.uint8()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = column.cast(pa.float64(), safe=False)
        is_number = pc.invert(pc.fill_null(pc.is_nan(numbers), fill_value=True))
        return pc.if_else(is_number, numbers, None), pa.chunked_array([nothing.cast(pa.string())])
    if pa.types.is_temporal(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.chunked_array([nothing.cast(pa.float64())]), column.cast(pa.string())
    return pa.chunked_array([nothing.cast(pa.float64())]), pa.chunked_array([nothing.cast(pa.string())])


def has_order(kind: pa.DataType) -> bool:
    of_kinds = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
                pa.types.is_temporal, pa.types.is_string, pa.types.is_large_string, pa.types.is_null)  # fmt: skip
    return any(is_kind(kind) for is_kind in of_kinds)


def check_preferred(recipe: Recipe, source: Source, stored: pa.Schema) -> None:
    """Raise BadInput where a source lacks a column by which documents are preferred."""
    if source.exempt:
        return
    for entry in (
        entry for of_round in recipe.rounds for entry in of_round.prefer if entry not in PREFERENCES
    ):
        name = entry.rpartition(" ")[0]
        if name not in stored.names:
            there = ", ".join(stored.names)
            raise bad_input(
                source.name, f"dedup.prefer: {entry}: there is no column {name}; there are {there}"
            )
        if not has_order(stored.field(name).type):
            kind = stored.field(name).type
            raise bad_input(source.name, f"dedup.prefer: {entry}: values of type {kind} have no order")


def preference_of(recipe: Recipe, sources: Sequence[NumberedSource]) -> Preference:
    """Return the order of a round."""
    rank, protected = np.zeros(MAX_SOURCES, np.uint64), np.zeros(MAX_SOURCES, np.bool_)
    file_places = dict[int, Ids]()
    for i, source in enumerate(sorted(sources, key=lambda source: not recipe.source(source.source).protect)):
        rank[source.number] = i
        protected[source.number] = recipe.source(source.source).protect
        numbers = [file.number for file in load_listing(recipe.folder, source.listing)]
        places = np.zeros(max(numbers) + 1, np.uint64)
        places[numbers] = np.arange(len(numbers))
        file_places[source.number] = places
    return Preference(rank, protected, file_places, recipe.dedup.prefer)


def order_of(recipe: Recipe, sources: Sequence[NumberedSource]) -> list[Any]:
    """Return all that the order of preference depends on, besides the documents."""
    protected = [source.number for source in sources if recipe.source(source.source).protect]
    of_sources = [[source.number, source.listing] for source in sources]
    further = [protected, recipe.dedup.prefer] if protected or recipe.dedup.prefer != ("source",) else []
    return [*of_sources, *further]
