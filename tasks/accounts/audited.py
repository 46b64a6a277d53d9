"""The headline of an audit: how many of the documents that went were unlike all that were kept."""

from tasks.storage.facts import Facts
from tasks.storage.records import Record

MEASURED = "Of made clusters of 8 to 200 MiB it found 999 of 1,000 that go, or more (docs/duplicates.md)."
MOST_DOCUMENTS = 1 << 20  # of a cluster that are compared with each other
CUT_MEASURED = (
    "They were compared in pieces, by their smallest hashes: of made clusters cut into 16, 9 of 100 that go by "
    "Jaccard similarity were missed and 14 by containment, 17 and 46 of the worst kind (docs/duplicates.md)."
)
MEASURES = {"jaccard": "Jaccard similarity", "containment": "containment"}


class ByIndex(Facts):
    """Clusters that were too large to compare all pairs, and their documents.

    `unsure` are those that stay and were not compared with all that could hold enough of them. `cut` are the
    documents of clusters that were cut into pieces before, if there are any.
    """

    clusters: int = 0
    documents: int = 0
    unsure: int = 0
    cut: int | None = None

    def __add__(self, other: "ByIndex") -> "ByIndex":
        return ByIndex(
            clusters=self.clusters + other.clusters,
            documents=self.documents + other.documents,
            unsure=self.unsure + other.unsure,
            cut=(self.cut or 0) + (other.cut or 0) or None,
        )

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.clusters or self.cut)

    def sentence(self) -> str:
        """Say it, for people."""
        sentences = [
            f"{self.clusters:,} clusters of {self.documents:,} documents in all, each of more than 8 MiB of text, "
            f"were judged by an index: {self.unsure:,} documents that stay were not compared with every one that "
            f"could hold enough of them. {MEASURED}"
        ]
        of_pieces = (
            f"{self.cut or 0:,} documents are in clusters of more than {MOST_DOCUMENTS:,}. {CUT_MEASURED}"
        )
        return " ".join([*(sentences if self.clusters else []), *([of_pieces] if self.cut else [])])


class Decided(Facts):
    """The facts of how the documents of a round were decided about."""

    by_index: ByIndex | None = None


class AuditCounts(Record):
    """Of so many `pairs`, those whose likeness is below the `threshold`. measure: one of MEASURES.

    removed: of how many documents that went the pairs are a sample, where that is known.
    """

    pairs: int
    unlike: int
    threshold: float
    measure: str = "jaccard"
    by_index: ByIndex | None = None
    removed: int | None = None

    def sentence(self) -> str:
        """Say it, for people."""
        more = f" {self.by_index.sentence()}" if self.by_index else ""
        if not self.pairs:
            return f"No document went as a near-duplicate of another one of this corpus.{more}"
        alike = f"a kept document with a {MEASURES[self.measure]} of {self.threshold:.2f} or more"
        if self.removed and self.removed > self.pairs:
            like = self.pairs - self.unlike
            rest = f"{like:,} have {alike}, and {self.unlike:,} ({self.unlike / self.pairs:.1%}) have none"
            return (
                f"Audit: of {self.removed:,} documents that went as near-duplicates, {self.pairs:,} were compared: "
                f"{rest if self.unlike else f'all have {alike}'}.{more}"
            )
        if not self.unlike:
            them = f"all {self.pairs:,} documents that went as near-duplicates have"
            it = "the one document that went as a near-duplicate has"
            return f"Audit: {it if self.pairs == 1 else them} {alike}.{more}"
        return (
            f"Audit: of {self.pairs:,} documents that went as near-duplicates, {self.pairs - self.unlike:,} have "
            f"{alike}, and {self.unlike:,} ({self.unlike / self.pairs:.1%}) have none.{more}"
        )
