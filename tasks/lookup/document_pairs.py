"""The pairs of a document in semantic rounds, with the facts that differ."""

import re
from collections.abc import Iterable
from typing import Any

from zyda_flows.tasks.corpus.documents import rows_with
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.lookup.document_reader import DocumentPlace, DocumentReader
from zyda_flows.tasks.storage.records import Record

MOST_PAIRS = 10
PLACES = re.compile("pairs[2-9]?")  # the folders of pairs


class OtherOfPair(Record):
    """The other document of a pair.

    lacks: the facts of the document that the other lacks, as text. has: the facts of the other that the document
    lacks.
    """

    place: DocumentPlace
    cosine: float
    relation: str
    lacks: str
    has: str


def pairs_of(reader: DocumentReader, doc_id: int) -> dict[str, Any]:
    """Return the fields of `Explanation` about the pairs of a document, those with the highest cosines."""
    corpus = reader.corpus
    places = [place for place in corpus.folders() if PLACES.fullmatch(place)]
    rows = [(row, place) for place in places for row in rows_of_pairs(corpus, place, [doc_id])]
    rows.sort(key=lambda each: (-each[0]["cosine"], each[0]["other_id"]))
    listed = rows[:MOST_PAIRS]
    others = {
        place: facts_of_pairs(corpus, place, ((row["other_id"], doc_id) for row, of in listed if of == place))
        for place in places
    }
    similar = tuple(
        OtherOfPair(
            place=reader.place(row["other_id"]),
            cosine=row["cosine"],
            relation=row["relation"],
            lacks=row["lacks"],
            has=others[place].get((row["other_id"], doc_id), ""),
        )
        for row, place in listed
    )
    return {"similar": similar, "similar_count": len(rows)}


def rows_of_pairs(corpus: PublishedCorpus, place: str, doc_ids: list[int]) -> list[dict[str, Any]]:
    """Return the rows of documents in a folder of pairs."""
    rows: list[dict[str, Any]] = rows_with(corpus, corpus.files(f"{place}/"), "doc_id", doc_ids).to_pylist()
    return rows


def facts_of_pairs(
    corpus: PublishedCorpus, place: str, pairs: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Return the facts of the first document of each pair that the second lacks, as text. pairs: a few."""
    wanted = {*pairs}
    rows = rows_of_pairs(corpus, place, sorted({doc_id for doc_id, _ in wanted})) if wanted else []
    found = {(row["doc_id"], row["other_id"]): row["lacks"] for row in rows}
    return {pair: found[pair] for pair in wanted if pair in found}
