"""Targets of a training: named columns of numbers, or of labels, each checked before the training."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import BadInput, BadRequest, bad_input
from zyda_flows.tasks.sources.columns import as_one_array

TABLE = "documents"  # the name of the source in messages
MOST_LABELS = 100
FEWEST_OF_LABEL = 10  # documents of a label in the sample
TEXTS, NUMBERS = "texts", "numbers"


@dataclass(frozen=True)
class TargetColumn:
    """A column of the sample. labels: sorted; none for numbers. values: numbers, or places in `labels`, (n,)."""

    name: str
    labels: tuple[str, ...]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, name: str, column: pa.Array) -> "TargetColumn":
        """Return the target of a column. Raises BadRequest unless a judge can be trained or measured with it."""
        where = f"target {name}"
        if not pa.types.is_large_string(column.type):
            values = column.to_numpy(zero_copy_only=False)
            if len(np.unique(values)) < 2:
                raise BadRequest(f"{where}: all scores are {values[0]}; expected different scores")
            return cls(name, (), values)
        counts = {row["values"]: row["counts"] for row in pc.value_counts(column).to_pylist()}
        if all(map(is_number, counts)):
            raise BadRequest(
                f"{where}: its texts are numbers, such as {min(counts)!r}; write them as numbers"
            )
        if not 2 <= len(counts) <= MOST_LABELS:
            raise BadRequest(f"{where}: it has {len(counts):,} labels, expected 2 to {MOST_LABELS}")
        label, fewest = min(counts.items(), key=lambda item: (item[1], item[0]))
        if fewest < FEWEST_OF_LABEL:
            raise BadRequest(
                f"{where}: {fewest} documents of the sample have the label {label}, expected {FEWEST_OF_LABEL}"
            )
        labels = tuple(sorted(counts))
        values = pc.index_in(column, pa.array(labels, pa.large_string())).to_numpy().astype(np.float64)
        return cls(name, labels, values)

    def of_documents(self, places: NDArray[np.bool_]) -> "TargetColumn":
        return TargetColumn(self.name, self.labels, self.values[places])

    def measured(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Yield the numbers with which answers are compared: the scores, or 0 and 1 for each label.

        Of two labels, the second suffices.
        """
        if not self.labels:
            yield "", self.values
        for place in range(1 if len(self.labels) == 2 else 0, len(self.labels)):
            yield self.labels[place], (self.values == place).astype(np.float64)


def is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def normalised(name: str, column: pa.ChunkedArray, url: str, rows: NDArray[np.int64]) -> pa.Array:
    """Return a column as float64, or as large_string for labels.

    url, rows: the file and the rows, for messages. Raises BadInput for a missing value and one that is not finite,
    and BadRequest for other types.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_null(kind) or column.null_count:
        raise without_value(name, url, int(rows[pc.index(column.is_null(), True).as_py()]))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        return as_one_array(column.cast(kind).cast(pa.large_string()))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise BadRequest(f"{url}: the column {name} has the type {kind}; expected numbers or texts")
    numbers = as_one_array(column.cast(pa.float64(), safe=False))
    if len(invalid := np.flatnonzero(~np.isfinite(numbers.to_numpy()))):
        fault = f"the column {name} is {numbers[invalid[0]].as_py()}, expected a finite number"
        raise bad_input(TABLE, fault, file=url, row=int(rows[invalid[0]]))
    return numbers


def without_value(name: str, url: str, row: int) -> BadInput:
    fault = f"the column {name} has no value; remove the row, or give it a value"
    return bad_input(TABLE, fault, file=url, row=row)
