"""How many labels of a quality model the documents of a cluster have, of as many clusters as memory holds.

Labelled documents of one cluster may lie in any file. Those of all clusters are kept while they are no more than
MOST_KEPT; of more, those of every second cluster, of every fourth and so on, by a hash of the cluster's id, so that
the same corpus always gives the same sample.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MOST_KEPT = 8 << 20  # labelled documents: 560 MB while they are counted
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: products with it are spread over all numbers


@dataclass
class MixedLabels:
    """The labelled documents of a sample of the clusters: one of `one_of`, which is all of them while that is 1."""

    one_of: int = 1
    codes: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[NDArray[np.uint64], NDArray[np.uint16]]] = field(default_factory=list)
    kept: int = 0

    def add(self, cluster_ids: pa.ChunkedArray, labels: pa.ChunkedArray) -> None:
        """Take over some documents' clusters and labels, (n,) each; those without one of the two do not count."""
        table = pa.table([cluster_ids, labels], ["cluster_id", "label"]).drop_null()
        encoded = table.column("label").combine_chunks().dictionary_encode()
        own_codes = [
            self.codes.setdefault(str(label), len(self.codes)) for label in encoded.dictionary.to_pylist()
        ]
        ids = table.column("cluster_id").to_numpy()
        codes = np.array(own_codes, np.uint16)[pc.cast(encoded.indices, pa.int64()).to_numpy()]
        self.keep(*self.sampled(ids, codes))
        while self.kept > MOST_KEPT:
            self.one_of *= 2
            parts, self.parts, self.kept = self.parts, [], 0
            for part in parts:
                self.keep(*self.sampled(*part))

    def keep(self, ids: NDArray[np.uint64], codes: NDArray[np.uint16]) -> None:
        self.parts.append((ids, codes))
        self.kept += len(ids)

    def sampled(
        self, ids: NDArray[np.uint64], codes: NDArray[np.uint16]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
        """Return the documents whose clusters are in the sample: ids and codes, (n,) to (m,)."""
        if self.one_of == 1:
            return ids, codes
        # The highest bits of a product depend on all bits of its factors.
        is_chosen = (ids * ODD >> np.uint64(32)) % np.uint64(self.one_of) == 0
        return ids[is_chosen], codes[is_chosen]

    def counts(self) -> dict[int, int]:
        """Return, of the clusters with several labelled documents, how many have one label, two and so on."""
        if not self.kept:
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
