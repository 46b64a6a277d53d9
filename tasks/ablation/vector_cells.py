"""The cells of documents by the cheap vectors that a judge of the corpora published: CELLS fixed directions.

A document is in the cell of the direction with the largest product with its vector. Unlike MinHash values, cells of
vectors are similar for documents about the same subject in other words.
"""

from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.documents import CELLS
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.stored_vectors import numbers_of

NO_CELL, SEED = -1, 0


def common_judge(corpora: Iterable[PublishedCorpus]) -> tuple[str, str]:
    """Return a judge whose vectors all corpora publish for all sources, and its digest; two "" if there is none."""
    judges = [{*judges_of(corpus).items()} for corpus in corpora]
    return min(set.intersection(*judges), default=("", ""))


def judges_of(corpus: PublishedCorpus) -> dict[str, str]:
    """Return the judges with vectors of every source that has documents, with the digests of their models."""
    manifest, found = corpus.manifest, dict[str, str]()
    sources = {name for name in manifest.ledger.sources if corpus.files(f"{name}/")}
    for name in dict.fromkeys(account.judge for account in manifest.vectors or ()):
        covered = {account.source for account in manifest.vectors or () if account.judge == name}
        digests = {
            model["digest"]
            for origin in manifest.made_of if origin.source in sources
            for model in origin.models if model["judge"] == name
        }  # fmt: skip
        if covered >= sources and len(digests) == 1:
            found[name] = digests.pop()
    return found


@cache
def directions(dims: int) -> NDArray[np.float32]:
    """Return CELLS fixed random directions: (dims, CELLS)."""
    chance = np.random.Generator(np.random.Philox(key=SEED))
    return chance.standard_normal((dims, CELLS)).astype(np.float32)


def cells_of(vectors: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the cell of each vector, (n,); NO_CELL for a vector of zeros. vectors: (n, dims)."""
    best = np.argmax(vectors.astype(np.float32) @ directions(vectors.shape[1]), axis=1)
    return np.where(vectors.any(axis=1), best, NO_CELL)


class VectorCells:
    """Reads the cells of the documents of a source, in the order of their ids."""

    def __init__(self, corpus: PublishedCorpus, judge: str, source: str) -> None:
        self.tables: Iterator[pa.Table] = corpus.row_groups(f"vectors/{judge}/{source}", ["doc_id", "vector"])
        self.ids, self.cells = np.empty(0, np.uint64), np.empty(0, np.int64)

    def of(self, ids: Ids) -> NDArray[np.int64]:
        """Return the cells of documents, (n,); NO_CELL without a vector.

        ids: ascending, above the ids of the last call; as in published files.
        """
        while len(ids) and (not len(self.ids) or self.ids[-1] < ids[-1]):
            if (table := next(self.tables, None)) is None:
                break
            self.ids = np.concatenate([self.ids, table.column("doc_id").to_numpy()])
            self.cells = np.concatenate([self.cells, cells_of(numbers_of(table.column("vector")))])
        if not len(ids) or not len(self.ids):
            return np.full(len(ids), NO_CELL)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        found = np.where(self.ids[places] == ids, self.cells[places], NO_CELL)
        is_later = self.ids > ids[-1]
        self.ids, self.cells = self.ids[is_later], self.cells[is_later]
        return found
