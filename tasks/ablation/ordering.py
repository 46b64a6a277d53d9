"""The order in which a run reads documents, which may repeat, and the noise of the degraded control."""

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.documents import token_ids
from zyda_flows.tasks.ablation.drawing import prefix
from zyda_flows.tasks.tokens.engine import TokenIds


def ordered(
    parts: Sequence[tuple[pa.Table, int, float]], tokens: int, seed: int, replayed: float = 0.0
) -> tuple[TokenIds, NDArray[np.int64]]:
    """Return the documents of a run of `tokens`, and their order: places in them, (n,).

    parts: of each part its DRAWN documents, their tokens, and its share of the run. replayed: the share of the
    documents of each part that copies of the others replace. A document has the same rank in all variants.
    """
    tables, order, keys, start = list[pa.Table](), list[NDArray[np.int64]](), list[NDArray[np.uint64]](), 0
    for part, size, share in parts:
        table = prefix(part, int(size * (1 - replayed)))
        hashes = table.column("hash").to_numpy()
        for copy, places in copies_of(table, int(np.ceil(tokens * share))):
            order.append(places + start)
            keys.append(mixed(hashes[places], seed, copy))
        tables.append(table)
        start += len(table)
    places = np.concatenate(order)[np.argsort(np.concatenate(keys), kind="stable")]
    return token_ids(pa.concat_tables(tables)), places


def copies_of(table: pa.Table, tokens: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the places of the documents of each copy of a part, until they have a number of tokens."""
    ends = np.cumsum(table.column("n_tokens").to_numpy(), dtype=np.int64)
    for copy in count():
        if tokens <= 0:
            return
        number = min(len(ends), int(np.searchsorted(ends, tokens)) + 1)
        yield copy, np.arange(number)
        tokens -= int(ends[number - 1])


def mixed(hashes: NDArray[np.uint64], seed: int, copy: int) -> NDArray[np.uint64]:
    """Return the sort keys of documents, which depend on their texts, the seed and the copy only."""
    salt = np.random.default_rng([seed, copy]).integers(1 << 63, dtype=np.uint64)
    keys = hashes ^ salt
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64
        keys = (keys ^ (keys >> np.uint64(shift))) * np.uint64(factor)
    return keys ^ (keys >> np.uint64(31))


def with_noise(documents: TokenIds, share: float) -> TokenIds:
    """Replace a share of the tokens of each document by other tokens of the document; the first is kept."""
    chance = np.random.default_rng(0)
    counts = np.diff(documents.ends)
    starts = np.repeat(documents.ends[:-1], counts)
    others = starts + (chance.random(len(starts)) * (np.repeat(counts, counts) - 1)).astype(np.int64) + 1
    is_noise = (chance.random(len(starts)) < share) & (np.arange(len(starts)) > starts)
    ids = documents.ids.copy()
    ids[is_noise] = documents.ids[others[is_noise]]
    return TokenIds(ids, documents.ends)
