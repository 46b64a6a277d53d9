"""The headline of an audit: how many of the documents that went were unlike all that were kept."""

from tasks.storage.facts import Facts
from tasks.storage.records import Record

MEASURED = "Of made clusters of 8 to 200 MiB it found 999 of 1,000 that go, or more (docs/duplicates.md)."
MEASURES = {"jaccard": "Jaccard similarity", "containment": "containment"}


class ByIndex(Record):
    """Clusters that were too large to compare all pairs, and their documents.

    `unsure` are those that stay and were not compared with all that could hold enough of them.
    """

    clusters: int = 0
    documents: int = 0
    unsure: int = 0

    def __add__(self, other: "ByIndex") -> "ByIndex":
        return ByIndex(
            clusters=self.clusters + other.clusters,
            documents=self.documents + other.documents,
            unsure=self.unsure + other.unsure,
        )

    def sentence(self) -> str:
        """Say it, for people."""
        return (
            f"{self.clusters:,} clusters of {self.documents:,} documents in all, each of more than 8 MiB of text, "
            f"were judged by an index: {self.unsure:,} documents that stay were not compared with every one that "
            f"could hold enough of them. {MEASURED}"
        )


class Decided(Facts):
    """The facts of how the documents of a round were decided about."""

    by_index: ByIndex | None = None


class AuditCounts(Record):
    """Of so many `pairs`, those whose likeness is below the `threshold`. measure: one of MEASURES."""

    pairs: int
    unlike: int
    threshold: float
    measure: str = "jaccard"
    by_index: ByIndex | None = None

    def sentence(self) -> str:
        """Say it, for people."""
        more = f" {self.by_index.sentence()}" if self.by_index else ""
        if not self.pairs:
            return f"No document went as a near-duplicate of another one of this corpus.{more}"
        return (
            f"Audit: of {self.pairs:,} documents that went as near-duplicates, {self.unlike / self.pairs:.1%} "
            f"have no kept document with a {MEASURES[self.measure]} of {self.threshold:.2f} or more.{more}"
        )
