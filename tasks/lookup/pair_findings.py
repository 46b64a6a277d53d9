"""The contents of the report's chapters about semantic rounds."""

from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.accounts.paired import PairAccount
from zyda_flows.tasks.lookup.document_pairs import facts_of_pairs
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.lookup.judge_findings import BEGINNING, NO_TEXT, NearDocument, text_and_decision
from zyda_flows.tasks.lookup.new_words import most_new_words
from zyda_flows.tasks.lookup.pair_stats import (
    AGREEING_DOCUMENTS,
    DOCUMENTS,
    LISTED_PAIR,
    RELATIONS,
    THRESHOLDS,
    pair_stats,
)
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.semantic.compared_texts import Relation
from zyda_flows.tasks.storage.counts import Counts

BEFORE = 100  # characters before the first difference of two texts


@dataclass(frozen=True)
class BinOfPairs:
    """The pairs with a cosine of `lowest` or more, and less than the next bin; lowest: None for the first bin.

    pairs: by their Relation.
    """

    lowest: float | None
    pairs: dict[Relation, int]


@dataclass(frozen=True)
class RemovableAt:
    """The documents that have a preferred document with a cosine of `threshold` or more.

    with_facts: those of which the preferred document also has all facts.
    """

    threshold: float
    documents: Counts
    with_facts: Counts


@dataclass(frozen=True)
class ShownPair:
    """A pair of documents. facts: of each, which the other lacks, as text. novel: of a removed document."""

    first: NearDocument
    second: NearDocument
    cosine: float
    facts: tuple[str, str]
    novel: float | None = None


@dataclass(frozen=True)
class PairFindings:
    """The pairs of a semantic round. removed: the removed documents with the most new words."""

    account: PairAccount
    bins: list[BinOfPairs]
    removable: list[RemovableAt]
    contradictions: list[ShownPair]
    removed: list[ShownPair]


def pair_findings(dedup_round: Round, reader: DocumentReader) -> PairFindings | None:
    """Return the findings about the pairs of a round; None if it is no semantic round or has no pairs."""
    place, accounts = dedup_round.name_of("pairs"), reader.corpus.manifest.semantic or {}
    if place not in accounts or (table := pair_stats(reader.corpus, dedup_round)) is None:
        return None
    listed = table.filter(pc.field("kind") == LISTED_PAIR).to_pylist()
    removed = list[dict[str, Any]]()
    if accounts[place].removed:
        removed = most_new_words(reader.corpus, dedup_round.name_of("removals")).to_pylist()
    both = [pair_in(row) for row in (*listed, *removed)]
    facts = facts_of_pairs(reader.corpus, place, (pair for each in both for pair in (each, each[::-1])))

    def shown(row: dict[str, Any]) -> ShownPair:
        first, second = pair_in(row)
        one, other = documents_of_pair(reader, first, second, row["cosine"])
        own = (facts.get((first, second), ""), facts.get((second, first), ""))
        return ShownPair(one, other, row["cosine"], own, row.get("novel"))

    return PairFindings(
        accounts[place], bins_in(table), removable_in(table), [*map(shown, listed)], [*map(shown, removed)]
    )


def pair_in(row: dict[str, Any]) -> tuple[int, int]:
    """Return the documents in a row of PAIR_STATISTICS or NEW_WORDS."""
    return row["doc_id"], row["other_id"] if "other_id" in row else row["kept_doc_id"]


def documents_of_pair(
    reader: DocumentReader, first: int, second: int, cosine: float
) -> tuple[NearDocument, NearDocument]:
    """Return two documents, each with its text around the first difference."""
    (one, one_decision), (other, other_decision) = (
        text_and_decision(reader, doc_id) for doc_id in (first, second)
    )
    common = len(commonprefix([one, other]))  # noqa: RUF071 (characters are compared)
    start = common - BEFORE if common > 2 * BEFORE else 0
    mark = "…" if start else ""

    def document(doc_id: int, text: str, decision: str) -> NearDocument:
        excerpt = mark + text[start : start + BEGINNING] if text else NO_TEXT
        return NearDocument(reader.place(doc_id), cosine, decision, excerpt)

    return document(first, one, one_decision), document(second, other, other_decision)


def by_bin(table: pa.Table, kind: int, column: str = "count") -> NDArray[np.int64]:
    """Return the counts of a kind by bin: (1 + thresholds,)."""
    rows, sums = table.filter(pc.field("kind") == kind), np.zeros(len(THRESHOLDS) + 1, np.int64)
    sums[rows.column("bin").to_numpy()] = rows.column(column).to_numpy()
    return sums


def bins_in(table: pa.Table) -> list[BinOfPairs]:
    """Return the bins that have pairs."""
    columns = zip(*(by_bin(table, kind).tolist() for kind in range(len(RELATIONS))), strict=True)
    lowest = [None, *(round(float(threshold), 2) for threshold in THRESHOLDS)]
    return [
        BinOfPairs(low, dict(zip(RELATIONS, counts, strict=True)))
        for low, counts in zip(lowest, columns, strict=True)
        if any(counts)
    ]


def removable_in(table: pa.Table) -> list[RemovableAt]:
    """Return the documents that each threshold would remove, without chains."""

    def at(kind: int) -> list[Counts]:
        documents, tokens = (
            np.cumsum(by_bin(table, kind, column)[::-1])[::-1].tolist() for column in ("count", "tokens")
        )
        both = zip(documents[1:], tokens[1:], strict=True)
        return [Counts(documents=documents, tokens=tokens) for documents, tokens in both]

    columns = zip(THRESHOLDS.tolist(), at(DOCUMENTS), at(AGREEING_DOCUMENTS), strict=True)
    return [RemovableAt(round(threshold, 2), *counts) for threshold, *counts in columns]
