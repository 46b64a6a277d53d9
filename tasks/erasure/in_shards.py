"""Find the documents of a removal request in the ingested shards of a corpus."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

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
from zyda_flows.tasks.signatures.letters import LETTERS
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import MANIFESTS, Artifact, Manifest
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, read_record
from zyda_flows.tasks.storage.tables import ids_of, tables_of

Likenesses = dict[int, float | None]
Spread = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]  # calls a function on every item


def one_by_one(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call a function on every item, in this thread."""
    return [function(item) for item in items]


class Shard(NamedTuple):
    """An ingested shard. columns: of its source."""

    source: str
    artifact: Artifact
    columns: pa.Schema


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
        Shard(str(manifest.source), artifact, columns)
        for manifest in ingest_manifests(folder)
        for columns in (manifest.facts_as(IngestedColumns).schema_of_all,)
        for artifact in manifest.artifacts
    ]


class ShardMatches(Record):
    """The documents of a shard that a request matches.

    number: of the shard in its job. ids: of requested documents. similar: the similarity of other documents to a
    requested text, by their ids.
    """

    number: int
    ids: tuple[int, ...]
    similar: dict[int, float]


class FoundDocuments(Record):
    """The matches of some shards; shards without a match are left out."""

    shards: tuple[ShardMatches, ...]


@dataclass(frozen=True)
class DocumentsInShards(RecordJob[FoundDocuments]):
    """The documents of some shards of a source that a request names, or that are similar to its texts.

    The record has ids only, so that a search that is repeated after an interruption skips finished shards.
    """

    stage, version, kind = "requested", 1, FoundDocuments

    recipe: Annotated[Recipe, NotInKey("the column with addresses is in the key")]
    denied: Annotated[DenyList, NotInKey("the digests of its files are in the key")]
    rounds: Annotated[tuple[MinHashRound, ...], NotInKey("only the parameters of their keys count")]
    shards: tuple[Shard, ...]

    @property
    def name(self) -> str:
        return self.shards[0].artifact.name

    @property
    def also_in_key(self) -> list[Any]:
        keys = [dedup.key_parameters for dedup in (*self.rounds, LETTERS)]
        return [[file.sha256 for file in self.denied.files], self.url, keys]

    @property
    def url(self) -> str:
        return self.recipe.source(str(self.source)).url

    def make(self) -> FoundDocuments:
        return self.recorded(self.find())

    def find(self) -> FoundDocuments:
        """Search the shards."""
        matches = (self.in_shard(number, shard) for number, shard in enumerate(self.shards))
        return FoundDocuments(shards=tuple(match for match in matches if match.ids or match.similar))

    def in_shard(self, number: int, shard: Shard) -> ShardMatches:
        ids, alike = denied_in_shard(
            self.recipe.folder, shard.source, shard.artifact, self.denied, self.url, self.rounds
        )
        similar = dict[int, float]()
        for document in alike:
            similar[document.doc_id] = max(document.likeness, similar.get(document.doc_id, 0))
        return ShardMatches(number=number, ids=tuple(ids.tolist()), similar=similar)


def texts_in_shard(folder: Folder, shard_ids: tuple[Shard, Ids]) -> list[tuple[int, str]]:
    """Return the ids and the texts of some documents of a shard; the text is empty if it is not stored."""
    shard, ids = shard_ids
    stored, texts = texts_of(folder, shard.artifact, ids)
    return [*zip(stored.tolist(), texts.to_pylist(), strict=True)]


def within(folder: Folder, shard: Shard, wanted: Ids) -> Ids:
    """Return the ids of `wanted`, ascending, that are in the range of a shard's ids."""
    first, last = ids_of(folder, shard.artifact)
    return wanted[slice(*np.searchsorted(wanted, np.array([first, max(first, last + 1)], np.uint64)))]


def texts_by_id(folder: Folder, wanted: Ids, shards: Sequence[Shard]) -> dict[int, str]:
    """Return the texts of documents of some shards, by id. wanted: ids, ascending, (n,)."""
    texts = dict[int, str]()
    for shard in shards:
        if len(ids := within(folder, shard, wanted)):
            texts |= dict(texts_in_shard(folder, (shard, ids)))
    return texts


def tokens_by_id(folder: Folder, wanted: Ids, shards: Sequence[Shard]) -> dict[int, int]:
    """Return the numbers of tokens of documents of some shards, by id. wanted: ids, ascending, (n,)."""
    tokens = dict[int, int]()
    for shard in shards:
        if len(ids := within(folder, shard, wanted)):
            tables = tables_of(folder, shard.artifact, DOCUMENT_COUNTS.names)
            is_in = partial(pc.is_in, value_set=pa.array(ids))
            counts = pa.concat_tables([table.filter(is_in(table.column("doc_id"))) for table in tables])
            columns = (counts.column(name).to_pylist() for name in ("doc_id", "n_tokens"))
            tokens |= dict(zip(*columns, strict=True))
    return tokens
