"""A batch of documents between two steps: their texts, what was measured, and which remain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.bounds import Bound, broken_rules
from zyda_flows.tasks.storage.artifacts import CleaningCounts, totals

Columns = dict[str, pa.Array]


def no_mask() -> NDArray[np.bool_]:
    return np.zeros(0, np.bool_)


@dataclass
class Documents:
    """A batch of documents between two steps.

    original: the texts as they were read. text: as the steps so far left them. columns: what was measured, null
    where a document had been removed. is_changed: which texts differ from the original, (n,) bool. remaining: which
    documents remain, (n,) bool. cleaned: what each cleaning changed, by its name. source: the other columns of all
    documents, (n,), as they were read. own: the same, cleaned where a step names them. waiting: what steps measured
    of all documents before the first step ran, by the number of the step.
    """

    original: pa.LargeStringArray
    text: pa.LargeStringArray
    columns: Columns = field(default_factory=dict)
    is_changed: NDArray[np.bool_] = field(default_factory=no_mask)
    remaining: NDArray[np.bool_] = field(default_factory=no_mask)
    cleaned: dict[str, CleaningCounts] = field(default_factory=dict)
    source: pa.Table | None = None
    own: pa.Table | None = None
    waiting: dict[int, Columns] = field(default_factory=dict)

    @classmethod
    def read(cls, texts: pa.LargeStringArray, own: pa.Table | None = None) -> "Documents":
        """Return documents as they were read. own: their other columns, (n,)."""
        n, own = len(texts), pa.table([texts], ["text"]) if own is None else own
        return cls(
            texts,
            texts,
            is_changed=np.zeros(n, np.bool_),
            remaining=np.ones(n, np.bool_),
            source=own,
            own=own,
        )

    def remaining_documents(self) -> "Documents":
        """Return the documents that remain, without a copy where all do."""
        if self.remaining.all():
            return Documents(self.original, self.text, self.columns, self.is_changed)
        mask = pa.array(self.remaining)
        original = self.original.filter(mask)
        text = original if self.text is self.original else self.text.filter(mask)
        columns = {name: column.filter(mask) for name, column in self.columns.items()}
        return Documents(original, text, columns, self.is_changed[self.remaining])

    def statistics(self, fields: Iterable[pa.Field]) -> pa.StructArray:
        """Return what was measured of each document, a struct of the fields of a plan."""
        n, fields = len(self.remaining), [*fields]
        columns = [self.columns.get(field.name, pa.nulls(n, field.type)) for field in fields]
        return pa.StructArray.from_arrays(columns, fields=fields)

    def stored_texts(self, *, keeps_text: bool) -> pa.LargeStringArray:
        """Return the texts to store: nothing of a removed document, unless the plan keeps its text."""
        return self.text if keeps_text else self.remaining_texts()

    def remaining_texts(self) -> pa.LargeStringArray:
        """Return all texts, (n,), those of removed documents empty."""
        if self.remaining.all():
            return self.text
        return pc.replace_with_mask(self.text, pa.array(~self.remaining), pa.scalar("", self.text.type))

    def set_columns(self, columns: Mapping[str, pa.Array]) -> None:
        """Set columns that were measured of the remaining documents."""
        if self.remaining.all():
            self.columns.update(columns)
            return
        places = np.cumsum(self.remaining) - 1
        indices = pa.array(np.where(self.remaining, places, 0), mask=~self.remaining)
        self.columns.update({name: column.take(indices) for name, column in columns.items()})

    def drop_failing(self, bounds: Sequence[Bound]) -> None:
        """Drop documents that break a rule, where all rules before it have been measured."""
        known = list[Bound]()
        for bound in bounds:
            if bound.column not in self.columns:
                break
            known.append(bound)
        if known:
            self.remaining = self.remaining & ~broken_rules(self.columns, known).any(axis=0)

    def set_texts(self, texts: pa.LargeStringArray, is_changed: NDArray[np.bool_]) -> None:
        """Replace the texts of the remaining documents, (r,). is_changed: which differ, (r,) bool."""
        if not is_changed.any():
            return
        self.is_changed[self.remaining] |= is_changed
        if self.remaining.all():
            self.text = texts
        else:
            self.text = pc.replace_with_mask(self.text, pa.array(self.remaining), texts)

    def begin_anew(self) -> None:
        """Make the present texts the original ones; a removed document has none."""
        self.original = self.text = self.remaining_texts()
        self.is_changed = np.zeros(len(self.text), np.bool_)

    def count_cleaned(self, counts: Mapping[str, CleaningCounts]) -> None:
        """Add what a cleaning changed, by its name."""
        self.cleaned = totals([self.cleaned, dict(counts)])
