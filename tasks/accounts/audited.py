"""The headline of an audit: how many of the documents that went were unlike all that were kept."""

from tasks.storage.records import Record


class Audited(Record):
    """Of so many `pairs`, those whose Jaccard similarity is below the `threshold`."""

    pairs: int
    unlike: int
    threshold: float

    def sentence(self) -> str:
        """Say it, for people."""
        if not self.pairs:
            return "No document went as a near-duplicate."
        return (
            f"Audit: of {self.pairs:,} documents that went as near-duplicates, {self.unlike / self.pairs:.1%} "
            f"have no kept document with a Jaccard similarity of {self.threshold:.2f} or more."
        )
