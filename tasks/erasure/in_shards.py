"""Find the documents of a removal request in the ingested shards of a corpus."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.deny import IngestedColumns, denied_in_shard
from zyda_flows.tasks.documents.deny_list import DenyList
from zyda_flows.tasks.documents.deny_signatures import texts_of
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.planning.last_build import last_build
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Artifact, Manifest
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import read_record
from zyda_flows.tasks.storage.tables import ids_of, tables_of

Likenesses = dict[int, float | None]


class Shard(NamedTuple):
    """An ingested shard. columns: of its source."""

    source: str
    artifact: Artifact
    columns: pa.Schema


@dataclass(frozen=True)
class ShardDocuments:
    """The documents of a shard that a request matches.

    likenesses: by id, the similarity to a requested text; None for a requested document. texts: of the requested
    documents. without_text: ids of requested documents without a stored text.
    """

    likenesses: Likenesses
    texts: list[str]
    without_text: list[int]


def ingest_manifests(folder: Folder) -> Iterator[Manifest]:
    """Yield the ingest manifests of the published corpus, one for each source. Raises Denied if one is missing."""
    built = last_build(folder)
    for path in built.manifests if built else ():
        if path.startswith(f"{MANIFESTS}/ingest-"):
            manifest = read_record(folder, path, Manifest)
            if manifest is None:
                raise Denied(f"{folder.url}/{path} is missing; build the corpus, then repeat the request")
            yield manifest


def ingested(folder: Folder) -> list[Shard]:
    """Return the ingested shards of the published corpus. Raises Denied if a manifest is missing."""
    return [
        Shard(str(manifest.source), artifact, manifest.facts_as(IngestedColumns).schema_of_all)
        for manifest in ingest_manifests(folder)
        for artifact in manifest.artifacts
    ]


def find_in_shard(
    recipe: Recipe, denied: DenyList, rounds: Sequence[MinHashRound], known: Collection[int], shard: Shard
) -> ShardDocuments:
    """Find the documents of a shard that a request names, or that are similar to its texts.

    Skip `known` documents.
    """
    url = recipe.source(shard.source).url
    ids, alike = denied_in_shard(recipe.folder, shard.source, shard.artifact, denied, url, rounds)
    new = np.array([doc_id for doc_id in ids.tolist() if doc_id not in known], np.uint64)
    likenesses: Likenesses = {}
    for similar in alike:
        if similar.doc_id not in known:
            likenesses[similar.doc_id] = max(similar.likeness, likenesses.get(similar.doc_id) or 0)
    pairs = list[tuple[int, str]]()
    if len(new):
        stored, texts = texts_of(recipe.folder, shard.artifact, new)
        pairs = [*zip(stored.tolist(), texts.to_pylist(), strict=True)]
    return ShardDocuments(
        likenesses | dict.fromkeys(new.tolist()),
        [text for _, text in pairs if text],
        [doc_id for doc_id, text in pairs if not text],
    )


def within(folder: Folder, shard: Shard, wanted: Ids) -> Ids:
    """Return the ids of `wanted`, ascending, that are in the range of a shard's ids."""
    first, last = ids_of(folder, shard.artifact)
    return wanted[slice(*np.searchsorted(wanted, np.array([first, max(first, last + 1)], np.uint64)))]


def tokens_of(folder: Folder, wanted: Ids, shard: Shard) -> dict[int, int]:
    """Read the numbers of tokens of a shard's documents, by id. wanted: ids, ascending, (n,)."""
    ids = within(folder, shard, wanted)
    if not len(ids):
        return {}
    tables = tables_of(folder, shard.artifact, DOCUMENT_COUNTS.names)
    is_in = partial(pc.is_in, value_set=pa.array(ids))
    counts = pa.concat_tables([table.filter(is_in(table.column("doc_id"))) for table in tables])
    return dict(zip(counts.column("doc_id").to_pylist(), counts.column("n_tokens").to_pylist(), strict=True))
