"""The fields of buckets: ranges of scores that have equal shares of the tokens."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from zyda_flows.tasks.recipe.judges import NAME, check_name
from zyda_flows.tasks.recipe.values import Expression, Flag, Number, Strict, not_blank

MOST_BUCKETS, MOST_SCORES = 100, 8
Weights = Literal["tokens", "documents"]


class Bucket(Strict):
    """Buckets of documents by the percentiles of their scores, among the documents that all filters kept.

    A document is in bucket k if its score is at least the k-th percentile and below the next percentile.
    """

    name: Annotated[str, AfterValidator(check_name)] = Field(
        "bucket",
        max_length=40,
        json_schema_extra={"pattern": NAME},
        description="The name of the column with the number of the bucket, from 0, the lowest scores.",
    )
    of: tuple[Annotated[str, AfterValidator(not_blank)], ...] = Field(
        min_length=1,
        max_length=MOST_SCORES,
        description="The columns with scores: of judges, joins and sources.",
    )
    by: Literal["max"] = Field(
        "max",
        description="With several columns, a document has a bucket for each of them; the largest is published.",
    )
    count: Annotated[int, Number] = Field(20, ge=2, le=MOST_BUCKETS, description="The number of buckets.")
    weights: Weights = Field("tokens", description="The weight of a document: its `tokens`, or 1.")
    within: Literal["corpus", "source"] = Field(
        "corpus", description="The percentiles of all sources together (`corpus`), or of each `source`."
    )
    folders: Flag = Field(
        False, description="Publish each bucket in its own folder inside the source's folder."
    )
    keep: Expression | None = Field(
        None,
        description="An SQL condition for the documents to keep, after the buckets are known. It can use their "
        "column and all others.",
    )
