"""Ranks of documents: the most preferred document with a passage keeps its copy.

By default source, file and row decide, whose numbers are the ranks. Otherwise contexts have the columns RANKED of
their best document, so that documents of several shards are ordered by the values of `prefer`.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.contested import columns_in
from zyda_flows.tasks.dedup.preference import KINDS, PLACES, Preference, ordered
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import tables_of


def ranked_columns(part: PassagePart) -> list[pa.Field]:
    """Return the columns by which contexts of several shards are ordered; none if `rank` is enough."""
    if part.is_by_source:
        return []
    entries = [entry for entry in part.preference if entry != "source"]
    return [*PLACES, *(pa.field(f"{kind} {entry}", KINDS[kind]) for entry in entries for kind in KINDS)]


def documents_ranked(folder: Folder, shard: Artifact, order: Preference) -> pa.Table:
    """Return `doc_id`, the columns of `ranked_columns` and the rank in the shard of its documents, by doc_id."""
    tables = list[pa.Table]()
    for table in tables_of(folder, shard, columns_in(folder, shard, ["doc_id", *order.columns])):
        rows, places = order.values(table), order.places(table.column("doc_id").to_numpy())
        for name in ("doc_id", *places.column_names):
            rows = rows.append_column(name, (table if name == "doc_id" else places).column(name))
        tables.append(rows)
    rows = pa.concat_tables(tables)
    return rows.append_column("rank", pa.array(inverse(ordered(rows, order.prefer))))


def ranks_of(contexts: pa.Table, part: PassagePart) -> Ids:
    """Return the ranks of the best documents of contexts, which can be compared among them: (n,)."""
    if part.is_by_source:
        return np.asarray(contexts.column("rank").to_numpy())
    _, firsts, numbers = np.unique(
        contexts.column("doc_id").to_numpy(), return_index=True, return_inverse=True
    )
    names = [field.name for field in ranked_columns(part)]
    documents = contexts.select(names).take(pa.array(firsts))
    return inverse(ordered(documents, part.preference))[numbers]


def inverse(order: NDArray[np.int64]) -> Ids:
    """Return the place of each index in an order: (n,)."""
    places = np.empty(len(order), np.uint64)
    places[order] = np.arange(len(order), dtype=np.uint64)
    return places
