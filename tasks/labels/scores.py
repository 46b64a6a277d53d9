"""The scores of documents with their weights, and exact weighted percentiles of scores in bounded memory.

A score is a key of 64 bits that ascends with it. Keys are counted by their first bits: then only the keys that may
be a percentile are counted with more bits, until a percentile is a single key. The counts of many shards are added
up in a tree of jobs, so that no job holds more than some millions of rows for any number of documents.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.recipe.buckets import Weights
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.trees import merge_in_tree
from zyda_flows.tasks.stage.verdicts import ShardHistory
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table, write_table

VERSION = 1
STAGE = "buckets"
KEY_BITS = 64
BITS = (16, 28, 40, 52, KEY_BITS)  # of a key that are counted in each pass
MOST_ROWS = 1 << 20  # of different scores that are counted in one pass
NO_SCORE = np.uint64((1 << KEY_BITS) - 1)  # of documents without a score: no number has this key
SIGN = np.uint64(1 << 63)
# column: the number of the score. key: its first bits; the others are 0. weight: of the documents with such scores.
SCORES = pa.schema(
    [("column", pa.uint8()), ("key", pa.uint64()), ("weight", pa.int64()), ("documents", pa.int64())]
)


def keys_of_scores(scores: pa.ChunkedArray) -> Ids:
    """Return a key for each score that ascends with it, NO_SCORE for null, NaN and infinity: (n,)."""
    numbers = pc.fill_null(scores.cast(pa.float64(), safe=False), np.nan).to_numpy() + 0.0  # -0.0 becomes 0.0
    bits = numbers.view(np.uint64)
    keys = np.where(bits & SIGN, ~bits, bits | SIGN)
    return np.where(np.isfinite(numbers), keys, NO_SCORE)


def scores_of_keys(keys: Ids) -> NDArray[np.float64]:
    """Return the scores with these keys: (n,) to (n,)."""
    return np.where(keys & SIGN, keys ^ SIGN, ~keys).view(np.float64)


def added_up(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up SCORES, sorted by column and key."""
    total = SCORES.empty_table()
    for table in tables:
        sums = pa.concat_tables([total, table]).group_by(["column", "key"], use_threads=False)
        added = sums.aggregate([("weight", "sum"), ("documents", "sum")])
        total = added.rename_columns(SCORES.names).cast(SCORES)
    return total.sort_by([("column", "ascending"), ("key", "ascending")]).combine_chunks()


@dataclass(frozen=True)
class ScoresOfShard(ArtifactJob):
    """The different scores of a shard's documents: SCORES. columns: with scores. table_schema: of the source."""

    stage, version = STAGE, VERSION

    history: ShardHistory
    columns: tuple[str, ...]
    weights: Weights
    table_schema: pa.Schema

    @property
    def name(self) -> str:
        return self.history.shard.name

    def make(self) -> Artifact:
        return write_table(self.folder, self.path, self.name, added_up(self.tables()))

    def tables(self) -> Iterable[pa.Table]:
        for documents in remaining_documents(self.folder, self.history, self.table_schema):
            weights = weights_of(documents, self.weights)
            for number, name in enumerate(self.columns):
                keys, places = np.unique(score_keys(documents, name), return_inverse=True)
                sums, counts = np.zeros(len(keys), np.int64), np.bincount(places, minlength=len(keys))
                np.add.at(sums, places, weights)
                columns = [np.full(len(keys), number, np.uint8), keys, sums, counts.astype(np.int64)]
                yield pa.table([*map(pa.array, columns)], schema=SCORES)


def score_keys(documents: pa.Table, name: str) -> Ids:
    """Return the key of each document's score, NO_SCORE if the source has no such column: (n,)."""
    if name not in documents.column_names:
        return np.full(len(documents), NO_SCORE)
    return keys_of_scores(documents.column(name))


def weights_of(documents: pa.Table, weights: Weights) -> NDArray[np.int64]:
    if weights == "documents":
        return np.ones(len(documents), np.int64)
    return documents.column("n_tokens").to_numpy().astype(np.int64)


@dataclass(frozen=True)
class SumOfScores(ArtifactJob):
    """Add up some tables of SCORES by the first bits of their keys. place: in the tree.

    within: for each column, the keys whose first `bits_within` bits are chosen; None for all keys.
    """

    stage, version = STAGE, VERSION

    place: Annotated[str, NotInKey("part of the path")]
    tables: tuple[Artifact, ...]
    bits: int
    bits_within: int
    within: tuple[tuple[int, ...], ...] | None

    @property
    def name(self) -> str:
        return f"sum-{self.place}"

    def make(self) -> Artifact:
        tables = (self.chosen(read_table(self.folder, table)) for table in self.tables)
        return write_table(self.folder, self.path, self.name, added_up(tables))

    def chosen(self, table: pa.Table) -> pa.Table:
        """Return the rows of the chosen keys, with the first bits of the keys only."""
        keys = table.column("key").to_numpy()
        if self.within is not None:
            columns, first = table.column("column").to_numpy(), first_bits(keys, self.bits_within)
            is_chosen = np.zeros(len(keys), np.bool_)
            for number, within in enumerate(self.within):
                is_chosen |= (columns == number) & np.isin(first, np.array(within, np.uint64))
            table, keys = table.filter(pa.array(is_chosen)), keys[is_chosen]
        return table.set_column(1, SCORES.field("key"), pa.array(first_bits(keys, self.bits)))


def first_bits(keys: Ids, bits: int) -> Ids:
    """Return keys with only their first bits; NO_SCORE is unchanged."""
    mask = np.uint64(((1 << bits) - 1) << (KEY_BITS - bits))
    return np.where(keys == NO_SCORE, NO_SCORE, keys & mask)


@dataclass(frozen=True)
class Percentiles:
    """The percentiles of a score. keys: of the 1st to the last percentile, ascending; empty without scores.

    weight, documents: of all documents with a score. without: the number of documents without a score.
    """

    keys: tuple[int, ...]
    weight: int
    documents: int
    without: int


RunJobs = Callable[[Sequence[ArtifactJob]], list[Any]]


def percentiles_of(
    folder: Folder,
    source: str | None,
    artifacts: Sequence[Artifact],
    columns: int,
    count: int,
    run_jobs: RunJobs,
) -> list[Percentiles]:
    """Return the percentiles that divide each score into `count` parts of equal weight.

    The k-th percentile is the smallest score for which the documents with at most this score have at least k/count
    of the weight (the inverted distribution function, `method="inverted_cdf"` of NumPy).

    artifacts: SCORES of all documents. columns: the number of scores.
    """
    passes = (KEY_BITS,) if sum(artifact.rows for artifact in artifacts) <= MOST_ROWS else BITS
    totals, found = list[tuple[int, int, int]](), list[list[tuple[int, int]]]()
    within: tuple[tuple[int, ...], ...] | None = None
    bits_within = 0
    for bits in passes:
        merge = partial(SumOfScores, folder, source, bits=bits, bits_within=bits_within, within=within)
        merged, _ = merge_in_tree(artifacts, merge, run_jobs)
        counts = [Counted.of(read_table(folder, merged), number) for number in range(columns)]
        if not totals:
            totals = [each.totals for each in counts]
            found = [[(0, 0)] * (count - 1) for _ in counts]
        found = [
            each.next_keys(before, bits_within, total[0], count)
            for each, before, total in zip(counts, found, totals, strict=True)
        ]
        within = tuple(tuple(sorted({key for key, _ in keys})) for keys in found)
        bits_within = bits
    return [
        Percentiles(tuple(key for key, _ in keys) if total[1] else (), *total)
        for keys, total in zip(found, totals, strict=True)
    ]


@dataclass(frozen=True)
class Counted:
    """The counts of a score: keys, ascending, with the weights of the documents with each, (n,) each."""

    keys: Ids
    weights: NDArray[np.int64]
    totals: tuple[int, int, int]

    @classmethod
    def of(cls, table: pa.Table, number: int) -> "Counted":
        rows = table.filter(pc.field("column") == number)
        keys, weights, documents = (rows.column(name).to_numpy() for name in SCORES.names[1:])
        has_score = keys != NO_SCORE
        weight, scored = int(weights[has_score].sum()), int(documents[has_score].sum())
        totals = weight, scored, int(documents[~has_score].sum())
        return cls(keys[has_score], weights[has_score], totals)

    def next_keys(
        self, found: list[tuple[int, int]], bits: int, weight: int, count: int
    ) -> list[tuple[int, int]]:
        """Return the first bits of each percentile's key, and the weight of all smaller keys.

        found: the same with fewer bits. bits: of these. weight: of all documents.
        """
        first, ends = first_bits(self.keys, bits), np.cumsum(self.weights)
        keys = list[tuple[int, int]]()
        for number, (key, before) in enumerate(found, 1):
            low, high = (int(np.searchsorted(first, np.uint64(key), side)) for side in ("left", "right"))
            start = int(ends[low - 1]) if low else 0
            # The smallest weight of at least number / count of the whole, in whole numbers.
            wanted = -(-number * weight // count) - before + start
            place = low + int(np.searchsorted(ends[low:high], wanted, "left"))
            if place < high:
                smaller = before + (int(ends[place - 1]) if place else 0) - start
                keys.append((int(self.keys[place]), smaller))
        return keys
