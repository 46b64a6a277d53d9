"""Find the published documents that are most similar to a text: candidates by band keys, then exact similarities.

Only published files and the corpus's register are read, without Prefect and Dask: a few row groups of band keys,
and the row groups of the candidates.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ValidationError

from zyda_flows.tasks.accounts.published import PublishedKeys
from zyda_flows.tasks.corpus.documents import published_texts
from zyda_flows.tasks.corpus.published_corpus import READERS, PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied
from zyda_flows.tasks.ids import split
from zyda_flows.tasks.planning.last_build import whole_register
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import ROUNDS, MinHashRound
from zyda_flows.tasks.signatures.keys import index_parameters, keys_of_texts
from zyda_flows.tasks.signatures.lookup import collisions, files_by_band, looked_up
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.records import Record
from zyda_flows.textkernels.sets import overlaps

MOST_OF_BUCKET = 1000  # candidates from a bucket
MOST_COMPARED = 100  # candidates whose texts are compared
SNIPPET = 200  # characters


class SimilarDocument(Record):
    """A published document that shares a bucket with a text: its place, similarity and beginning.

    jaccard, containment: of the text's shingles, exact. buckets: the number of shared buckets.
    """

    doc_id: int
    source: str
    file: str
    row: int
    jaccard: float
    containment: float
    buckets: int
    beginning: str


def nearest(recipe: Recipe, text: str, most: int = 10) -> list[SimilarDocument]:
    """Return at most `most` published documents that are similar to a text, the most similar first.

    The MOST_COMPARED documents that share most buckets with the text are compared with it. Raises Denied if no band
    keys are published, and BadRequest if the text has no keys.
    """
    while True:
        corpus = PublishedCorpus.of(recipe).expect_ids()
        try:
            with corpus.reading():
                return nearest_in(corpus, text, max(most, MOST_COMPARED))[:most]
        except Denied:
            if corpus.is_current():  # otherwise search the version that was published meanwhile
                raise


def nearest_in(corpus: PublishedCorpus, text: str, compared: int) -> list[SimilarDocument]:
    """Return the `compared` documents that share most buckets with a text, the most similar first."""
    manifest = corpus.manifest
    if not manifest.bands:
        raise Denied(
            f"{corpus.root.url}: no band keys are published there: `publish_bands` is false, or all "
            "rounds are semantic; --meaning compares vectors"
        )
    rounds, shared = list[Dedup](), Counter[int]()
    for place, keys in manifest.bands.items():
        dedup = dedup_of(keys)
        if dedup.key_column != "text":
            continue
        own_keys, has_keys = keys_of_texts(pa.array([text], pa.large_string()), dedup)
        if has_keys[0]:
            rounds.append(dedup)
            shared.update(documents_sharing(corpus, place, own_keys))
    if not rounds:
        raise BadRequest("the text has no characters or no words to look up")
    ids = sorted(shared, key=lambda doc_id: (-shared[doc_id], doc_id))[:compared]
    texts = published_texts(corpus, ids)
    if missing := [doc_id for doc_id in ids if doc_id not in texts]:
        raise Denied(f"{corpus.url}: document {missing[0]} has band keys, but no text")
    by_shingles = next((dedup for dedup in rounds if isinstance(dedup, MinHashRound)), MinHashRound())
    names = places_of(corpus, ids)
    documents = [
        SimilarDocument(
            doc_id=doc_id, source=source, file=file, row=split(doc_id)[2], jaccard=jaccard, containment=containment,
            buckets=shared[doc_id], beginning=texts[doc_id][:SNIPPET],
        )
        for doc_id, (source, file), (jaccard, containment) in zip(
            ids, names, likenesses(text, [texts[doc_id] for doc_id in ids], by_shingles), strict=True
        )
    ]  # fmt: skip
    return sorted(documents, key=lambda near: (-near.jaccard, -near.containment, near.doc_id))


def places_of(corpus: PublishedCorpus, doc_ids: Sequence[int]) -> list[tuple[str, str]]:
    """Return the source and the file of documents, from the corpus's register, or else from `sources.parquet`."""
    register, sources = whole_register(corpus.root), corpus.source_names
    files = {
        (register.sources[name], number): file.url
        for name, source_files in register.files.items()
        for number, file in enumerate(source_files)
    }
    if not files:
        listed = corpus.source_files().to_pylist()
        files = {(row["source_number"], row["file_number"]): row["file"] for row in listed}
    return [(sources[source], files[source, number]) for source, number, _ in map(split, doc_ids)]


def dedup_of(keys: PublishedKeys) -> Dedup:
    """Return the round that made the published keys. Raises Denied if this version makes different keys."""
    fields = {name: value for name, value in keys.parameters.items() if name not in ("version", "unicode")}
    with suppress(ValidationError):
        (dedup,) = ROUNDS.validate_python([fields])
        if index_parameters(dedup) == keys.parameters:
            return dedup
    raise Denied(
        "the published band keys are of another version of this software or of Unicode; build the corpus again"
    )


def documents_sharing(corpus: PublishedCorpus, place: str, keys: NDArray[np.uint64]) -> list[int]:
    """Return the documents that share a bucket with a text, once for each bucket. keys: of the text, (1, bands)."""
    lookups = list[tuple[Artifact, NDArray[np.uint64]]]()
    for band, files in files_by_band(corpus.artifacts(f"{place}/")).items():
        lookups += [(file, keys[:, band]) for file in files]

    def look(lookup: tuple[Artifact, NDArray[np.uint64]]) -> list[int]:
        file, key = lookup
        found_keys, doc_ids = looked_up(corpus.folder, file, key, MOST_OF_BUCKET)
        ids: list[int] = collisions(key, np.zeros(1, np.uint64), found_keys, doc_ids)[1].tolist()
        return ids

    with ThreadPoolExecutor(READERS) as readers:
        return [doc_id for ids in readers.map(look, lookups) for doc_id in ids]


def likenesses(text: str, other_texts: Sequence[str], dedup: MinHashRound) -> list[tuple[float, float]]:
    """Return of each other text its Jaccard similarity to `text`, and its share of the shingles of `text`."""
    hashes, ends = shingle_sets(pa.array([text, *other_texts], pa.large_string()), dedup)
    sizes, count = np.diff(ends), len(other_texts)
    both = overlaps(hashes, ends, np.zeros(count, np.int64), np.arange(1, count + 1))
    jaccard = both / np.maximum(1, sizes[0] + sizes[1:] - both)
    return list(zip(jaccard.tolist(), (both / max(1, sizes[0])).tolist(), strict=True))
