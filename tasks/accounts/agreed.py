"""The published agreement of scores within clusters of near-duplicates."""

from typing import Any, NamedTuple

import pyarrow as pa

# For each score and size of clusters: the clusters with several scores, the mean of their spreads (largest less
# smallest score), the clusters on both sides of the threshold of a `keep`, and the cluster with the largest spread.
AGREEMENT = pa.schema(
    [("column", pa.string()), ("from_size", pa.int64()), ("to_size", pa.int64()), ("clusters", pa.int64()),
     ("mean_spread", pa.float64()), ("threshold", pa.string()), ("both_sides", pa.int64()),
     ("largest_spread", pa.float64()), ("cluster_id", pa.uint64()), ("low", pa.float64()),
     ("low_doc_id", pa.uint64()), ("high", pa.float64()), ("high_doc_id", pa.uint64())]
)  # fmt: skip


class WidestCluster(NamedTuple):
    """The cluster with the largest spread of a score: its lowest and highest score, and documents with them."""

    cluster_id: int
    low: float
    low_doc_id: int
    high: float
    high_doc_id: int


class ScoreAgreement(NamedTuple):
    """The agreement of a score in all clusters with several scores. both_sides: None without a threshold."""

    column: str
    clusters: int
    mean_spread: float
    threshold: str | None
    both_sides: int | None
    widest: WidestCluster

    @property
    def sentence(self) -> str:
        """A sentence for the card and the report."""
        spread = self.widest.high - self.widest.low
        text = (
            f"In {self.clusters:,} clusters with several values of `{self.column}`, the largest and the smallest "
            f"differ by {self.mean_spread:.3g} on average, and by at most {spread:.3g} (cluster "
            f"{self.widest.cluster_id})."
        )
        if self.threshold is None or self.both_sides is None:
            return (
                f"{text} No single `keep` after deduplication compares it with a number, so no share beside a "
                "threshold is known."
            )
        share = self.both_sides / self.clusters
        divided = f"In {self.both_sides:,} of them ({share:.1%})"
        return f"{text} {divided}, `{self.threshold}` holds for some documents only."


def agreement_of(table: pa.Table) -> list[ScoreAgreement]:
    """Return the agreement of each score over all sizes of clusters. table: AGREEMENT."""
    by_column = dict[str, list[dict[str, Any]]]()
    for row in table.to_pylist():
        by_column.setdefault(row["column"], []).append(row)
    return [agreement_of_score(column, rows) for column, rows in by_column.items()]


def agreement_of_score(column: str, rows: list[dict[str, Any]]) -> ScoreAgreement:
    clusters = sum(row["clusters"] for row in rows)
    spreads = sum(row["clusters"] * row["mean_spread"] for row in rows)
    widest = min(rows, key=lambda row: (-row["largest_spread"], row["cluster_id"]))
    threshold = rows[0]["threshold"]
    both_sides = None if threshold is None else sum(row["both_sides"] for row in rows)
    shown = WidestCluster(**{name: widest[name] for name in WidestCluster._fields})
    return ScoreAgreement(column, clusters, spreads / clusters, threshold, both_sides, shown)
