"""A batch of documents between two steps: their texts, their statistics, and which documents remain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.bounds import Bound, broken_rules
from zyda_flows.tasks.storage.counts import CleaningCounts, totals

Columns = dict[str, pa.Array]


def no_mask() -> NDArray[np.bool_]:
    return np.zeros(0, np.bool_)


@dataclass
class Documents:
    """A batch of documents between two steps.

    original: the texts as they were read. text: the texts as the steps have changed them. columns: the statistics,
    null for documents that were removed before. is_changed: mask of texts that differ from the original, (n,) bool.
    remaining: mask of the remaining documents, (n,) bool. cleaned: counts of changes by cleaning.
    source_columns: the other columns of all documents, (n,), as they were read. cleaned_columns: the same columns,
    cleaned by steps. column_results: statistics that steps computed from `source_columns` before the first step
    ran, by the number of the step.
    """

    original: pa.LargeStringArray
    text: pa.LargeStringArray
    columns: Columns = field(default_factory=dict)
    is_changed: NDArray[np.bool_] = field(default_factory=no_mask)
    remaining: NDArray[np.bool_] = field(default_factory=no_mask)
    cleaned: dict[str, CleaningCounts] = field(default_factory=dict)
    source_columns: pa.Table | None = None
    cleaned_columns: pa.Table | None = None
    column_results: dict[int, Columns] = field(default_factory=dict)

    @classmethod
    def read(cls, texts: pa.LargeStringArray, source_columns: pa.Table | None = None) -> "Documents":
        """Return a batch of documents before the first step. source_columns: their other columns, (n,)."""
        n, columns = len(texts), pa.table([texts], ["text"]) if source_columns is None else source_columns
        return cls(
            texts,
            texts,
            is_changed=np.zeros(n, np.bool_),
            remaining=np.ones(n, np.bool_),
            source_columns=columns,
            cleaned_columns=columns,
        )

    def remaining_documents(self) -> "Documents":
        """Return the remaining documents, without a copy if all remain."""
        if self.remaining.all():
            return Documents(self.original, self.text, self.columns, self.is_changed)
        mask = pa.array(self.remaining)
        original = self.original.filter(mask)
        text = original if self.text is self.original else self.text.filter(mask)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return Documents(original, text, columns, self.is_changed[self.remaining])

    def statistics(self, fields: Iterable[pa.Field]) -> pa.StructArray:
        """Return the statistics of each document, (n,), as a struct of the given fields; null if not measured."""
        n, fields = len(self.remaining), [*fields]
        columns = [self.columns.get(field.name, pa.nulls(n, field.type)) for field in fields]
        return pa.StructArray.from_arrays(columns, fields=fields)

    def stored_texts(self, *, keeps_text: bool) -> pa.LargeStringArray:
        """Return the texts to store; the texts of removed documents are empty unless the plan keeps them."""
        return self.text if keeps_text else self.remaining_texts()

    def remaining_texts(self) -> pa.LargeStringArray:
        """Return all texts, (n,); the texts of removed documents are empty."""
        if self.remaining.all():
            return self.text
        return pc.replace_with_mask(self.text, pa.array(~self.remaining), pa.scalar("", self.text.type))

    def set_columns(self, columns: Mapping[str, pa.Array]) -> None:
        """Set statistics of the remaining documents, (r,)."""
        if self.remaining.all():
            self.columns.update(columns)
            return
        places = np.cumsum(self.remaining) - 1
        indices = pa.array(np.where(self.remaining, places, 0), mask=~self.remaining)
        self.columns.update({name: column.take(indices) for name, column in columns.items()})

    def drop_failing(self, bounds: Sequence[Bound]) -> None:
        """Drop documents that break a rule. Rules after one without statistics are not checked yet."""
        known = list[Bound]()
        for bound in bounds:
            if bound.column not in self.columns:
                break
            known.append(bound)
        if known:
            self.remaining = self.remaining & ~broken_rules(self.columns, known).any(axis=0)

    def set_texts(self, texts: pa.LargeStringArray, is_changed: NDArray[np.bool_]) -> None:
        """Replace the texts of the remaining documents, (r,). is_changed: mask of changed texts, (r,) bool."""
        if not is_changed.any():
            return
        self.is_changed[self.remaining] |= is_changed
        if self.remaining.all():
            self.text = texts
        else:
            self.text = pc.replace_with_mask(self.text, pa.array(self.remaining), texts)

    def reset_original(self) -> None:
        """Make the current texts the original texts; the texts of removed documents become empty."""
        self.original = self.text = self.remaining_texts()
        self.is_changed = np.zeros(len(self.text), np.bool_)

    def count_cleaned(self, counts: Mapping[str, CleaningCounts]) -> None:
        """Add counts of changes, by the name of the cleaning."""
        self.cleaned = totals([self.cleaned, dict(counts)])
