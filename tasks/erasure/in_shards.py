"""The shards that ingest stored for a corpus, and the documents in each that a request is about."""

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
    """A shard that ingest stored, of a source with some columns."""

    source: str
    artifact: Artifact
    columns: pa.Schema


@dataclass(frozen=True)
class ShardDocuments:
    """The documents of a shard that a request is about.

    likenesses: by their ids, None where a document is one itself. texts: of these. without_text: the ids of those
    of which no text is stored.
    """

    likenesses: Likenesses
    texts: list[str]
    without_text: list[int]


def ingest_manifests(folder: Folder) -> Iterator[Manifest]:
    """Yield the manifests of ingest, of each source, by which a corpus was published. Raises Denied."""
    built = last_build(folder)
    for path in built.manifests if built else ():
        if path.startswith(f"{MANIFESTS}/ingest-"):
            manifest = read_record(folder, path, Manifest)
            if manifest is None:
                raise Denied(f"{folder.url}/{path} is gone; build the corpus, then ask again")
            yield manifest


def ingested(folder: Folder) -> list[Shard]:
    """Return the shards that ingest stored for the published corpus. Raises Denied."""
    return [
        Shard(str(manifest.source), artifact, manifest.facts_as(IngestedColumns).schema_of_all)
        for manifest in ingest_manifests(folder)
        for artifact in manifest.artifacts
    ]


def find_in_shard(
    recipe: Recipe, denied: DenyList, rounds: Sequence[MinHashRound], known: Collection[int], shard: Shard
) -> ShardDocuments:
    """Find the documents of a shard that a request names, and those like its texts; known ones are left out."""
    url = recipe.source(shard.source).url
    ids, alike = denied_in_shard(recipe.folder, shard.source, shard.artifact, denied, url, rounds)
    new = np.array([doc_id for doc_id in ids.tolist() if doc_id not in known], np.uint64)
    likenesses: Likenesses = {}
    for one in alike:
        if one.doc_id not in known:
            likenesses[one.doc_id] = max(one.likeness, likenesses.get(one.doc_id) or 0)
    found, texts = (
        texts_of(recipe.folder, shard.artifact, new) if len(new) else (new, pa.array([], pa.string()))
    )
    pairs = [*zip(found.tolist(), texts.to_pylist(), strict=True)]
    return ShardDocuments(
        likenesses | dict.fromkeys(new.tolist()),
        [text for _, text in pairs if text],
        [doc_id for doc_id, text in pairs if not text],
    )


def within(folder: Folder, shard: Shard, wanted: Ids) -> Ids:
    """Return those of some ids, ascending, that a shard may have."""
    first, last = ids_of(folder, shard.artifact)
    return wanted[slice(*np.searchsorted(wanted, np.array([first, max(first, last + 1)], np.uint64)))]


def tokens_of(folder: Folder, wanted: Ids, shard: Shard) -> dict[int, int]:
    """Read how many tokens some documents of a shard have. wanted: ids, ascending, (n,)."""
    ids = within(folder, shard, wanted)
    if not len(ids):
        return {}
    tables = tables_of(folder, shard.artifact, DOCUMENT_COUNTS.names)
    is_in = partial(pc.is_in, value_set=pa.array(ids))
    found = pa.concat_tables([table.filter(is_in(table.column("doc_id"))) for table in tables])
    return dict(zip(found.column("doc_id").to_pylist(), found.column("n_tokens").to_pylist(), strict=True))
