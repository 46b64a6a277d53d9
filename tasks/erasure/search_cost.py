"""Estimate the cost of a search for requested documents: files, bytes and CPU time, from measured rates.

The rates are of one core of a busy machine; `python -m benchmarks.requests` measures the rate of addresses.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zyda_flows.tasks.documents.deny_list import DenyList
from zyda_flows.tasks.documents.deny_signatures import hashes_without_keys
from zyda_flows.tasks.erasure.in_shards import Shard
from zyda_flows.tasks.recipe.kinds import MinHashRound

SECONDS_OF_SHARD = 0.01  # to open it, and to read its footer
SECONDS_OF_ADDRESS, BYTES_OF_ADDRESS = 2.0e-6, 40  # of a document
SECONDS_OF_VALUE, BYTES_OF_VALUE = 0.5e-6, 20  # of a document, for each requested column
SECONDS_OF_BAND, BYTES_OF_BAND = 0.1e-6, 16  # of a document, for each band of a round
SECONDS_OF_TEXT = 8e-9  # of a byte, to read it, and to hash its letters


@dataclass(frozen=True)
class SearchCost:
    """The cost of a search. size: bytes to read. seconds: of a core. text_seconds: at most, to search for copies.

    text_size: bytes of texts to read at most, in which copies of the requested documents are searched.
    """

    files: int
    size: float
    seconds: float
    text_size: float
    text_seconds: float

    @property
    def most_seconds(self) -> float:
        return self.seconds + self.text_seconds


def search_cost(
    shards: Sequence[Shard],
    denied: DenyList,
    rounds: Sequence[MinHashRound],
    *,
    alike: bool,
    reads_texts: bool = False,
) -> SearchCost:
    """Estimate the cost of a search. alike: whether texts with the same letters and similar texts are searched.

    reads_texts: whether requested texts are compared with parts of texts.
    """
    documents = sum(shard.artifact.counts.documents for shard in shards)
    stored = sum(shard.artifact.size for shard in shards)
    text = sum(shard.artifact.counts.bytes for shard in shards)
    columns, bands = len(denied.columns), sum(dedup.bands for dedup in rounds)
    reads_texts |= bool(hashes_without_keys(denied, rounds))
    per_document = columns * SECONDS_OF_VALUE + denied.has_addresses * SECONDS_OF_ADDRESS
    bytes_per_document = 8 + columns * BYTES_OF_VALUE + denied.has_addresses * BYTES_OF_ADDRESS
    copies = documents * bands * SECONDS_OF_BAND + (text * SECONDS_OF_TEXT if alike else 0)
    return SearchCost(
        files=len(shards),
        size=stored if reads_texts else min(stored, documents * bytes_per_document),
        seconds=len(shards) * SECONDS_OF_SHARD
        + documents * per_document
        + reads_texts * text * SECONDS_OF_TEXT,
        text_size=documents * bands * BYTES_OF_BAND + (stored if alike else 0),
        text_seconds=len(shards) * SECONDS_OF_SHARD + copies,
    )
