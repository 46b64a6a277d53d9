"""Find the documents of a corpus that a removal request matches, and documents that are similar to them.

All ingested documents of all sources are searched, including documents that were removed as duplicates, and the
rows that were set aside.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.documents.deny import fault_of_column
from zyda_flows.tasks.documents.deny_list import DenyList, Request, requests_in
from zyda_flows.tasks.documents.deny_signatures import requests_of_texts, rounds_with_signatures, texts_of
from zyda_flows.tasks.erasure.in_shards import (
    Likenesses,
    Shard,
    ShardDocuments,
    find_in_shard,
    ingested,
    tokens_of,
    within,
)
from zyda_flows.tasks.erasure.removal_request import RemovalRequest
from zyda_flows.tasks.erasure.rows_aside import MatchedRow, rows_set_aside
from zyda_flows.tasks.erasure.source_texts import read_source_texts
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.recipe.fields import DENIED, Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import signatures
from zyda_flows.tasks.sources.small_files import planned_files
from zyda_flows.tasks.storage.records import Record

SET_ASIDE = "set aside"
MOST_TEXTS = 100_000  # texts whose copies are searched at once
MOST_READ = 10_000  # documents without a stored text that are read in their sources
NOT_BUILT = (
    "{url}: the recipe or its sources have changed since the last build; build the corpus (zyda build), then "
    "repeat the request"
)
CallOnShards = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]  # calls a function on every item


class Document(Record):
    """A document to remove.

    likeness: an estimate of its similarity to a requested document; None if it is a requested document itself.
    stage: that removed it from the corpus before, or SET_ASIDE; None if it is published.
    """

    doc_id: int
    source: str
    file: str
    row: int
    tokens: int
    likeness: float | None = None
    stage: str | None = None


@dataclass(frozen=True)
class RequestedDocuments:
    """The documents that a request matches.

    entries: of a deny list, which match the texts and rows of the documents in later builds. notes: sources in
    which the request cannot match documents, with the reason.
    """

    documents: list[Document]
    entries: list[Request]
    notes: list[str]


def find_documents(
    recipe: Recipe, request: RemovalRequest, call_on_each: CallOnShards, *, alike: bool = True
) -> RequestedDocuments:
    """Find the documents of a request, and the documents of the corpus's deny lists that no build has erased yet.

    alike: also find similar documents, and documents that were removed as duplicates of them. Raises Denied if the
    recipe has changed since the build, or ingested files are missing; BadInput if the request has too many texts.
    """
    reader = DocumentReader.of(recipe)
    if ledger_if_complete(recipe) is None:
        raise Denied(NOT_BUILT.format(url=recipe.folder.url))
    rounds, listed = rounds_with_signatures(recipe.rounds), listed_requests(recipe)
    search = ShardSearch(recipe, rounds, call_on_each, {entry.id for entry in listed if entry.id is not None})
    denied = DenyList([*request.with_texts(rounds, alike=alike), *listed])
    named = {entry.id for entry in request.requests if entry.id is not None}
    matches = search.find(denied)
    at_source = read_source_texts(reader, *without_text(matches, named))
    texts = [*dict.fromkeys([*(text for match in matches for text in match.texts), *at_source.texts])]
    if len(texts) > MOST_TEXTS:
        raise BadInput(
            f"{len(texts):,} texts are requested, at most {MOST_TEXTS:,} at once: split the request"
        )
    text_entries = requests_of_texts(texts, rounds, alike=alike)
    if text_entries:
        search.find(DenyList(text_entries))
    likenesses = search.likenesses
    if alike:
        likenesses |= removed_for(recipe, reader.corpus, search.shards, likenesses)
    rows = rows_set_aside(recipe.folder, reader.register, named, denied, [*request.texts, *texts])
    rows_to_remove = [row for row in rows if row.doc_id not in search.erased]
    row_texts = read_source_texts(reader, [row.doc_id for row in rows_to_remove if row.doc_id in named])
    documents = documents_of(reader, search, likenesses)
    return RequestedDocuments(
        [*documents, *map(document_of_row, rows_to_remove)],
        [
            *requests_of_texts([*request.texts, *row_texts.texts], rounds, alike=alike),
            *text_entries,
            *(row.entry for row in rows_to_remove if row.entry),
            *row_texts.rows,
        ],
        [*notes_on(recipe, request, search.shards), *at_source.notes, *row_texts.notes],
    )


class ShardSearch:
    """Searches of all ingested shards. erased: ids that are not searched. likenesses: of all documents found."""

    def __init__(
        self,
        recipe: Recipe,
        rounds: Sequence[MinHashRound],
        call_on_each: CallOnShards,
        erased: Collection[int],
    ) -> None:
        self.recipe, self.rounds, self.call_on_each, self.erased = recipe, rounds, call_on_each, erased
        self.shards = ingested(recipe.folder)
        self.likenesses: Likenesses = {}

    def find(self, denied: DenyList) -> list[ShardDocuments]:
        """Return the documents of each shard that a deny list matches, without documents of earlier searches."""
        known = {*self.erased, *self.likenesses}
        matches: list[ShardDocuments] = self.call_on_each(
            partial(find_in_shard, self.recipe, denied, self.rounds, known), self.shards
        )
        for match in matches:
            self.likenesses |= match.likenesses
        return matches


def documents_of(reader: DocumentReader, search: ShardSearch, likenesses: Likenesses) -> list[Document]:
    """Return the documents of `likenesses` by ascending id, with their places, tokens and stages of removal."""
    wanted = np.array(sorted(likenesses), np.uint64)
    tokens = dict[int, int]()
    for shard_tokens in search.call_on_each(partial(tokens_of, reader.recipe.folder, wanted), search.shards):
        tokens |= shard_tokens
    stages = stages_of(reader.corpus, likenesses)
    return [
        Document(
            **reader.place(doc_id).model_dump(), tokens=tokens[doc_id], likeness=likenesses[doc_id],
            stage=stages.get(doc_id),
        )
        for doc_id in sorted(likenesses)
    ]  # fmt: skip


def document_of_row(row: MatchedRow) -> Document:
    return Document(
        doc_id=row.doc_id, source=row.source, file=row.file, row=row.row, tokens=0, stage=SET_ASIDE
    )


def without_text(matches: Sequence[ShardDocuments], named: Collection[int]) -> tuple[list[int], list[int]]:
    """Return the documents without a stored text, in two lists: to read in their sources, and to skip.

    named: documents that the request names by their ids. If there are too many documents, only these are read.
    """
    ids = [doc_id for match in matches for doc_id in match.without_text]
    if len(ids) <= MOST_READ:
        return ids, []
    return [doc_id for doc_id in ids if doc_id in named], [doc_id for doc_id in ids if doc_id not in named]


def listed_requests(recipe: Recipe) -> list[Request]:
    """Return the entries of the deny lists beside a corpus."""
    lists = planned_files(DENIED, recipe.lists_of_corpus) if recipe.lists_of_corpus else ()
    return [entry for file in lists for entry in requests_in(file)]


def notes_on(recipe: Recipe, request: RemovalRequest, shards: Sequence[Shard]) -> Iterator[str]:
    """Yield a note for each source without the column of a requested address or value."""
    denied = DenyList(request.requests)
    for source, columns in {shard.source: shard.columns for shard in shards}.items():
        url = recipe.source(source).url
        for path in [*([url] if denied.has_addresses else []), *denied.columns]:
            if (fault := fault_of_column(path, columns)) is not None:
                yield f"source {source}: {fault}, so the request matches no document of it by that column"


def removed_for(
    recipe: Recipe, corpus: PublishedCorpus, shards: Sequence[Shard], removed: Likenesses
) -> Likenesses:
    """Return the documents that were removed as duplicates of `removed`, and their duplicates in turn, by id.

    Without their kept documents they would be published again. The values are estimates of the similarity of each
    document to its kept document.
    """
    pairs = duplicates_of(corpus, removed)
    texts = dict[int, str]()
    wanted = np.array(sorted({*pairs, *pairs.values()}), np.uint64)
    for shard in shards if pairs else ():
        if len(in_shard := within(recipe.folder, shard, wanted)):
            ids, shard_texts = texts_of(recipe.folder, shard.artifact, in_shard)
            texts |= dict(zip(ids.tolist(), shard_texts.to_pylist(), strict=True))
    return dict(zip(pairs, estimates([(texts[a], texts[b]) for a, b in pairs.items()]), strict=True))


def duplicates_of(corpus: PublishedCorpus, kept_ids: Collection[int]) -> dict[int, int]:
    """Return the removed duplicates of documents, and their duplicates in turn: kept documents, by removed id."""
    latest, pairs = set(kept_ids), dict[int, int]()
    while latest:
        new = dict[int, int]()
        kept_for = pa.array(sorted(latest), pa.uint64())
        for table in corpus.row_groups("removed", ["doc_id", "kept_doc_id"]):
            rows = table.filter(pc.is_in(table.column("kept_doc_id"), kept_for))
            ids, kept = (rows.column(name).to_pylist() for name in ("doc_id", "kept_doc_id"))
            new |= {a: b for a, b in zip(ids, kept, strict=True) if a not in kept_ids and a not in pairs}
        pairs |= new
        latest = set(new)
    return pairs


def estimates(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the estimated similarities of pairs of texts; 1 for texts that are too short for a signature."""
    dedup = MinHashRound()
    first, second = (
        signatures(pa.array([pair[side] for pair in pairs], pa.large_string()), dedup) for side in (0, 1)
    )
    likenesses: list[float] = (first == second).mean(axis=1).tolist() if pairs else []
    return likenesses


def stages_of(corpus: PublishedCorpus, wanted: Likenesses) -> dict[int, str]:
    """Return the stages that removed documents of `wanted`, by id; published documents are left out."""
    ids = pa.array(list(wanted), pa.uint64())
    tables = corpus.row_groups("removed", ["doc_id", "stage"]) if len(ids) else ()
    stages = dict[int, str]()
    for table in tables:
        gone = table.filter(pc.is_in(table.column("doc_id"), ids))
        stages |= dict(zip(gone.column("doc_id").to_pylist(), gone.column("stage").to_pylist(), strict=True))
    return stages
