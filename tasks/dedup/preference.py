"""Preference: the order in which documents are kept.

Documents of protected sources come first. Then the recipe's `prefer` decides, then source, file and row, which
differ for any two documents.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput, bad_input
from zyda_flows.tasks.ids import FILE_SHIFT, MAX_ROWS, MAX_SOURCES, SOURCE_SHIFT, Ids, files_of, sources_of
from zyda_flows.tasks.recipe.dedup import DIRECTIONS, PREFERENCES
from zyda_flows.tasks.recipe.faults import place_in_recipe
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.columns import is_json
from zyda_flows.tasks.sources.input_files import NumberedSource, load_listing

# Each preference has three columns: a number, the remainder that a float cannot represent, and a text. Numbers come
# before texts, and both before null.
KINDS = {"number": pa.float64(), "fine": pa.int64(), "text": pa.string()}
# kept first: false for documents of protected sources. priority: smaller for a better source, file and row.
PLACES = pa.schema([("kept first", pa.bool_()), ("priority", pa.uint64())])


@dataclass(frozen=True)
class Preference:
    """The order of a recipe.

    rank: (MAX_SOURCES,) uint64, the rank of each source number: protected sources first, then as in the recipe.
    protected: (MAX_SOURCES,) bool. file_places: for each source number, (files,) uint64, the rank of each file
    number by the files' URLs. prefer: from the recipe.
    """

    rank: Ids
    protected: NDArray[np.bool_]
    file_places: dict[int, Ids]
    prefer: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the documents that the order depends on."""
        own = [entry.rpartition(" ")[0] for entry in self.prefer if entry not in PREFERENCES]
        return [*own, *(["n_bytes"] if "longest" in self.prefer else [])]

    def is_protected(self, doc_ids: Ids) -> NDArray[np.bool_]:
        """Return which documents must not be removed: (n,) to (n,)."""
        return self.protected[sources_of(doc_ids)]

    def priority(self, doc_ids: Ids) -> Ids:
        """Return a number for each document that is smaller for a better source, file and row: (n,) to (n,)."""
        sources, files = sources_of(doc_ids), files_of(doc_ids)
        places = np.zeros(len(doc_ids), np.uint64)
        for number, places_of_files in self.file_places.items():
            is_of_source = sources == number
            places[is_of_source] = places_of_files[files[is_of_source]]
        rows = doc_ids & np.uint64(MAX_ROWS - 1)
        # Laid out as a doc_id, with the ranks of source and file in place of their numbers.
        return self.rank[sources] << np.uint64(SOURCE_SHIFT) | places << np.uint64(FILE_SHIFT) | rows

    def values(self, documents: pa.Table) -> pa.Table:
        """Return the columns by which documents are ordered: KINDS of each preference; none for `source`."""
        values = dict[str, pa.Array]()
        for entry in self.prefer:
            if entry != "source":
                name = "n_bytes" if entry == "longest" else entry.rpartition(" ")[0]
                kinds = null_kinds(len(documents))
                if name in documents.column_names:
                    kinds = comparable(documents.column(name), documents.schema.field(name))
                values |= {f"{kind} {entry}": kind_values for kind, kind_values in kinds.items()}
        return pa.table(values) if values else pa.table({})

    def places(self, doc_ids: Ids) -> pa.Table:
        """Return the columns by which `prefer` orders documents that it does not distinguish: PLACES, (n,)."""
        columns = [pa.array(~self.is_protected(doc_ids)), pa.array(self.priority(doc_ids))]
        return pa.table(columns, schema=PLACES)

    def order(self, rows: pa.Table, within: Sequence[str]) -> NDArray[np.int64]:
        """Sort documents, by the columns `within` first: a table with `doc_id` and `values`, to (n,) indices."""
        places = self.places(rows.column("doc_id").to_numpy())
        for name in places.column_names:
            rows = rows.append_column(name, places.column(name))
        return ordered(rows, self.prefer, within)


def ordered(rows: pa.Table, prefer: Sequence[str], within: Sequence[str] = ()) -> NDArray[np.int64]:
    """Sort documents, by the columns `within` first: a table with PLACES and `values`, to (n,) indices."""
    priority = rows.column("priority").to_numpy()
    rows = rows.append_column("source", pa.array(priority >> np.uint64(SOURCE_SHIFT)))
    keys = [*((name, "ascending") for name in within), ("kept first", "ascending")]
    for entry in prefer:
        if entry == "source":
            keys.append((entry, "ascending"))
        else:
            direction = "descending" if entry == "longest" else DIRECTIONS[entry.rpartition(" ")[2]]
            keys += [(f"{kind} {entry}", direction) for kind in KINDS]
    places: NDArray[np.int64] = pc.sort_indices(rows, [*keys, ("priority", "ascending")]).to_numpy()
    return places.astype(np.int64)


def null_kinds(count: int) -> dict[str, pa.Array]:
    return {name: pa.nulls(count, kind) for name, kind in KINDS.items()}


def comparable(column: pa.ChunkedArray, field: pa.Field) -> dict[str, pa.Array]:
    """Return the values of a column as KINDS; all three are null if a value has no order.

    Values are compared independently of the column's type in a file. A column of mixed types is stored as JSON
    text, which is parsed here.
    """
    column, kind = column.combine_chunks(), field.type
    if is_json(field):
        return json_kinds(column)
    if pa.types.is_temporal(kind):
        return as_kinds(len(column), **seconds_of(column))
    if pa.types.is_boolean(kind):
        column, kind = column.cast(pa.uint8()), pa.uint8()
    if pa.types.is_integer(kind):
        return integer_kinds(column)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return float_kinds(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return as_kinds(len(column), text=column)
    return null_kinds(len(column))


def json_kinds(column: pa.Array) -> dict[str, pa.Array]:
    """Return the numbers and texts in a column of JSON texts."""
    values = [None if text is None else json.loads(text) for text in column.to_pylist()]
    numbers = [as_float(value) if isinstance(value, int | float) else None for value in values]
    fine = [float_remainder(value, number) for value, number in zip(values, numbers, strict=True)]
    texts = [value if isinstance(value, str) else None for value in values]
    return as_kinds(len(column), number=numbers, fine=fine, text=texts)


def integer_kinds(column: pa.Array) -> dict[str, pa.Array]:
    numbers = column.cast(pa.float64(), safe=False)
    pairs = zip(column.to_pylist(), numbers.to_pylist(), strict=True)
    return as_kinds(len(column), number=numbers, fine=[float_remainder(*pair) for pair in pairs])


def float_kinds(column: pa.Array) -> dict[str, pa.Array]:
    """Return the numbers in a column of floats or decimals; NaN becomes null."""
    numbers = column.cast(pa.float64(), safe=False)
    is_number = pc.invert(pc.fill_null(pc.is_nan(numbers), fill_value=True))
    return as_kinds(len(column), number=pc.if_else(is_number, numbers, None))


def as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return float("inf") if value > 0 else float("-inf")


def float_remainder(value: Any, number: float | None) -> int | None:
    """Return the difference of an integer beyond 2**53 and its nearest float."""
    is_whole = isinstance(value, int) and number is not None and abs(value) < 1 << 64
    return value - int(number or 0) if is_whole else None


def as_kinds(count: int, **columns: Any) -> dict[str, pa.Array]:
    arrays = {
        n: v.cast(KINDS[n]) if isinstance(v, pa.Array) else pa.array(v, KINDS[n]) for n, v in columns.items()
    }
    kinds = null_kinds(count) | arrays
    # A number without a remainder is equal as an integer and as a float.
    exact = pc.if_else(pc.is_valid(kinds["number"]), pa.scalar(0, pa.int64()), None)
    return kinds | {"fine": pc.coalesce(kinds["fine"], exact)}


def seconds_of(column: pa.Array) -> dict[str, pa.Array]:
    """Return whole seconds, and the nanoseconds beyond them, of dates, times and durations; instants are in UTC."""
    kind = column.type
    if pa.types.is_date32(kind):
        unit, column = 1, pc.multiply(column.cast(pa.int32()).cast(pa.int64()), 86_400)
    elif pa.types.is_date64(kind):
        unit, column = 1000, column.cast(pa.int64())
    else:
        unit = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[kind.unit]
        column = (column.cast(pa.int32()) if pa.types.is_time32(kind) else column).cast(pa.int64())
    values = np.asarray(pc.fill_null(column, 0).to_numpy(zero_copy_only=False), np.int64)
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    seconds, parts = np.divmod(values, unit)
    return {
        "number": pa.array(seconds.astype(np.float64), mask=is_null),
        "fine": pa.array(parts * (10**9 // unit), mask=is_null),
    }


def has_order(kind: pa.DataType) -> bool:
    ordered_types = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
                pa.types.is_temporal, pa.types.is_string, pa.types.is_large_string, pa.types.is_null)  # fmt: skip
    return any(is_kind(kind) for is_kind in ordered_types)


def check_preferred(recipe: Recipe, source: Source, stored: pa.Schema) -> None:
    """Raise BadInput if a source lacks a column by which documents are preferred."""
    if source.exempt:
        return
    for field, parts in (("dedup", recipe.rounds), ("passages", recipe.passages)):
        for number, part in enumerate(parts):
            for entry in (entry for entry in part.prefer or () if entry not in PREFERENCES):
                if fault := fault_of(entry.rpartition(" ")[0], stored):
                    place = place_in_recipe(recipe, field, number, "prefer")
                    raise BadInput(f"{place}: {bad_input(source.name, f'{entry}: {fault}')}")


def fault_of(name: str, stored: pa.Schema) -> str | None:
    """Return why documents cannot be preferred by a column, or None."""
    if name not in stored.names:
        return f"column {name} is missing; use one of {', '.join(stored.names)}"
    field = stored.field(name)
    return None if is_json(field) or has_order(field.type) else f"values of type {field.type} have no order"


def preference_of(dedup_round: Round, sources: Sequence[NumberedSource]) -> Preference:
    """Return the order of a round."""
    recipe, file_places = dedup_round.recipe, dict[int, Ids]()
    rank, protected = np.zeros(MAX_SOURCES, np.uint64), np.zeros(MAX_SOURCES, np.bool_)
    for i, source in enumerate(sorted(sources, key=lambda source: not recipe.source(source.source).protect)):
        rank[source.number] = i
        protected[source.number] = recipe.source(source.source).protect
        numbers = [file.number for file in load_listing(recipe.folder, source.listing)]
        places = np.zeros(max(numbers) + 1, np.uint64)
        places[numbers] = np.arange(len(numbers))
        file_places[source.number] = places
    return Preference(rank, protected, file_places, dedup_round.dedup.prefer)


def order_of(dedup_round: Round, sources: Sequence[NumberedSource]) -> list[Any]:
    """Return all that the order of preference depends on, except the documents."""
    protected = [source.number for source in sources if dedup_round.recipe.source(source.source).protect]
    source_listings = [[source.number, source.listing] for source in sources]
    settings = (
        [protected, dedup_round.dedup.prefer] if protected or dedup_round.dedup.prefer != ("source",) else []
    )
    return [*source_listings, *settings]
