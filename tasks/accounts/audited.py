"""The headline of an audit: how many of the documents that went were unlike all that were kept."""

from tasks.storage.records import Record

MEASURES = {"jaccard": "Jaccard similarity", "containment": "containment"}


class Audited(Record):
    """Of so many `pairs`, those whose likeness is below the `threshold`. measure: one of MEASURES."""

    pairs: int
    unlike: int
    threshold: float
    measure: str = "jaccard"

    def sentence(self) -> str:
        """Say it, for people."""
        if not self.pairs:
            return "No document went as a near-duplicate of another one of this corpus."
        return (
            f"Audit: of {self.pairs:,} documents that went as near-duplicates, {self.unlike / self.pairs:.1%} "
            f"have no kept document with a {MEASURES[self.measure]} of {self.threshold:.2f} or more."
        )
