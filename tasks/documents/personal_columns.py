"""Replace personal data in other columns than the text: columns of texts, and of lists and objects of texts."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.cleanings import without_personal_data
from zyda_flows.tasks.sources.columns import as_one_array, is_json
from zyda_flows.tasks.sources.json_text import as_json_text
from zyda_flows.tasks.sources.named_values import column_of
from zyda_flows.tasks.storage.counts import CleaningCounts, totals

TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
LISTS = (pa.types.is_list, pa.types.is_large_list)


def with_clean_columns(table: pa.Table, pii: Mapping[str, Any]) -> tuple[pa.Table, dict[str, CleaningCounts]]:
    """Replace personal data in the columns in `pii`; return the table and counts by kind and column.

    Columns that the table does not have are skipped. Raises ValueError for a column of a type without texts, and
    for a field inside a column.
    """
    counts = dict[str, CleaningCounts]()
    for name in pii.get("columns", ()):
        if (whole := column_of(name, table.column_names)) is None:  # a column of another file of the source
            continue
        if whole != name:
            raise ValueError(f"{name!r} is a field of a column; give the whole column {whole!r}")
        place = table.schema.get_field_index(name)
        cleaner, column_field, column = ColumnCleaner(pii), table.schema.field(place), table.column(place)
        clean = cleaner.cleaned_json if is_json(column_field) else cleaner.cleaned
        if not holds_texts(column_field.type):
            raise ValueError(f"column {name!r} has the type {column_field.type}, which contains no texts")
        table = table.set_column(place, column_field, clean(as_one_array(column)))
        counts |= {f"{kind} in {name}": count for kind, count in cleaner.counts.items()}
    return table, counts


def holds_texts(kind: pa.DataType) -> bool:
    """Return whether a type is text, contains texts, or is null (another file may have texts in the column)."""
    if pa.types.is_dictionary(kind) or any(is_list(kind) for is_list in LISTS):
        return holds_texts(kind.value_type)
    if pa.types.is_struct(kind):
        return any(holds_texts(kind.field(i).type) for i in range(kind.num_fields))
    return pa.types.is_null(kind) or any(is_text(kind) for is_text in TEXTS)


@dataclass
class ColumnCleaner:
    """Cleans a column. pii: the kinds. counts: counts of replacements by kind; `documents` counts texts."""

    pii: Mapping[str, Any]
    counts: dict[str, CleaningCounts] = field(default_factory=dict)

    def cleaned(self, values: pa.Array) -> pa.Array:
        """Return an array of the same type in which texts, also in lists and objects, are cleaned."""
        kind = values.type
        if any(is_text(kind) for is_text in TEXTS):
            return self.cleaned_texts(values.cast(pa.large_string())).cast(kind)
        if pa.types.is_dictionary(kind):
            return self.cleaned(values.dictionary_decode()).dictionary_encode().cast(kind)
        if any(is_list(kind) for is_list in LISTS):
            return self.cleaned_lists(values)
        if pa.types.is_struct(kind):
            parts = [self.cleaned(part) for part in values.flatten()]
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
        return values

    def cleaned_lists(self, lists: pa.Array) -> pa.Array:
        """Return lists of cleaned values."""
        ends = np.cumsum(pc.fill_null(lists.value_lengths(), 0).to_numpy(zero_copy_only=False))
        offsets = pa.array(np.append(0, ends), pa.int64())
        values = self.cleaned(lists.flatten())
        return pa.LargeListArray.from_arrays(offsets, values, mask=lists.is_null()).cast(lists.type)

    def cleaned_json(self, texts: pa.Array) -> pa.Array:
        """Return JSON texts with cleaned strings; names of fields are kept."""
        values = [None if text is None else json.loads(text) for text in texts.to_pylist()]
        strings = self.cleaned_texts(pa.array(strings_in(values), pa.large_string()))
        return as_json_text(with_strings(values, iter(strings.to_pylist()))).cast(texts.type)

    def cleaned_texts(self, texts: pa.LargeStringArray) -> pa.LargeStringArray:
        """Return texts without personal data, and count the replacements."""
        cleaned, _, counts = without_personal_data(texts, self.pii)
        self.counts = totals([self.counts, counts])
        return cleaned


def strings_in(value: Any) -> Iterator[str]:
    """Yield the strings of decoded JSON in order, without names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for below in value.values() if isinstance(value, dict) else value:
            yield from strings_in(below)


def with_strings(value: Any, strings: Iterator[str]) -> Any:
    """Return decoded JSON with its strings replaced, in order, by `strings`."""
    if isinstance(value, str):
        return next(strings)
    if isinstance(value, dict):
        return {name: with_strings(below, strings) for name, below in value.items()}
    return [with_strings(below, strings) for below in value] if isinstance(value, list) else value
