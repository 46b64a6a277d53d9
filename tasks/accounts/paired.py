"""The account of a semantic round: how its pairs were found, and what became of them."""

from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.words import counted


class ProposedCounts(Facts):
    """How the pairs were found.

    documents: with a vector. found: share of the pairs at the cosine that share a bucket, by the formula.
    candidates: pairs whose keys are similar, counted in each band. uncompared, left_out: as of `SimilarPairs`.
    pairs: above the cosine.
    """

    documents: int = 0
    bits: int = 0
    bands: int = 0
    found: float = 1.0
    candidates: int = 0
    uncompared: int = 0
    left_out: int = 0
    pairs: int = 0


class ConfirmedCounts(Facts):
    """How the pairs were confirmed.

    proposed: how they were found. documents: in a proposed pair. windows_left_out: of long texts. pairs: published.
    """

    proposed: ProposedCounts
    documents: int = 0
    windows_left_out: int = 0
    pairs: int = 0


class PairAccount(Record):
    """The account of a semantic round.

    lowest: the lowest cosine of a published pair. contradictions: published. removed: documents that the round
    removed; None if it removes no documents.
    """

    confirmed: ConfirmedCounts
    lowest: float
    contradictions: int
    removed: int | None = None

    def sentence(self) -> str:
        """Return the account for the card."""
        confirmed, proposed = self.confirmed, self.confirmed.proposed
        removed = "no documents" if self.removed is None else counted(self.removed, "document")
        return (
            f"Semantic round: {counted(proposed.pairs, 'pair')} of {counted(proposed.documents, 'document')} "
            f"proposed; by the formula, {proposed.found:.1%} of the pairs at the lowest cosine are found. "
            f"{counted(confirmed.pairs, 'pair')} confirmed with a cosine of {self.lowest:g} or more, "
            f"{counted(self.contradictions, 'contradiction')}, {removed} removed."
        )
