"""Likeness: the exact similarity of the two texts of a pair, and the distance of their buckets, for an audit.

Rows out: AUDIT, a row for each removed document with the most similar kept document of its cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from rapidfuzz.distance import Indel, Levenshtein

from zyda_flows.tasks.dedup.pairings import Pairing
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.signatures.keys import band_keys
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import read_table
from zyda_flows.textkernels.sets import overlaps

EDITED = 10_000  # characters of each text that the edit similarities compare
AUDIT = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("kept_doc_id", pa.uint64()),
        ("source", pa.string()),
        ("jaccard", pa.float32()),  # of the recipe's shingles
        ("containment", pa.float32()),  # the share of its shingles that the kept document contains
        ("edit", pa.float32()),  # 1 - insertions and deletions / characters of both
        ("levenshtein", pa.float32()),  # 1 - edits, also replacements, / characters of the longer text
        ("characters", pa.int32()),
        ("kept_characters", pa.int32()),
        ("buckets", pa.int16()),  # number of shared buckets
        ("steps", pa.int16()),  # buckets in the shortest chain between them; null in a large cluster
    ]
)


@dataclass(frozen=True)
class ComparedPairs:
    """Some pairings, whose texts are read and compared: AUDIT."""

    folder: Folder
    dedup: MinHashRound
    pairings: tuple[Pairing, ...]
    texts: tuple[Artifact, ...]

    def __call__(self) -> pa.Table:
        is_wanted = pc.field("doc_id").isin(pa.array(ids_in(self.pairings)))
        tables = [read_table(self.folder, shard).filter(is_wanted) for shard in self.texts]
        table = pa.concat_tables(tables)
        table = table.sort_by("doc_id").combine_chunks()
        return compare_texts(self.pairings, table, self.dedup)


def compare_texts(pairings: Sequence[Pairing], texts: pa.Table, dedup: MinHashRound) -> pa.Table:
    """Compare each removed document with the kept documents. texts: `doc_id`, `text` of all, by doc_id."""
    places = {doc_id: i for i, doc_id in enumerate(texts.column("doc_id").to_pylist())}
    column = texts.column("text").combine_chunks()
    keys, has_keys = band_keys(column, dedup)
    rows = list[dict[str, Any]]()
    for pairing in pairings:
        place, kept = places[pairing.doc_id], [places[i] for i in pairing.kept]
        # Two texts at a time, because shingles take eight times as much memory as their text.
        likenesses = [likeness(column.take(pa.array([place, other])), dedup) for other in kept]
        # By the measure of the recipe; of equally similar documents the first, which is the most preferred.
        best = int(np.argmax([similarity[dedup.measure] for similarity in likenesses]))
        text, other = column[place].as_py(), column[kept[best]].as_py()
        shared = keys[place] == keys[kept[best]] if has_keys[place] and has_keys[kept[best]] else np.zeros(1)
        members = [places[i] for i in pairing.members]
        rows.append(
            {
                "doc_id": pairing.doc_id,
                "kept_doc_id": pairing.kept[best],
                "source": pairing.source,
                **likenesses[best],
                "edit": Indel.normalized_similarity(text[:EDITED], other[:EDITED]),
                "levenshtein": Levenshtein.normalized_similarity(text[:EDITED], other[:EDITED]),
                "characters": len(text),
                "kept_characters": len(other),
                "buckets": int(shared.sum()),
                "steps": steps_between(keys[members], members.index(place), members.index(kept[best]))
                if members
                else (1 if shared.any() else None),
            }
        )
    return pa.Table.from_pylist(rows, AUDIT)


def likeness(two: pa.LargeStringArray, dedup: MinHashRound) -> dict[str, float]:
    """Return the Jaccard similarity of two texts, and the share of the first text's shingles in the second."""
    hashes, ends = shingle_sets(two, dedup)
    first, second = np.diff(ends).tolist()
    both = int(overlaps(hashes, ends, np.array([0]), np.array([1]))[0])
    return {"jaccard": both / max(1, first + second - both), "containment": both / max(1, first)}


def steps_between(keys: NDArray[np.uint64], start: int, end: int) -> int | None:
    """Return the number of buckets in the shortest chain between two documents, or None. keys: (n, bands)."""
    shares = (keys[:, None, :] == keys[None, :, :]).any(axis=2)
    reached, steps = np.arange(len(keys)) == start, 0
    while not reached[end]:
        extended = reached | shares[reached].any(axis=0)
        if (extended == reached).all():
            return None
        reached, steps = extended, steps + 1
    return steps


def ids_in(pairings: Sequence[Pairing]) -> Ids:
    """Return the documents whose texts some pairings need: (n,), ascending."""
    return np.array(sorted({i for p in pairings for i in (p.doc_id, *p.kept, *p.members)}), np.uint64)
