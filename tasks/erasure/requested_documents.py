"""Found: the documents of a corpus that a request is about, and those that are like them, wherever they are.

They are looked for in what ingest stored, where all documents of all sources are, also those that went as
duplicates of others; and rows that were set aside by what they hold.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
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
MOST_TEXTS = 100_000  # whose copies are looked for at once
MOST_READ = 10_000  # documents without a stored text whose copies are looked for, too
NOT_BUILT = (
    "{url}: the corpus is not what its recipe and its sources say now: build it (zyda build), then ask again"
)
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]  # calls a function on every item


class Document(Record):
    """A document that a request is about.

    likeness: to one of these, an estimate; None where it is one itself. stage: by which it went from the corpus, if
    it did, or SET_ASIDE.
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
    """What a request is about. known_by: by what the texts and rows of these are known from now on.

    notes: why documents of some sources cannot be found by it.
    """

    documents: list[Document]
    known_by: list[Request]
    notes: list[str]


def find_documents(
    recipe: Recipe, asked: RemovalRequest, spread: Spread, *, alike: bool = True
) -> RequestedDocuments:
    """Find the documents that a request is about, and those of the corpus's deny lists that no build has erased.

    alike: also those that are like them, and those that went as duplicates of them. Raises Denied where the corpus
    is not as its recipe says now, or what ingest stored is gone; BadInput where there are too many texts.
    """
    reader = DocumentReader.of(recipe)
    corpus = reader.corpus
    if ledger_if_complete(recipe) is None:
        raise Denied(NOT_BUILT.format(url=recipe.folder.url))
    shards, rounds = ingested(recipe.folder), rounds_with_signatures(recipe.rounds)
    listed = listed_requests(recipe)
    denied = DenyList([*asked.known_by(rounds, alike=alike), *listed])
    erased = {one.id for one in listed if one.id is not None}
    first: list[ShardDocuments] = spread(partial(find_in_shard, recipe, denied, rounds, erased), shards)
    likenesses = likenesses_of(first)
    ids = {one.id for one in asked.requests if one.id is not None}
    at_source = read_source_texts(reader, *without_text(first, ids))
    texts = [*dict.fromkeys([*(text for one in first for text in one.texts), *at_source.texts])]
    if len(texts) > MOST_TEXTS:
        raise BadInput(f"{len(texts):,} texts are asked for, more than {MOST_TEXTS:,} at once: ask in parts")
    by_text = requests_of_texts(texts, rounds, alike=alike)
    if by_text:
        known = erased | set(likenesses)
        again = spread(partial(find_in_shard, recipe, DenyList(by_text), rounds, known), shards)
        likenesses |= likenesses_of(again)
    if alike:
        likenesses |= went_for_them(recipe, corpus, shards, likenesses)
    rows = rows_set_aside(recipe.folder, reader.register, ids, denied, [*asked.texts, *texts])
    aside = [one for one in rows if one.doc_id not in erased]
    of_rows = read_source_texts(reader, [one.doc_id for one in aside if one.doc_id in ids])
    of_texts = requests_of_texts([*asked.texts, *of_rows.texts], rounds, alike=alike)
    known_by = [*of_texts, *by_text]
    known_by += [*(one.known_by for one in aside if one.known_by), *of_rows.rows]
    notes = [*notes_on(recipe, asked, shards), *at_source.notes, *of_rows.notes]
    documents = documents_of(recipe, reader, shards, likenesses, spread)
    return RequestedDocuments([*documents, *map(document_of_row, aside)], known_by, notes)


def likenesses_of(found: Iterable[ShardDocuments]) -> Likenesses:
    return {doc_id: value for one in found for doc_id, value in one.likenesses.items()}


def documents_of(
    recipe: Recipe, reader: DocumentReader, shards: Sequence[Shard], likenesses: Likenesses, spread: Spread
) -> list[Document]:
    """Return the documents with some ids, ascending: where they are, their tokens, and by which stage they went."""
    wanted = np.array(sorted(likenesses), np.uint64)
    tokens = dict[int, int]()
    for of_shard in spread(partial(tokens_of, recipe.folder, wanted), shards):
        tokens |= of_shard
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


def without_text(found: Sequence[ShardDocuments], named: Collection[int]) -> tuple[list[int], list[int]]:
    """Return the documents without a stored text that are to be read in their sources, and those that are not.

    named: by their ids; these are known by nothing else. All others are read unless they are too many.
    """
    ids = [doc_id for one in found for doc_id in one.without_text]
    if len(ids) <= MOST_READ:
        return ids, []
    return [one for one in ids if one in named], [one for one in ids if one not in named]


def listed_requests(recipe: Recipe) -> list[Request]:
    """Return what the deny lists beside a corpus ask for."""
    lists = planned_files(DENIED, recipe.lists_of_corpus) if recipe.lists_of_corpus else ()
    return [request for file in lists for request in requests_in(file)]


def notes_on(recipe: Recipe, asked: RemovalRequest, shards: Sequence[Shard]) -> Iterator[str]:
    """Say of which sources no document is found by an address or a column that is asked about."""
    denied = DenyList(asked.requests)
    for source, columns in {shard.source: shard.columns for shard in shards}.items():
        url = recipe.source(source).url
        for path in [*([url] if denied.knows_addresses else []), *denied.columns]:
            if (fault := fault_of_column(path, columns)) is not None:
                yield f"source {source}: {fault}, so no document of it is found by that"


def went_for_them(
    recipe: Recipe, corpus: PublishedCorpus, shards: Sequence[Shard], found: Likenesses
) -> Likenesses:
    """Return the documents that went as duplicates of some, and of these in turn: they would come back.

    Of each an estimate of how like it is to the one that it went for.
    """
    kept_for, pairs = set(found), dict[int, int]()
    while True:
        new = dict[int, int]()
        for table in corpus.row_groups("removed", ["doc_id", "kept_doc_id"]):
            rows = table.filter(
                pc.is_in(table.column("kept_doc_id"), pa.array(sorted(kept_for), pa.uint64()))
            )
            ids, kept = (rows.column(name).to_pylist() for name in ("doc_id", "kept_doc_id"))
            new |= {a: b for a, b in zip(ids, kept, strict=True) if a not in found and a not in pairs}
        if not new:
            break
        pairs |= new
        kept_for = set(new)
    texts = dict[int, str]()
    wanted = np.array(sorted({*pairs, *pairs.values()}), np.uint64)
    for shard in shards if pairs else ():
        if len(of_shard := within(recipe.folder, shard, wanted)):
            ids, found_texts = texts_of(recipe.folder, shard.artifact, of_shard)
            texts |= dict(zip(ids.tolist(), found_texts.to_pylist(), strict=True))
    return dict(zip(pairs, estimates([(texts[a], texts[b]) for a, b in pairs.items()]), strict=True))


def estimates(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the estimated similarity of texts; 1 of those that are too short for a signature."""
    dedup = MinHashRound()
    one, other = (
        signatures(pa.array([pair[side] for pair in pairs], pa.large_string()), dedup) for side in (0, 1)
    )
    likenesses: list[float] = (one == other).mean(axis=1).tolist() if pairs else []
    return likenesses


def stages_of(corpus: PublishedCorpus, wanted: Likenesses) -> dict[int, str]:
    """Return the stages by which those of some documents went that are not published."""
    ids = pa.array(list(wanted), pa.uint64())
    tables = corpus.row_groups("removed", ["doc_id", "stage"]) if len(ids) else ()
    stages = dict[int, str]()
    for table in tables:
        gone = table.filter(pc.is_in(table.column("doc_id"), ids))
        stages |= dict(zip(gone.column("doc_id").to_pylist(), gone.column("stage").to_pylist(), strict=True))
    return stages
