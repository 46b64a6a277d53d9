"""Search all ingested shards of a corpus for requested documents, in this process or on a cluster."""

import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from glob import escape
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import orjson

from zyda_flows.tasks.documents.deny_list import DenyList, Request, load_deny_list, sealed, tables_named
from zyda_flows.tasks.erasure.in_passages import tables_of_shards, with_texts_in_regions
from zyda_flows.tasks.erasure.in_shards import (
    DocumentsInShards,
    Likenesses,
    Shard,
    Spread,
    ingested,
    texts_in_shard,
)
from zyda_flows.tasks.erasure.removal_request import hash_request
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.recipe.fields import DENIED, Recipe
from zyda_flows.tasks.recipe.kinds import MinHashRound
from zyda_flows.tasks.sources.small_files import PlannedFile, planned_files
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.records import digest_of

Item = TypeVar("Item")

SHARDS_AT_ONCE = 16
MOST_DOCUMENTS = 1_000_000  # that a request may match; each needs about a kilobyte in this process
OWNER = "zyda forget"  # names the list of a request in errors


def batches(items: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    return [tuple(items[start : start + size]) for start in range(0, len(items), size)]


def lists_of_corpus(recipe: Recipe) -> tuple[PlannedFile, ...]:
    """Return the deny lists beside a corpus."""
    return planned_files(DENIED, recipe.lists_of_corpus) if recipe.lists_of_corpus else ()


class ShardSearch:
    """Searches of all ingested shards.

    spread: calls a function on every item. is_on_cluster: whether it calls the function on workers. Then requests
    are written beside the corpus, with hashes in place of addresses and values, and workers read them there.
    erased: ids that are not searched. likenesses: of all documents found.
    """

    def __init__(
        self,
        recipe: Recipe,
        rounds: Sequence[MinHashRound],
        spread: Spread,
        erased: Collection[int],
        *,
        is_on_cluster: bool = False,
    ) -> None:
        self.recipe, self.rounds, self.spread, self.erased = recipe, tuple(rounds), spread, erased
        self.is_on_cluster = is_on_cluster
        self.shards = ingested(recipe.folder)
        self.likenesses: Likenesses = {}

    def denied(self, requests: Sequence[Request], listed: Sequence[Request] = ()) -> DenyList:
        """Return the requests and the listed entries in the form in which documents are compared with them."""
        if not self.is_on_cluster:
            tables = tables_named([self.recipe.folder.url], [*requests, *listed])
            return DenyList([*requests, *listed], tables=tuple(tables))
        files = self.written(requests) if requests else ()
        return load_deny_list((*files, *(lists_of_corpus(self.recipe) if listed else ())))

    def written(self, requests: Sequence[Request]) -> tuple[PlannedFile, ...]:
        """Write a list of requests to the work folder, and return it."""
        entries = [hash_request(request).model_dump(mode="json", exclude_unset=True) for request in requests]
        lines = sealed([orjson.dumps(entry).decode() for entry in entries])
        path = f"{WORK}/requested-{digest_of(lines)}.json"
        self.recipe.folder.write(path, "".join(f"{line}\n" for line in lines).encode())
        return planned_files(OWNER, (escape(f"{self.recipe.folder.url}/{path}"),))

    def over_shards(self, function: Callable[[Sequence[Shard]], Any]) -> list[Any]:
        """Call a function on batches of shards of the same source."""
        return self.spread(function, self.batches())

    def batches(self) -> list[tuple[Shard, ...]]:
        size = SHARDS_AT_ONCE if self.is_on_cluster else 1
        by_source = (list(shards) for _, shards in groupby(self.shards, lambda shard: shard.source))
        return [batch for shards in by_source for batch in batches(shards, size)]

    def find(self, denied: DenyList) -> list[tuple[Shard, Ids]]:
        """Add the documents that a deny list matches to the likenesses, without documents of earlier searches.

        Return the requested documents of each shard that has some. Raises BadInput if there are too many.
        """
        known = {*self.erased, *self.likenesses}
        folder, recipe = self.recipe.folder, self.recipe
        jobs = [
            DocumentsInShards(folder, batch[0].source, recipe, denied, self.rounds, batch)
            for batch in self.batches()
        ]
        requested = list[tuple[Shard, Ids]]()
        results = self.spread(operator.call if self.is_on_cluster else DocumentsInShards.find, jobs)
        for job, found in zip(jobs, results, strict=True):
            for match in found.shards:
                ids = [doc_id for doc_id in match.ids if doc_id not in known]
                similar = {doc_id: value for doc_id, value in match.similar.items() if doc_id not in known}
                self.likenesses |= similar | dict.fromkeys(ids)
                requested += [(job.shards[match.number], np.array(ids, np.uint64))] if ids else []
        self.expect_few()
        return requested

    def find_in_passages(self, texts: Sequence[str], *, alike: bool) -> list[tuple[Shard, Ids]]:
        """Add the documents whose repeated passages or cuts contain a text; return the new ones of each shard.

        alike: compare letters, not characters. Raises BadInput if there are too many documents.
        """
        requested = {doc_id for doc_id, likeness in self.likenesses.items() if likeness is None}
        known, folder = np.array([*self.erased, *requested], np.uint64), self.recipe.folder
        shards = tables_of_shards(folder, self.shards) if texts else []
        found = self.spread(partial(with_texts_in_regions, folder, texts, alike), shards)
        new = [(shard, np.setdiff1d(ids, known)) for shard, ids in found]
        for _, ids in new:
            self.likenesses |= dict.fromkeys(ids.tolist())
        self.expect_few()
        return [(shard, ids) for shard, ids in new if len(ids)]

    def expect_few(self) -> None:
        if len(self.likenesses) > MOST_DOCUMENTS:
            raise BadInput(
                f"{len(self.likenesses):,} documents match the request, at most {MOST_DOCUMENTS:,} at once: split "
                "the request"
            )

    def texts(self, requested: Sequence[tuple[Shard, Ids]]) -> tuple[list[str], list[int]]:
        """Return the texts of documents, each once, and the ids of documents without a stored text."""
        texts, without_text = dict[str, None](), list[int]()
        for pairs in self.spread(partial(texts_in_shard, self.recipe.folder), requested):
            texts |= dict.fromkeys(text for _, text in pairs if text)
            without_text += [doc_id for doc_id, text in pairs if not text]
        return [*texts], without_text
