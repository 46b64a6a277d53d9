"""Found: the documents of a corpus that a request is about, and those that are like them, wherever they are.

They are looked for in what ingest stored, where all documents of all sources are, also those that went as
duplicates of others; and rows that were set aside by what they hold.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.documents.deny import IngestedColumns, denied_in_shard, fault_of_column
from tasks.documents.deny_list import DenyList, Request, requests_in
from tasks.documents.deny_signatures import requests_of_texts, rounds_with_signatures, texts_of
from tasks.erasure.asked import Asked
from tasks.erasure.at_source import read_at_source
from tasks.erasure.rows_aside import rows_set_aside
from tasks.errors import BadInput, Denied
from tasks.lookup.corpus_reader import Corpus
from tasks.planning.last_build import last_build, ledger_if_complete
from tasks.recipe.fields import DENIED, Recipe
from tasks.recipe.kinds import MinHashRound
from tasks.signatures.keys import signatures
from tasks.sources.small_files import planned_files
from tasks.storage.artifacts import MANIFESTS, Artifact, Manifest
from tasks.storage.documents import DOCUMENT_COUNTS
from tasks.storage.folder import Folder
from tasks.storage.records import Record, read_record
from tasks.storage.tables import ids_of, tables_of

SET_ASIDE = "set aside"
MOST_TEXTS = 100_000  # whose copies are looked for at once
NOT_BUILT = (
    "{url}: the corpus is not what its recipe and its sources say now: build it (zyda build), then ask again"
)
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]  # calls a function on every item
Likenesses = dict[int, float | None]
Ids = NDArray[np.uint64]


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
class Findings:
    """What a request is about. known_by: by what the texts and rows of these are known from now on.

    notes: why documents of some sources cannot be found by it.
    """

    documents: list[Document]
    known_by: list[Request]
    notes: list[str]


class Shard(NamedTuple):
    """A shard that ingest stored, of a source with some columns."""

    source: str
    artifact: Artifact
    columns: pa.Schema


@dataclass(frozen=True)
class FoundInShard:
    """The same of one shard: likenesses by id, and the texts of those that are asked about.

    without_text: the ids of those of which no text is stored.
    """

    likenesses: Likenesses
    texts: list[str]
    without_text: list[int]


def find(recipe: Recipe, asked: Asked, spread: Spread, *, alike: bool = True) -> Findings:
    """Find the documents that a request is about, and those of the corpus's deny lists that no build has erased.

    alike: also those that are like them, and those that went as duplicates of them. Raises Denied where the corpus
    is not as its recipe says now, or what ingest stored is gone; BadInput where there are too many texts.
    """
    corpus = Corpus(recipe)
    if ledger_if_complete(recipe) is None:
        raise Denied(NOT_BUILT.format(url=recipe.folder.url))
    shards, rounds = ingested(recipe.folder), rounds_with_signatures(recipe.rounds)
    listed = listed_requests(recipe)
    denied = DenyList([*asked.known_by(rounds, alike=alike), *listed])
    erased = {one.id for one in listed if one.id is not None}
    first: list[FoundInShard] = spread(partial(found_in_shard, recipe, denied, rounds, erased), shards)
    likenesses = {doc_id: value for one in first for doc_id, value in one.likenesses.items()}
    at_source = read_at_source(corpus, [doc_id for one in first for doc_id in one.without_text])
    texts = [*dict.fromkeys([*(text for one in first for text in one.texts), *at_source.texts])]
    if len(texts) > MOST_TEXTS:
        raise BadInput(f"{len(texts):,} texts are asked for, more than {MOST_TEXTS:,} at once: ask in parts")
    by_text = requests_of_texts(texts, rounds, alike=alike)
    if by_text:
        again: list[FoundInShard] = spread(
            partial(found_in_shard, recipe, DenyList(by_text), rounds, erased | set(likenesses)), shards
        )
        likenesses |= {doc_id: value for one in again for doc_id, value in one.likenesses.items()}
    if alike:
        likenesses |= went_for_them(recipe, corpus, shards, likenesses)
    wanted = np.array(sorted(likenesses), np.uint64)
    tokens = dict[int, int]()
    for of_shard in spread(partial(tokens_of, recipe.folder, wanted), shards):
        tokens |= of_shard
    stages = stages_of(corpus, likenesses)
    documents = [
        Document(
            **corpus.place(doc_id).model_dump(), tokens=tokens[doc_id], likeness=likenesses[doc_id],
            stage=stages.get(doc_id),
        )
        for doc_id in sorted(likenesses)
    ]  # fmt: skip
    ids = {one.id for one in asked.requests if one.id is not None}
    aside = [
        one
        for one in rows_set_aside(recipe.folder, corpus.register, ids, denied, [*asked.texts, *texts])
        if one.doc_id not in erased
    ]
    documents += [
        Document(doc_id=one.doc_id, source=one.source, file=one.file, row=one.row, tokens=0, stage=SET_ASIDE)
        for one in aside
    ]
    rows_at_source = read_at_source(corpus, [one.doc_id for one in aside if one.known_by is None])
    known_by = [
        *requests_of_texts(asked.texts, rounds, alike=alike),
        *by_text,
        *(one.known_by for one in aside if one.known_by),
        *rows_at_source.rows,
    ]
    notes = [*notes_on(recipe, asked, shards), *at_source.notes, *rows_at_source.notes]
    return Findings(documents, known_by, notes)


def listed_requests(recipe: Recipe) -> list[Request]:
    """Return what the deny lists beside a corpus ask for."""
    lists = planned_files(DENIED, recipe.lists_of_corpus) if recipe.lists_of_corpus else ()
    return [request for file in lists for request in requests_in(file)]


def ingested(folder: Folder) -> list[Shard]:
    """Return the shards that ingest stored for the published corpus. Raises Denied."""
    built = last_build(folder)
    shards = list[Shard]()
    for path in built.manifests if built else ():
        if path.startswith(f"{MANIFESTS}/ingest-"):
            manifest = read_record(folder, path, Manifest)
            if manifest is None:
                raise Denied(f"{folder.url}/{path} is gone; build the corpus, then ask again")
            columns = manifest.facts_as(IngestedColumns).schema_of_all
            shards += [Shard(str(manifest.source), artifact, columns) for artifact in manifest.artifacts]
    return shards


def notes_on(recipe: Recipe, asked: Asked, shards: Sequence[Shard]) -> Iterator[str]:
    """Say of which sources no document is found by an address or a column that is asked about."""
    denied = DenyList(asked.requests)
    for source, columns in {shard.source: shard.columns for shard in shards}.items():
        url = recipe.source(source).url
        for path in [*([url] if denied.knows_addresses else []), *denied.columns]:
            if (fault := fault_of_column(path, columns)) is not None:
                yield f"source {source}: {fault}, so no document of it is found by that"


def found_in_shard(
    recipe: Recipe, denied: DenyList, rounds: Sequence[MinHashRound], known: Collection[int], shard: Shard
) -> FoundInShard:
    """Find the documents of a shard that a request names, and those like its texts; known ones are left out."""
    url = recipe.source(shard.source).url
    ids, alike = denied_in_shard(recipe.folder, shard.source, shard.artifact, denied, url, rounds)
    new = np.array([doc_id for doc_id in ids.tolist() if doc_id not in known], np.uint64)
    likenesses: Likenesses = {}
    for one in alike:
        if one.doc_id not in known:
            likenesses[one.doc_id] = max(one.likeness, likenesses.get(one.doc_id) or 0)
    found, texts = (
        texts_of(recipe.folder, shard.artifact, new) if len(new) else (new, pa.array([], pa.string()))
    )
    pairs = [*zip(found.tolist(), texts.to_pylist(), strict=True)]
    return FoundInShard(
        likenesses | dict.fromkeys(new.tolist()),
        [text for _, text in pairs if text],
        [doc_id for doc_id, text in pairs if not text],
    )


def went_for_them(recipe: Recipe, corpus: Corpus, shards: Sequence[Shard], found: Likenesses) -> Likenesses:
    """Return the documents that went as duplicates of some, and of these in turn: they would come back.

    Of each an estimate of how like it is to the one that it went for.
    """
    kept_for, pairs = set(found), dict[int, int]()
    while True:
        new = dict[int, int]()
        for table in corpus.blocks("removed", ["doc_id", "kept_doc_id"]):
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


def within(folder: Folder, shard: Shard, wanted: Ids) -> Ids:
    """Return those of some ids, ascending, that a shard may have."""
    first, last = ids_of(folder, shard.artifact)
    return wanted[slice(*np.searchsorted(wanted, np.array([first, max(first, last + 1)], np.uint64)))]


def tokens_of(folder: Folder, wanted: Ids, shard: Shard) -> dict[int, int]:
    """Read how many tokens some documents of a shard have. wanted: ids, ascending, (n,)."""
    ids = within(folder, shard, wanted)
    if not len(ids):
        return {}
    tables = tables_of(folder, shard.artifact, DOCUMENT_COUNTS.names)
    is_in = partial(pc.is_in, value_set=pa.array(ids))
    found = pa.concat_tables([table.filter(is_in(table.column("doc_id"))) for table in tables])
    return dict(zip(found.column("doc_id").to_pylist(), found.column("n_tokens").to_pylist(), strict=True))


def stages_of(corpus: Corpus, wanted: Likenesses) -> dict[int, str]:
    """Return the stages by which those of some documents went that are not published."""
    ids = pa.array(list(wanted), pa.uint64())
    tables = corpus.blocks("removed", ["doc_id", "stage"]) if len(ids) else ()
    stages = dict[int, str]()
    for table in tables:
        gone = table.filter(pc.is_in(table.column("doc_id"), ids))
        stages |= dict(zip(gone.column("doc_id").to_pylist(), gone.column("stage").to_pylist(), strict=True))
    return stages
