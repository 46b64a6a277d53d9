"""The exact comparison of the texts of pairs: a document and a document of another corpus that share a bucket."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.comparison import SIMILARITIES
from zyda_flows.tasks.dedup.verify import TextComparison, batches
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.storage.parts import TextFile, text_sizes
from zyda_flows.textkernels.set_similarity import shingles_needed
from zyda_flows.textkernels.sets import overlaps

Places = NDArray[np.int64]


def places_of(pairs: pa.Table, rows: pa.Table | None, references: Sequence[PublishedCorpus]) -> Places:
    """Return the place of the other text of each pair among the texts that were read: (p,).

    rows: `corpus` and `doc_id` of the texts that were read. Raises Denied if a text is missing.
    """
    corpora, ids = (pairs.column(name).to_numpy() for name in ("corpus", "matched_doc_id"))
    if rows is None:
        rows = pairs.slice(0, 0).rename_columns({"matched_doc_id": "other"})
    row_corpora, row_ids = (rows.column(name).to_numpy() for name in ("corpus", "doc_id"))
    places = np.full(len(pairs), -1, np.int64)
    for number in np.unique(corpora):
        pairs_of_corpus = np.flatnonzero(corpora == number)
        rows_of_corpus = np.flatnonzero(row_corpora == number)
        rows_of_corpus = rows_of_corpus[np.argsort(row_ids[rows_of_corpus])]
        is_present = np.isin(ids[pairs_of_corpus], row_ids[rows_of_corpus])
        if not is_present.all():
            missing = ids[pairs_of_corpus[~is_present]][0]
            raise Denied(f"{references[number].url}: document {missing} has band keys there, and no text")
        places[pairs_of_corpus] = rows_of_corpus[
            np.searchsorted(row_ids[rows_of_corpus], ids[pairs_of_corpus])
        ]
    return places


def compare_pairs(
    pairs: pa.Table, ours: pa.Table, places: Places, texts: TextFile, comparison: TextComparison
) -> pa.Table:
    """Compare the pairs whose own text is in `ours`; return the pairs whose own document may be removed.

    pairs: MATCHES. ours: `doc_id` and `text`, sorted by doc_id. places: (p,), the place of the other text of each
    pair. The result is MATCHES with the columns SIMILARITIES.
    """
    is_here = np.isin(pairs.column("doc_id").to_numpy(), ours.column("doc_id").to_numpy())
    pairs, places = pairs.filter(pa.array(is_here)), places[is_here]
    column = ours.column("text").cast(pa.large_string()).combine_chunks()
    own = np.searchsorted(ours.column("doc_id").to_numpy(), pairs.column("doc_id").to_numpy())
    text_bytes = text_sizes(ours.column("text").cast(pa.large_string()))[own] + texts.sizes[places]
    both, size, other_size = (np.zeros(len(pairs), np.int64) for _ in range(3))
    for first, last in batches(np.arange(len(pairs) + 1), np.concatenate([[0], np.cumsum(text_bytes)])):
        batch = slice(first, last)
        own_rows, own_at = np.unique(own[batch], return_inverse=True)
        other_rows, other_at = np.unique(places[batch], return_inverse=True)
        batch_texts = pa.concat_arrays([column.take(pa.array(own_rows)), texts.take(other_rows)])
        hashes, ends = shingle_sets(batch_texts, comparison.dedup)
        other_at = other_at + len(own_rows)
        both[batch] = overlaps(hashes, ends, own_at, other_at)
        size[batch], other_size[batch] = np.diff(ends)[own_at], np.diff(ends)[other_at]
    similarities = (both / np.maximum(1, size + other_size - both), both / np.maximum(1, size))
    for field, values in zip(SIMILARITIES, similarities, strict=True):
        pairs = pairs.append_column(field, pa.array(values.astype(np.float32)))
    least = [
        shingles_needed(**comparison.required, size=own, other=other)
        for own, other in zip(size, other_size, strict=True)
    ]
    return pairs.filter(pa.array(both >= np.array(least, np.int64)))
