"""Count the different quality labels of the documents in each cluster, for a sample of clusters.

The documents of a cluster can be in several files, so labels are collected first. If more than MOST_KEPT documents
are collected, only every second cluster is kept, then every fourth and so on. The clusters are chosen by a hash of
their ids, so the sample of a corpus is always the same.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MOST_KEPT = 8 << 20  # labelled documents, which need 560 MB while they are counted
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio, for multiplicative hashing


@dataclass
class MixedLabels:
    """The labelled documents of a sample of clusters. period: one of so many clusters is in the sample."""

    period: int = 1
    codes: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[NDArray[np.uint64], NDArray[np.uint16]]] = field(default_factory=list)
    documents_kept: int = 0

    def add(self, cluster_ids: pa.ChunkedArray, labels: pa.ChunkedArray) -> None:
        """Add the clusters and labels of documents, (n,) each; documents without a cluster or label are skipped."""
        table = pa.table([cluster_ids, labels], ["cluster_id", "label"]).drop_null()
        encoded = table.column("label").combine_chunks().dictionary_encode()
        label_codes = [
            self.codes.setdefault(str(label), len(self.codes)) for label in encoded.dictionary.to_pylist()
        ]
        ids = table.column("cluster_id").to_numpy()
        codes = np.array(label_codes, np.uint16)[pc.cast(encoded.indices, pa.int64()).to_numpy()]
        self.keep(*self.sampled(ids, codes))
        while self.documents_kept > MOST_KEPT:
            self.period *= 2
            parts, self.parts, self.documents_kept = self.parts, [], 0
            for part in parts:
                self.keep(*self.sampled(*part))

    def keep(self, ids: NDArray[np.uint64], codes: NDArray[np.uint16]) -> None:
        self.parts.append((ids, codes))
        self.documents_kept += len(ids)

    def sampled(
        self, ids: NDArray[np.uint64], codes: NDArray[np.uint16]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
        """Return the documents whose clusters are in the sample: ids and codes, (m,) of (n,)."""
        if self.period == 1:
            return ids, codes
        # The highest bits of a product depend on all bits of its factors.
        is_chosen = (ids * MULTIPLIER >> np.uint64(32)) % np.uint64(self.period) == 0
        return ids[is_chosen], codes[is_chosen]

    def counts(self) -> dict[int, int]:
        """Return the numbers of clusters with several labelled documents, by their numbers of different labels."""
        if not self.documents_kept:
            return {}
        ids, codes = (np.concatenate(columns) for columns in zip(*self.parts, strict=True))
        order = np.lexsort((codes, ids))
        ids, codes = ids[order], codes[order]
        is_first = np.diff(ids, prepend=~ids[:1]) != 0
        is_new = is_first | (np.diff(codes, prepend=codes[:1]) != 0)
        starts = np.flatnonzero(is_first)
        documents = np.diff(starts, append=len(ids))
        labels = np.add.reduceat(is_new.astype(np.int64), starts)[documents > 1]
        distinct, clusters = np.unique(labels, return_counts=True)
        return dict(zip(distinct.tolist(), clusters.tolist(), strict=True))
