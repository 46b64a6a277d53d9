"""The account of buckets: the percentiles of each score, and the documents with and without a score."""

from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import Record


class ScorePercentiles(Record):
    """The percentiles of a score. source: of which they are, None for all sources together.

    percentiles: the 1st to the last; bucket k has the scores from the k-th, and below the next. weight: of all
    documents with a score. documents, without_score: the numbers of documents with and without a score.
    """

    source: str | None = None
    column: str
    percentiles: tuple[float, ...]
    weight: int
    documents: int
    without_score: int


class BucketFacts(Facts):
    """The facts of a source's buckets: the percentiles of its scores."""

    percentiles: tuple[ScorePercentiles, ...]
