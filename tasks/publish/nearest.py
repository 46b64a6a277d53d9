"""Nearest: the published documents that are most like a text, by the published band keys and then exactly.

It needs neither Prefect nor Dask nor anything but what is published and the corpus's register: a few row groups of
keys, and those of the documents that are found.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.accounts.published import PUBLISHED, Published, PublishedKeys, corpus_of
from tasks.errors import BadInput, Damaged, Denied
from tasks.ids import split
from tasks.kernels.sets import overlaps
from tasks.recipe.fields import Dedup, Recipe
from tasks.signatures.bands import place_of
from tasks.signatures.keys import index_parameters, keys_of_texts
from tasks.signatures.lookup import files_by_band, looked_up, met
from tasks.signatures.shingles import shingle_sets
from tasks.sources.register import load_register
from tasks.storage.artifacts import Shard
from tasks.storage.folder import Folder
from tasks.storage.records import Record
from tasks.storage.tables import footer_of, opened

MOST_OF_BUCKET = 1000  # documents of a bucket that come into question
READERS = 8
SNIPPET = 200  # characters

Ids = NDArray[np.uint64]


class Near(Record):
    """A published document that shares a bucket with a text: its place, how like it is, and how it begins.

    jaccard, containment: of the text's shingles, exact. buckets: that the two share.
    """

    doc_id: int
    source: str
    file: str
    row: int
    jaccard: float
    containment: float
    buckets: int
    beginning: str


def nearest(recipe: Recipe, text: str, most: int = 10) -> list[Near]:
    """Find the published documents that are most like a text, the most like it first, `most` at the most.

    Of those that share a bucket with it the `most` that share most are compared. Raises Denied where there are no
    band keys to look in, and BadInput where the text has none.
    """
    try:
        return found_near(recipe, text, most)
    except Damaged as error:
        raise Denied(f"{error}; zyda verify --repair mends it") from error


def found_near(recipe: Recipe, text: str, most: int) -> list[Near]:
    """Do so. Raises Damaged besides."""
    folder, manifest = corpus_of(recipe)
    asked, shared = Dedup(exact="text"), dict[int, int]()
    for place, keys in manifest.bands.items():
        dedup = dedup_of(keys)
        if asked.exact:
            asked = dedup
        for doc_id in documents_sharing(folder, manifest, place, dedup, text):
            shared[doc_id] = shared.get(doc_id, 0) + 1
    if not manifest.bands:
        raise Denied(f"{folder.url}: no band keys are published there (publish_bands: false)")
    ids = sorted(shared, key=lambda doc_id: (-shared[doc_id], doc_id))[:most]
    texts = texts_of(folder.folder(PUBLISHED), manifest, ids)
    register = load_register(folder)
    names = {number: name for name, number in register.sources.items()}
    found = list[Near]()
    for doc_id, (jaccard, containment) in zip(ids, likenesses(text, texts, asked), strict=True):
        source, file, row = split(doc_id)
        found.append(
            Near(
                doc_id=doc_id, source=names[source], file=register.files[names[source]][file].url, row=row,
                jaccard=jaccard, containment=containment, buckets=shared[doc_id],
                beginning=texts[len(found)][:SNIPPET],
            )
        )  # fmt: skip
    return sorted(found, key=lambda near: (-near.jaccard, -near.containment, near.doc_id))


def dedup_of(keys: PublishedKeys) -> Dedup:
    """Return how the published keys of a round were made. Raises Denied where this version makes others."""
    fields = {name: value for name, value in keys.parameters.items() if name not in ("version", "unicode")}
    dedup = Dedup.model_validate(fields)
    if index_parameters(dedup) != keys.parameters:
        raise Denied(
            "the published band keys are of another version of this software or of Unicode; build the corpus again"
        )
    return dedup


def documents_sharing(folder: Folder, manifest: Published, place: str, dedup: Dedup, text: str) -> list[int]:
    """Return the documents that share a bucket with a text, once for each bucket. Raises BadInput."""
    keys, has_keys = keys_of_texts(pa.array([text], pa.large_string()), dedup)
    if not has_keys[0]:
        raise BadInput("there is nothing in the text to look up: no character, or no word")
    files = [file.to_read(f"{PUBLISHED}/") for file in manifest.files if file.path.startswith(f"{place}/")]
    asked = list[tuple[Shard, NDArray[np.uint64]]]()
    for band, of_band in files_by_band([file for file in files if file is not None]).items():
        asked += [(file, keys[:, band]) for file in of_band]

    def look(one: tuple[Shard, NDArray[np.uint64]]) -> list[int]:
        file, key = one
        found, doc_ids = looked_up(folder, file, key, MOST_OF_BUCKET)
        ids: list[int] = met(key, np.zeros(1, np.uint64), found, doc_ids)[1].tolist()
        return ids

    with ThreadPoolExecutor(READERS) as readers:
        return [doc_id for ids in readers.map(look, asked) for doc_id in ids]


def texts_of(published: Folder, manifest: Published, doc_ids: Sequence[int]) -> list[str]:
    """Read the texts of some documents of a published folder. Raises Denied where one is not there."""
    sources = {origin.number: origin.source for origin in manifest.made_of}

    def read(doc_id: int) -> str:
        source, number, _ = split(doc_id)
        of_source = [file for file in manifest.files if file.path.startswith(f"{sources.get(source)}/")]
        for shard in (file.to_read() for file in of_source):
            if shard is not None and place_of(shard)[0] == number:
                text = text_in(published, shard, doc_id)
                if text is not None:
                    return text
        raise Denied(f"{published.url}: document {doc_id} has band keys there, and no text")

    with ThreadPoolExecutor(READERS) as readers:
        return list(readers.map(read, doc_ids))


def text_in(folder: Folder, shard: Shard, doc_id: int) -> str | None:
    """Read the text of a document from a file that may have it."""
    footer = footer_of(folder, shard)
    place = footer.schema.names.index("doc_id")
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(place).statistics
        if statistics.min <= doc_id <= statistics.max:
            with opened(folder, shard) as parquet:
                rows = parquet.read_row_group(group, ["doc_id", "text"])
            at = np.flatnonzero(rows.column("doc_id").to_numpy() == np.uint64(doc_id))
            if len(at):
                return str(rows.column("text")[int(at[0])].as_py())
    return None


def likenesses(text: str, others: Sequence[str], dedup: Dedup) -> list[tuple[float, float]]:
    """Return the Jaccard similarity of a text and each other one, and the share of its shingles that it holds."""
    hashes, ends = shingle_sets(pa.array([text, *others], pa.large_string()), dedup)
    sizes, count = np.diff(ends), len(others)
    both = overlaps(hashes, ends, np.zeros(count, np.int64), np.arange(1, count + 1))
    jaccard = both / np.maximum(1, sizes[0] + sizes[1:] - both)
    return list(zip(jaccard.tolist(), (both / max(1, sizes[0])).tolist(), strict=True))
