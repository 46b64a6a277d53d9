"""The result of an audit: how many removed near-duplicates have no kept document that is similar enough."""

from collections.abc import Iterator

from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import Record

MEASURES = {"jaccard": "Jaccard similarity", "containment": "containment"}


class IndexCounts(Facts):
    """Counts of clusters that were too large to compare all their pairs, and of their documents.

    unsure: kept documents that were not compared with every document that could contain enough of them. pairs: the
    comparisons that are missing for them. cut: documents of clusters that were cut into pieces. cut_pairs: their
    pairs of documents in different pieces.
    """

    clusters: int = 0
    documents: int = 0
    unsure: int = 0
    pairs: int = 0
    cut: int = 0
    cut_pairs: int = 0

    def __add__(self, other: "IndexCounts") -> "IndexCounts":
        return IndexCounts(
            clusters=self.clusters + other.clusters,
            documents=self.documents + other.documents,
            unsure=self.unsure + other.unsure,
            pairs=self.pairs + other.pairs,
            cut=self.cut + other.cut,
            cut_pairs=self.cut_pairs + other.cut_pairs,
        )

    @property
    def is_needed(self) -> bool:
        """Whether any cluster was judged by an index or cut into pieces."""
        return bool(self.clusters or self.cut)

    def sentence(self) -> str:
        """Return the counts as text."""
        return " ".join(self.sentences())

    def sentences(self) -> Iterator[str]:
        if self.clusters:
            yield (
                f"{self.clusters:,} clusters of {self.documents:,} documents in all, each of more text than is "
                "compared in memory, were judged by an index."
            )
            if self.unsure:
                yield (
                    f"{self.unsure:,} of the documents that were kept were not compared with every document that "
                    f"could hold enough of them: {self.pairs:,} pairs were not compared."
                )
            else:
                yield "The result is that of comparing all pairs."
        if self.cut:
            yield (
                f"{self.cut:,} documents are in clusters that were cut into pieces for their size: "
                f"{self.cut_pairs:,} pairs of documents in different pieces were not compared."
            )


class DecisionFacts(Facts):
    """The facts of a round's decisions."""

    by_index: IndexCounts | None = None


class AuditCounts(Record):
    """The counts of an audit.

    pairs: compared pairs of a removed document and its kept document. unlike: pairs whose similarity is below the
    `threshold`. measure: a key of MEASURES. removed: the removed documents that the pairs are a sample of.
    """

    pairs: int
    unlike: int
    threshold: float
    measure: str = "jaccard"
    by_index: IndexCounts | None = None
    removed: int

    def sentence(self) -> str:
        """Return the result as a sentence."""
        more = f" {self.by_index.sentence()}" if self.by_index else ""
        if not self.pairs:
            return f"No document was removed as a near-duplicate of another one of this corpus.{more}"
        kept = f"a kept document with a {MEASURES[self.measure]} of {self.threshold:.2f} or more"
        share = f"{self.unlike:,} ({self.unlike / self.pairs:.1%}) have no kept document that similar"
        split = f"{self.pairs - self.unlike:,} have {kept}, and {share}"
        if self.removed > self.pairs:
            return (
                f"Audit: of {self.removed:,} documents that were removed as near-duplicates, {self.pairs:,} were "
                f"compared: {split if self.unlike else f'all have {kept}'}.{more}"
            )
        if not self.unlike:
            them = f"all {self.pairs:,} documents that were removed as near-duplicates have"
            it = "the one document that was removed as a near-duplicate has"
            return f"Audit: {it if self.pairs == 1 else them} {kept}.{more}"
        return f"Audit: of {self.pairs:,} documents that were removed as near-duplicates, {split}.{more}"
