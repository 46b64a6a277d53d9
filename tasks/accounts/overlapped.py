"""The published overlap of the sources in a round of deduplication."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from zyda_flows.tasks.storage.counts import Counts, total

MOST_SOURCES = 20  # sources that have a row and a column


class OwnDuplicates(NamedTuple):
    """The counts of a source in a round.

    entering: before the round. own: removed if the source is deduplicated alone. as_global: removed if all sources
    are deduplicated as one. removed: removed by the round.
    """

    source: str
    entering: Counts
    own: Counts
    as_global: Counts
    removed: Counts


@dataclass(frozen=True)
class Overlap:
    """Counts by kind, source and the source of the kept document, as `tasks.dedup.overlap` computes them."""

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
        return total(counts for key, counts in self.counts.items() if key[:2] == (kind, source))

    def own_duplicates(self) -> list[OwnDuplicates]:
        kinds = ("entering", "own", "global", "removed")
        return [OwnDuplicates(source, *(self.of(kind, source) for kind in kinds)) for source in self.sources]

    def shown(self, kind: str) -> list[str]:
        """Return at most MOST_SOURCES sources with the largest counts, in the recipe's order."""
        documents = Counter[str]()
        for (counted_kind, source, other), counts in self.counts.items():
            if counted_kind == kind:
                documents[source] += counts.documents
                documents[other] += counts.documents if other != source else 0
        most = {source for source, _ in documents.most_common(MOST_SOURCES)}
        return [source for source in self.sources if source in most]

    def matrix(self, kind: str, field: str) -> tuple[list[str], list[str], list[list[int]]]:
        """Return the sources of the rows, the sources of the columns, and the counts.

        The last column counts all sources that are not shown. field: `documents` or `tokens`.
        """
        shown = self.shown(kind)
        cells = {key[1:]: counts for key, counts in self.counts.items() if key[0] == kind}
        rows = [source for source in shown if self.of(kind, source).documents]
        others = len({other for (_, other), counts in cells.items() if counts.documents} - {*shown})
        columns = [*shown, *([f"{others:,} others"] if others else [])]
        places = {source: place for place, source in enumerate(shown)}
        matrix = [[0] * len(columns) for _ in rows]
        for (source, other), counts in cells.items():
            if source in rows:
                matrix[rows.index(source)][places.get(other, len(columns) - 1)] += getattr(counts, field)
        return rows, columns, matrix
