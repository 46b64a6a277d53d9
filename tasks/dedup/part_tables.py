"""Tables of rows by part: columns as arrays, runs of equal rows, look-ups, and their files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import write_parts
from zyda_flows.tasks.storage.tables import parquet_writer, write_artifact

PART = pa.field("part", pa.uint32())
PLACE = pa.field("place", pa.uint32())  # the index of the file from which a row was gathered


def columns_of(tables: Sequence[pa.Table], schema: pa.Schema) -> list[Any]:
    """Return the columns of some tables except PART: (n,) each."""
    rows = pa.concat_tables([schema.empty_table(), *tables])
    return [rows.column(name).to_numpy() for name in schema.names if name != PART.name]


def table_of(schema: pa.Schema, *columns: Any) -> pa.Table:
    return pa.table([pa.array(column) for column in columns], schema=schema)


def write_numbers(folder: Folder, path: str, name: str, rows: pa.Table, shift: int = 0) -> Artifact:
    """Write columns of hashes, uncompressed because they are random; 2**shift parts together if they have PART."""
    repeated = [column for column in (PART.name, PLACE.name) if column in rows.column_names]
    options = {"compression": "none", "use_dictionary": repeated or False}

    def fill(scratch: Path) -> None:
        if repeated:
            write_parts(scratch, rows, shift=shift, **options)
        else:
            with parquet_writer(scratch, rows.schema, **options) as writer:
                writer.write_table(rows)

    return write_artifact(folder, path, name, fill)


def run_starts(*columns: Any) -> NDArray[np.int64]:
    """Return the first index of each run of rows that are equal in all columns: (n,) each to (m,)."""
    is_first = np.ones(len(columns[0]), np.bool_)
    is_first[1:] = False
    for column in columns:
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)


def place_among(known: Ids, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the index of each wanted name in `known`, ascending, and whether it is there: (n,) twice."""
    places = np.searchsorted(known, wanted)
    places[places == len(known)] = 0
    return places, known[places] == wanted if len(known) else np.zeros(len(wanted), np.bool_)


def distinct_pairs(a: Ids, b: Ids) -> tuple[Ids, Ids]:
    """Return the distinct pairs, sorted: (n,) twice to (m,) twice."""
    order = np.lexsort([b, a])
    starts = order[run_starts(a[order], b[order])]
    return a[starts], b[starts]
