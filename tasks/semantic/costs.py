"""The costs of the stages of semantic rounds, at the rates of docs/speed.md."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from zyda_flows.tasks.recipe.rounds import Round, Subject
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.semantic.bands import bands_for, bits_for
from zyda_flows.tasks.semantic.groups import GROUP_BYTES, PAIR_BYTES
from zyda_flows.tasks.semantic.models import proposing_model
from zyda_flows.tasks.signatures.bands import RANGE_ROWS, key_ranges
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import (
    MEMORY_OF_WORKER,
    USUALLY,
    SourceSize,
    StageCost,
    Workload,
    documents_of,
    shards_of,
)

SIGNS, PROPOSED, CONFIRMED = "signs", "proposed pairs", "confirmed pairs"  # names of fan-outs
# Seconds of a core to compute, write, read and sort a key of a band, and to compare two keys of a bucket.
SECONDS_OF_KEY, SECONDS_OF_COMPARISON = 1.5e-6, 1.5e-9
KEY_BYTES = 24
STEPS_OF_EXCHANGE = 3


def propose_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of the cheap vectors, of their keys, and of the exchange of pairs."""
    assert isinstance(subject, Round)
    assert isinstance(subject.dedup, SemanticRound)
    yield StageCost(name, workload.by_shard(name))
    documents = round(documents_of(workload))
    bits, bands = bits_for(documents), bands_for(documents, subject.dedup.semantic.proposing_cosine)
    keys, shards = documents * bands, shards_of(workload)
    compared = bands * documents**2 / 2 ** (bits + 1)
    own, ranges = workload.tried(subject.name_of(SIGNS)), bands * len(key_ranges(documents))
    spent = Spent(
        calls=shards + ranges,
        cpu=own.cpu + keys * SECONDS_OF_KEY + compared * SECONDS_OF_COMPARISON,
        peak=max(own.peak, MEMORY_OF_WORKER) + min(documents, RANGE_ROWS) * KEY_BYTES * 4,
        read=keys * KEY_BYTES,
        written=own.written + keys * KEY_BYTES,
        requests=own.requests + 8 * (shards + ranges),
        files=2 * (shards + ranges),
    )
    yield StageCost(subject.name_of(SIGNS), spent, spent.cpu)
    groups = groups_of(
        workload, lambda source: source.documents * (proposing_model(subject).dims + PAIR_BYTES)
    )
    yield exchange_cost(workload, subject.name_of(PROPOSED), groups)


def confirm_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of the strong vectors, and of the exchange of the documents of pairs."""
    yield StageCost(name, workload.by_shard(name))
    yield exchange_cost(workload, subject.name_of(CONFIRMED), groups_by_text(workload))


def exchange_cost(workload: Workload, name: str, groups: int) -> StageCost:
    """Return the cost of sending documents between groups, with as many pairs of a document as in the trial."""
    spent = replace(workload.by_shard(name), calls=STEPS_OF_EXCHANGE * groups)
    return StageCost(name, spent, spent.cpu)


def groups_cost(workload: Workload, _: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of a stage with a task for each group of confirmed pairs."""
    yield StageCost(name, replace(workload.by_shard(name), calls=groups_by_text(workload)))


def groups_by_text(workload: Workload) -> int:
    """Return the number of groups of confirmed pairs, if USUALLY of the text is in a proposed pair."""
    return groups_of(workload, lambda source: source.text * USUALLY)


def groups_of(workload: Workload, size_of: Callable[[SourceSize], float]) -> int:
    """Return the number of groups of shards, if the shards of a source have equal sizes. size_of: all of them."""
    groups, size = 0, 0.0
    for source in workload.sources.values():
        own = size_of(source) / max(1, len(source.shards))
        for _ in source.shards:
            size += own
            if not groups or size > GROUP_BYTES:
                groups, size = groups + 1, own
    return groups
