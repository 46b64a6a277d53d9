"""Times that Parquet stores as INT96, which Spark, Hive and Impala write: a day and the nanoseconds in it.

Arrow's integers of 64 bits hold the years 1677 to 2262 in nanoseconds, and arithmetic on others wraps. So each
time is read in microseconds, and once more in seconds, which hold all days, and in nanoseconds, which lose no
digit.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.sources.file_rows import bad_places
from zyda_flows.tasks.sources.type_unification import leaf_arrays

MICROSECONDS, SECONDS, NANOSECONDS = "us", "s", "ns"
PER_UNIT = {MICROSECONDS: 1000, NANOSECONDS: 1}
OUT_OF_RANGE = "a time that neither microseconds nor nanoseconds in 64 bits hold"
Open = Callable[[str], pq.ParquetFile]  # a file with its INT96 times in a unit


class Int96Columns:
    """The INT96 columns of a file, read in seconds and nanoseconds. parquet: reads them in microseconds."""

    def __init__(self, parquet: pq.ParquetFile, open_in: Open) -> None:
        columns = map(parquet.metadata.schema.column, range(parquet.metadata.num_columns))
        self.files = list[pq.ParquetFile]()
        self.names = list[str]()
        if any(column.physical_type == "INT96" for column in columns):
            self.files = [open_in(unit) for unit in (SECONDS, NANOSECONDS)]
            schemas = zip(parquet.schema_arrow, self.files[0].schema_arrow, strict=True)
            self.names = [named.name for named, in_seconds in schemas if named.type != in_seconds.type]

    def batches(self, rows: int, group: int, names: list[str]) -> Iterator[tuple[pa.RecordBatch, ...]]:
        """Yield the INT96 columns of a row group in seconds and nanoseconds, `rows` rows at a time."""
        own = [name for name in self.names if name in names]
        if not own:
            return iter(())
        return zip(
            *(file.iter_batches(rows, row_groups=[group], columns=own) for file in self.files), strict=True
        )


def exact_times(batch: pa.RecordBatch, others: tuple[pa.RecordBatch, ...]) -> tuple[pa.Table, dict[int, str]]:
    """Return rows with exact times, and the faults of rows with a time that no unit holds, by row.

    others: the INT96 columns in seconds and in nanoseconds, or empty.
    """
    table, faults = pa.Table.from_batches([batch]), dict[int, str]()
    for name in others[0].schema.names if others else ():
        readings = [reading.column(name) for reading in (batch, *others)]
        in_nanoseconds = readings[-1]
        if not is_exact(*readings) and is_exact(in_nanoseconds, *readings[1:]):
            table = table.set_column(table.column_names.index(name), name, in_nanoseconds)
            continue
        are_exact = partial(are_rows_exact, readings)
        faults |= dict.fromkeys(bad_places(batch.num_rows, are_exact), f"column {name!r}: {OUT_OF_RANGE}")
    return table, faults


def are_rows_exact(readings: list[pa.Array], rows: pa.Array) -> bool:
    """Return whether the times in some rows, (n,) int64, are exact."""
    return is_exact(*(reading.take(rows) for reading in readings))


def is_exact(times: pa.Array, in_seconds: pa.Array, in_nanoseconds: pa.Array) -> bool:
    """Return whether an array of times is as exact as INT96, at all levels."""
    leaves = map(leaf_arrays, (times, in_seconds, in_nanoseconds))
    return all(
        is_exact_leaf(numbers(leaf), numbers(second), numbers(nanosecond), PER_UNIT[leaf.type.unit])
        for leaf, second, nanosecond in zip(*leaves, strict=True)
        if pa.types.is_timestamp(leaf.type) and leaf.type != second.type
    )


def is_exact_leaf(times: Any, in_seconds: Any, in_nanoseconds: Any, nanoseconds: int) -> bool:
    """Compare the numbers of times, (n,) int64 each. nanoseconds: per unit of `times`. Products may overflow."""
    has_all_digits = np.array_equal(times * nanoseconds, in_nanoseconds)
    return has_all_digits and np.array_equal(times // (10**9 // nanoseconds), in_seconds)


def numbers(times: pa.TimestampArray) -> Any:
    """Return times as numbers, (n,) int64; null is 0."""
    return times.cast(pa.int64()).fill_null(0).to_numpy()
