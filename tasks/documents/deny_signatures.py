"""Texts with the same words as a text on a deny list, and texts that are similar to it.

Texts with the same words are identified by a hash of letters (`tasks.signatures.letters`).

The text on the list must not be stored for a comparison, so similarity is estimated: the share of equal values of
two MinHash signatures of n values differs from the Jaccard similarity J by a standard error of sqrt(J (1 - J) / n).
A candidate shares a bucket with the request in a round of the recipe. It matches if J is LIKENESS or more, or if it
contains that share of the text: for a text with a shingles, a page with b shingles contains the share J (a + b) /
(a (1 + J)). Below LEAST_JACCARD, for pages of more than three times the length, the share is not estimated, because
its error is too large.
"""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.deny_list import DenyList, Request, Signature, lists_of, load_deny_list
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.kinds import ExactRound, MinHashRound
from zyda_flows.tasks.signatures.bands import ALL_KEYS, read_range
from zyda_flows.tasks.signatures.keys import VERSION, signatures
from zyda_flows.tasks.signatures.letters import LETTERS, key_of_hash, letter_hash
from zyda_flows.tasks.signatures.lookup import collisions
from zyda_flows.tasks.signatures.minhash import KeysOfRounds, KeysOfShard
from zyda_flows.tasks.signatures.shingles import shingle_sets
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import open_table, parts_of
from zyda_flows.textkernels import sketch

LIKENESS = 0.8
LEAST_JACCARD = 1 / 3  # below it the part of a text that a page has is uncertain by more than 0.1
PAIRS_AT_ONCE = 1 << 14  # of signatures: 32 MiB of those of 128 values


@dataclass(frozen=True)
class TextMatch:
    """A document with the text of a request, or with a similar text. sha256: of the requested text."""

    doc_id: int
    sha256: str
    likeness: float
    is_same: bool


def signature_parameters(dedup: MinHashRound) -> dict[str, Any]:
    """Return the parameters of a signature. Its division into bands does not matter."""
    return {"version": VERSION, "values": dedup.values, **dedup.shingle_parameters}


def standard_error(values: int, likeness: float = LIKENESS) -> float:
    """Return the standard error of a similarity that signatures with this number of values estimate."""
    return sqrt(likeness * (1 - likeness) / values)


def rounds_with_signatures(rounds: Sequence[Dedup]) -> tuple[MinHashRound, ...]:
    """Return the rounds by whose keys similar texts are identified, each kind of signatures once.

    This is the default MinHash round if near-duplicates are identified by other rounds only (`semantic`).
    """
    rounds_by_digest = {
        digest_of(signature_parameters(dedup)): dedup for dedup in rounds if isinstance(dedup, MinHashRound)
    }
    is_exact = all(isinstance(dedup, ExactRound) for dedup in rounds)
    return tuple(rounds_by_digest.values()) or (() if is_exact else (MinHashRound(),))


def requests_of_texts(
    texts: Sequence[str], rounds: Sequence[MinHashRound], *, alike: bool = True
) -> list[Request]:
    """Return the requests for texts; for short texts by hashes alone.

    alike: whether to match texts with the same words and similar texts, too.
    """
    requests = list[Request]()
    arrays = pa.array(texts, pa.large_string())
    sketches = [(signatures(arrays, dedup), shingle_counts(arrays, dedup)) for dedup in rounds]
    only = {} if alike else {"only_itself": True}
    for number, text in enumerate(texts):
        digest = sha256(text.encode()).hexdigest()
        signed = [
            Signature(
                parameters=signature_parameters(dedup),
                values=b64encode(dedup_round[number].astype("<u8").tobytes()).decode(),
                **({"shingles": int(counts[number])} if alike else {}),
            )
            for dedup, (dedup_round, counts) in zip(rounds, sketches, strict=True)
            if dedup_round[number, 0] != sketch.EMPTY
        ]
        letters = letter_hash(text) if alike else None
        requests += [Request(text_sha256=digest, signature=signature, **only) for signature in signed]
        requests += [Request(letters_sha256=letters)] if letters else []
        requests += [] if signed or letters else [Request(text_sha256=digest)]
    return requests


def shingle_counts(texts: pa.LargeStringArray, dedup: MinHashRound) -> NDArray[np.int64]:
    """Return the number of different shingles of each text: (n,) int64."""
    return np.diff(shingle_sets(texts, dedup)[1])


def hashes_without_keys(denied: DenyList, rounds: Sequence[MinHashRound]) -> set[str]:
    """Return the hashes of texts that no round identifies by signatures; they are compared with all texts."""
    known_kinds = {digest_of(signature_parameters(dedup)) for dedup in rounds}
    unknown = [hashes for kind, hashes in denied.signed.items() if kind not in known_kinds]
    return denied.text_hashes.union(*unknown)


def same_letters_in_shard(
    folder: Folder, source: str, shard: Artifact, denied: DenyList
) -> NDArray[np.uint64]:
    """Return the ids of the documents of a shard with the letters of a listed text: (n,)."""
    if not denied.letter_hashes:
        return np.empty(0, np.uint64)
    keys, doc_ids = read_range(folder, [letters_job(folder, source, shard)()], 0, ALL_KEYS)
    wanted = np.stack([key_of_hash(digest) for digest in denied.letter_hashes])
    places = np.flatnonzero(np.isin(keys[:, 0], wanted[:, 0]))
    pairs = {(upper, lower) for upper, lower in wanted.tolist()}
    return doc_ids[[place for place in places.tolist() if tuple(keys[place].tolist()) in pairs]]


def letters_job(folder: Folder, source: str, shard: Artifact) -> KeysOfShard:
    """Return the job that computes the keys of letters of a shard."""
    return KeysOfShard(folder, source, shard, LETTERS)


class LettersOfShard:
    """The keys of letters of a shard: a companion of ingest for recipes whose deny lists have hashes of letters."""

    @classmethod
    def for_source(cls, recipe: Recipe, source: str) -> "partial[KeysOfRounds]":
        """Return the function that starts the keys of letters of a shard."""
        has_letters = bool(recipe.deny_lists) and bool(load_deny_list(lists_of(recipe)).letter_hashes)
        return partial(KeysOfRounds, (LETTERS,) if has_letters else ())


def matches_in_shard(
    folder: Folder, source: str, shard: Artifact, denied: DenyList, rounds: Sequence[MinHashRound]
) -> Iterator[TextMatch]:
    """Yield the documents of a shard whose texts match signatures of the lists."""
    for dedup in rounds:
        if (kind := digest_of(signature_parameters(dedup))) in denied.signed:
            for match in matches_in_round(folder, source, shard, denied, kind, dedup):
                if match.is_same or match.sha256 not in denied.only_themselves:
                    yield match


def matches_in_round(
    folder: Folder, source: str, shard: Artifact, denied: DenyList, kind: str, dedup: MinHashRound
) -> Iterator[TextMatch]:
    """Yield the documents of a shard that match signatures, by a round's keys. kind: of the signatures."""
    hashes, sketches, counts = denied.sketches(kind)
    pairs = pairs_sharing_a_bucket(folder, source, shard, sketches, dedup)
    if not len(pairs):
        return
    ids, texts = texts_of(folder, shard, np.unique(pairs[:, 0]))
    own, own_counts = signatures(texts, dedup), shingle_counts(texts, dedup)
    digests = [sha256(text.encode()).hexdigest() for text in texts.to_pylist()]
    for start in range(0, len(pairs), PAIRS_AT_ONCE):
        batch = pairs[start : start + PAIRS_AT_ONCE]
        places, requested = np.searchsorted(ids, batch[:, 0]), batch[:, 1].astype(np.int64)
        similar = (own[places] == sketches[requested]).mean(axis=1)
        likenesses = np.maximum(similar, shares_contained(similar, counts[requested], own_counts[places]))
        for place, request, likeness in zip(
            places.tolist(), requested.tolist(), likenesses.tolist(), strict=True
        ):
            is_same = digests[place] == hashes[request]
            if is_same or likeness >= LIKENESS:
                yield TextMatch(int(ids[place]), hashes[request], likeness, is_same)


def pairs_sharing_a_bucket(
    folder: Folder, source: str, shard: Artifact, sketches: NDArray[np.uint64], dedup: MinHashRound
) -> NDArray[np.uint64]:
    """Return pairs that share a bucket, (p, 2): a document id and a sketch's number. sketches: (n, values)."""
    keys: NDArray[np.uint64] = sketch.band_keys(sketches, bands=dedup.bands)
    numbers = np.arange(len(sketches), dtype=np.uint64)
    keys_of_shard = KeysOfShard(folder, source, shard, dedup)()
    pairs = [np.empty((0, 2), np.uint64)]
    for band in range(dedup.bands):
        shard_keys, doc_ids = read_range(folder, [keys_of_shard], band, ALL_KEYS)
        order = np.argsort(keys[:, band], kind="stable")
        ids, requests = collisions(shard_keys, doc_ids, keys[order, band], numbers[order])
        pairs.append(np.stack([ids, requests], axis=1))
    return np.unique(np.concatenate(pairs), axis=0)


def shares_contained(
    similar: NDArray[np.float64], requested: NDArray[np.int64], own: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Estimate the share of each text that a page contains, by their Jaccard similarity: (n,), at most 1.

    requested: the number of shingles of the text, 0 if unknown; then the share is 0. own: the number of shingles of
    the page.
    """
    shares = np.minimum(1, similar * (requested + own) / (np.maximum(1, requested) * (1 + similar)))
    return np.where((requested > 0) & (similar >= LEAST_JACCARD), shares, 0)


def texts_of(
    folder: Folder, shard: Artifact, wanted: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], pa.LargeStringArray]:
    """Return the ids of some documents of a shard, ascending, and their texts, (n,)."""
    tables = list[pa.Table]()
    with open_table(folder, shard) as parquet:
        for table in parts_of(parquet, ["doc_id", "text"]):
            tables.append(table.filter(pc.is_in(table.column("doc_id"), pa.array(wanted))))
    found = pa.concat_tables(tables)
    return found.column("doc_id").to_numpy(), as_one_array(found.column("text"))
