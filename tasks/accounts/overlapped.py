"""What the published overlap of a round says, by source."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from zyda_flows.tasks.storage.artifacts import Counts, total

MOST = 20  # sources that are shown by themselves


class OwnDuplicates(NamedTuple):
    """What enters a round of a source, and what of it goes: by itself, of all sources as one, and by the round."""

    source: str
    entering: Counts
    own: Counts
    as_global: Counts
    removed: Counts


@dataclass(frozen=True)
class Overlap:
    """Documents and tokens by kind, source and the source of what is kept, as `tasks.dedup.overlap` counts them."""

    counts: dict[tuple[str, str, str], Counts]

    @classmethod
    def of_table(cls, table: pa.Table) -> "Overlap | None":
        rows = table.to_pylist()
        counts = {
            (row["kind"], row["source"], row["other"]): Counts(
                documents=row["documents"], tokens=row["tokens"]
            )
            for row in rows
        }
        return cls(counts) if counts else None

    @property
    def sources(self) -> list[str]:
        """The sources of the round, in the recipe's order."""
        return [source for kind, source, _ in self.counts if kind == "entering"]

    def of(self, kind: str, source: str) -> Counts:
        return total(counts for (one, of, _), counts in self.counts.items() if (one, of) == (kind, source))

    def own_duplicates(self) -> list[OwnDuplicates]:
        kinds = ("entering", "own", "global", "removed")
        return [OwnDuplicates(source, *(self.of(kind, source) for kind in kinds)) for source in self.sources]

    def shown(self, kind: str) -> list[str]:
        """Return the sources between which most documents go, MOST at the most, in the recipe's order."""
        going = Counter[str]()
        for (one, source, other), counts in self.counts.items():
            if one == kind:
                going[source] += counts.documents
                going[other] += counts.documents if other != source else 0
        most = {source for source, _ in going.most_common(MOST)}
        return [source for source in self.sources if source in most]

    def matrix(self, kind: str, field: str) -> tuple[list[str], list[str], list[list[int]]]:
        """Return the rows' sources, the columns' and the counts; other sources are the last column.

        field: `documents` or `tokens`.
        """
        shown = self.shown(kind)
        rows = [source for source in shown if self.of(kind, source).documents]
        going = {other for (one, _, other), counts in self.counts.items() if one == kind and counts.documents}
        others = len(going - {*shown})
        columns = [*shown, *([f"{others:,} others"] if others else [])]
        places = {source: place for place, source in enumerate(shown)}
        matrix = [[0] * len(columns) for _ in rows]
        for (one, source, other), counts in self.counts.items():
            if one == kind and source in rows:
                matrix[rows.index(source)][places.get(other, len(columns) - 1)] += getattr(counts, field)
        return rows, columns, matrix
