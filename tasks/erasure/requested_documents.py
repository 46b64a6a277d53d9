"""Find the documents of a corpus that a removal request matches, and documents that are similar to them.

All ingested documents of all sources are searched, including documents that were removed as duplicates, and the
rows that were set aside.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from zyda_flows.tasks.documents.deny import fault_of_column
from zyda_flows.tasks.documents.deny_list import DenyList, Request, requests_in
from zyda_flows.tasks.documents.deny_signatures import requests_of_texts, rounds_with_signatures
from zyda_flows.tasks.erasure.in_shards import Shard, Spread, ingested, tokens_by_id
from zyda_flows.tasks.erasure.removal_request import RemovalRequest
from zyda_flows.tasks.erasure.removed_duplicates import removed_for, stages_of
from zyda_flows.tasks.erasure.rows_aside import MatchedRow, RequestedRows, rows_set_aside
from zyda_flows.tasks.erasure.search_cost import SearchCost, search_cost
from zyda_flows.tasks.erasure.shard_search import ShardSearch, lists_of_corpus
from zyda_flows.tasks.erasure.source_texts import read_source_texts
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.lookup.document_reader import DocumentReader
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.words import counted

SET_ASIDE = "set aside"
MOST_TEXTS = 100_000  # texts whose copies are searched at once
MOST_READ = 10_000  # documents without a stored text that are read in their sources
NOT_BUILT = (
    "{url}: the recipe or its sources have changed since the last build; build the corpus (zyda build), then "
    "repeat the request"
)


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
    recipe: Recipe,
    request: RemovalRequest,
    spread: Spread,
    *,
    alike: bool = True,
    is_on_cluster: bool = False,
) -> RequestedDocuments:
    """Find the documents of a request, and the documents of the corpus's deny lists that no build has erased yet.

    spread: calls a function on every item; is_on_cluster: on the workers of a cluster. alike: also find similar
    documents, and documents that were removed as duplicates of them. Raises Denied if the recipe has changed since
    the build, or ingested files are missing; BadInput if the request has too many texts or documents.
    """
    reader = reader_of_complete(recipe)
    rounds, listed = rounds_with_signatures(recipe.rounds), listed_requests(recipe)
    erased = {entry.id for entry in listed if entry.id is not None}
    search = ShardSearch(recipe, rounds, spread, erased, is_on_cluster=is_on_cluster)
    denied = search.denied(request.with_texts(rounds, alike=alike), listed)
    named = {entry.id for entry in request.requests if entry.id is not None}
    stored_texts, without_text = search.texts(search.find(denied))
    at_source = read_source_texts(recipe, *texts_to_read(without_text, named), spread)
    texts = [*dict.fromkeys([*stored_texts, *at_source.texts])]
    if len(texts) > MOST_TEXTS:
        raise BadInput(
            f"{len(texts):,} texts are requested, at most {MOST_TEXTS:,} at once: split the request"
        )
    text_entries = requests_of_texts(texts, rounds, alike=alike)
    if text_entries:
        search.find(search.denied(text_entries))
    likenesses = search.likenesses
    sharing, _ = search.texts(search.find_in_passages(request.texts, alike=alike))
    if alike:
        likenesses |= removed_for(search, reader.corpus, likenesses)
    requested_rows = RequestedRows(recipe.folder, named, denied, [*request.texts, *texts])
    rows = rows_set_aside(recipe.folder, reader.register, requested_rows, spread)
    rows_to_remove = [row for row in rows if row.doc_id not in search.erased]
    named_rows = [row.doc_id for row in rows_to_remove if row.doc_id in named]
    row_texts = read_source_texts(recipe, named_rows, (), spread)
    documents = documents_of(reader, search)
    return RequestedDocuments(
        [*documents, *map(document_of_row, rows_to_remove)],
        [
            *requests_of_texts([*request.texts, *row_texts.texts], rounds, alike=alike),
            *text_entries,
            *requests_of_texts(sharing, rounds, alike=False),
            *(row.entry for row in rows_to_remove if row.entry),
            *row_texts.rows,
        ],
        [
            *notes_on(recipe, request, search.shards),
            *about_sharing(sharing),
            *at_source.notes,
            *row_texts.notes,
        ],
    )


def reader_of_complete(recipe: Recipe) -> DocumentReader:
    """Return a reader of the documents of a corpus. Raises Denied if the recipe has changed since the build."""
    reader = DocumentReader.of(recipe)
    if ledger_if_complete(recipe) is None:
        raise Denied(NOT_BUILT.format(url=recipe.folder.url))
    return reader


def cost_of_search(recipe: Recipe, request: RemovalRequest, *, alike: bool) -> SearchCost:
    """Estimate the cost of `find_documents`. Raises Denied."""
    reader_of_complete(recipe)
    rounds, listed = rounds_with_signatures(recipe.rounds), listed_requests(recipe)
    denied = DenyList([*request.with_texts(rounds, alike=alike), *listed])
    reads_texts = bool(recipe.passages and request.texts)
    return search_cost(ingested(recipe.folder), denied, rounds, alike=alike, reads_texts=reads_texts)


def documents_of(reader: DocumentReader, search: ShardSearch) -> list[Document]:
    """Return the documents of a search by ascending id, with their places, tokens and stages of removal."""
    likenesses, tokens = search.likenesses, dict[int, int]()
    wanted = np.array(sorted(likenesses), np.uint64)
    for part in (
        search.over_shards(partial(tokens_by_id, reader.recipe.folder, wanted)) if len(wanted) else ()
    ):
        tokens |= part
    stages = stages_of(reader.corpus, likenesses, search.spread)
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


def texts_to_read(ids: Sequence[int], named: Collection[int]) -> tuple[list[int], list[int]]:
    """Return the documents without a stored text, in two lists: to read in their sources, and to skip.

    named: documents that the request names by their ids. If there are too many documents, only these are read.
    """
    if len(ids) <= MOST_READ:
        return [*ids], []
    return [doc_id for doc_id in ids if doc_id in named], [doc_id for doc_id in ids if doc_id not in named]


def listed_requests(recipe: Recipe) -> list[Request]:
    """Return the entries of the deny lists beside a corpus."""
    return [entry for file in lists_of_corpus(recipe) for entry in requests_in(file)]


def about_sharing(texts: Sequence[str]) -> Iterator[str]:
    """Yield a note if documents match as parts. texts: their different texts."""
    if texts:
        yield f"a requested text is a passage of {counted(len(texts), 'longer text')}; their whole documents match"


def notes_on(recipe: Recipe, request: RemovalRequest, shards: Sequence[Shard]) -> Iterator[str]:
    """Yield a note for each source without the column of a requested address or value."""
    denied = DenyList(request.requests)
    for source, columns in {shard.source: shard.columns for shard in shards}.items():
        url = recipe.source(source).url
        for path in [*([url] if denied.has_addresses else []), *denied.columns]:
            if (fault := fault_of_column(path, columns)) is not None:
                yield f"source {source}: {fault}, so the request matches no document of it by that column"
