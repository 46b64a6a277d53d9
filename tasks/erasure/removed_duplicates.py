"""Read the files of removed documents for a removal request: the stages of documents, and their duplicates."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.accounts.published import TableFile
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.in_shards import Likenesses, Spread, texts_by_id
from zyda_flows.tasks.erasure.shard_search import ShardSearch, batches
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import signatures

FILES_AT_ONCE = 16


class Duplicate(NamedTuple):
    """A removed duplicate: its kept document, and its cosine if a semantic round removed it."""

    kept: int
    cosine: float | None


Duplicates = dict[int, Duplicate]  # by the id of the removed document


def removed_for(search: ShardSearch, corpus: PublishedCorpus, removed: Likenesses) -> Likenesses:
    """Return the documents that were removed as duplicates of `removed`, and their duplicates in turn, by id.

    Without their kept documents they would be published again. The values are the cosines of semantic rounds, or
    estimates of the similarity of each document to its kept document.
    """
    found = duplicates_of(corpus, removed, search.spread)
    cosines = {
        doc_id: duplicate.cosine for doc_id, duplicate in found.items() if duplicate.cosine is not None
    }
    pairs = {doc_id: duplicate.kept for doc_id, duplicate in found.items() if doc_id not in cosines}
    wanted = np.array(sorted({*pairs, *pairs.values()}), np.uint64)
    texts = dict[int, str]()
    if pairs:
        for part in search.over_shards(partial(texts_by_id, search.recipe.folder, wanted)):
            texts |= part
    estimated = zip(pairs, estimates([(texts[a], texts[b]) for a, b in pairs.items()]), strict=True)
    likenesses: Likenesses = {**cosines, **dict(estimated)}
    return likenesses


def duplicates_of(corpus: PublishedCorpus, kept_ids: Collection[int], spread: Spread) -> Duplicates:
    """Return the removed duplicates of documents, and their duplicates in turn."""
    files = batches(corpus.files("removed/"), FILES_AT_ONCE)
    latest, pairs = set(kept_ids), Duplicates()
    while latest:
        new = Duplicates()
        for part in spread(partial(removed_in_files, corpus, as_ids(latest)), files):
            new |= {a: b for a, b in part.items() if a not in kept_ids and a not in pairs}
        pairs |= new
        latest = set(new)
    return pairs


def stages_of(corpus: PublishedCorpus, wanted: Collection[int], spread: Spread) -> dict[int, str]:
    """Return the stages that removed documents of `wanted`, by id; published documents are left out."""
    stages = dict[int, str]()
    files = batches(corpus.files("removed/"), FILES_AT_ONCE) if wanted else []
    for part in spread(partial(stages_in_files, corpus, as_ids(wanted)), files):
        stages |= part
    return stages


def removed_in_files(corpus: PublishedCorpus, kept: Ids, files: Sequence[TableFile]) -> Duplicates:
    """Return the duplicates of kept documents in files of removed documents."""
    pairs = Duplicates()
    for table in row_groups(corpus, files, ["doc_id", "kept_doc_id", "cosine"]):
        rows = table.filter(pc.is_in(table.column("kept_doc_id"), pa.array(kept))).to_pylist()
        pairs |= {row["doc_id"]: Duplicate(row["kept_doc_id"], row.get("cosine")) for row in rows}
    return pairs


def stages_in_files(corpus: PublishedCorpus, wanted: Ids, files: Sequence[TableFile]) -> dict[int, str]:
    """Return the stages of documents in files of removed documents, by id."""
    stages = dict[int, str]()
    for table in row_groups(corpus, files, ["doc_id", "stage"]):
        rows = table.filter(pc.is_in(table.column("doc_id"), pa.array(wanted)))
        columns = (rows.column(name).to_pylist() for name in ("doc_id", "stage"))
        stages |= dict(zip(*columns, strict=True))
    return stages


def row_groups(
    corpus: PublishedCorpus, files: Sequence[TableFile], columns: Sequence[str]
) -> Iterator[pa.Table]:
    for file in files:
        yield from corpus.row_groups_of(file, columns)


def as_ids(doc_ids: Collection[int]) -> Ids:
    return np.array(sorted(doc_ids), np.uint64)


def estimates(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the estimated similarities of pairs of texts; 1 for texts that are too short for a signature."""
    dedup = MinHashRound()
    first, second = (
        signatures(pa.array([pair[side] for pair in pairs], pa.large_string()), dedup) for side in (0, 1)
    )
    likenesses: list[float] = (first == second).mean(axis=1).tolist() if pairs else []
    return likenesses
