"""The costs of stages over clusters, computed from how they divide their work, at the rates of docs/speed.md."""

from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from zyda_flows.tasks.dedup.cluster_files import FILE_DOCUMENTS
from zyda_flows.tasks.dedup.forests import LAST_DOCUMENTS, STEP_DOCUMENTS
from zyda_flows.tasks.dedup.pairings import PAIRS, TEXTS
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.signatures.costs import dedup_of
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import (
    AT_MOST,
    MEMORY_OF_TASK,
    MEMORY_OF_WORKER,
    USUALLY,
    StageCost,
    Workload,
    documents_of,
    shards_of,
)

# Seconds of a core for a clustered document: to join it in one step, to join it in rounds, and to decide about it.
SECONDS_OF_CLUSTERED, SECONDS_IN_ROUNDS, SECONDS_OF_DECISION = 1.0e-6, 12.0e-6, 0.7e-6
# For an audited pair, and for each byte of its texts, measured with pairs of 150 to 50,000 bytes.
SECONDS_OF_PAIR, SECONDS_OF_COMPARED = 0.2e-3, 0.08e-6
COMPARING = ("contested", "clustered texts", "verify")  # fan-outs of `tasks.dedup.by_documents`
BYTES_OF_CLUSTERED = 43  # of memory, in the last step
REQUESTS_OF_COLUMNS = 4  # to read two columns of a shard


def clusters_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of joining clusters: in one step, in a tree, or in rounds."""
    rows, bands = round(documents_of(workload)), dedup_of(subject).key_bands
    own = workload.tried(name)

    def taken(share: float) -> Spent:
        clustered = rows * share
        edges = clustered * bands * 0.6
        steps = 1 if 2 * edges <= LAST_DOCUMENTS else ceil(2 * edges / STEP_DOCUMENTS) + 1
        seconds = SECONDS_OF_CLUSTERED if clustered <= LAST_DOCUMENTS else SECONDS_IN_ROUNDS
        return Spent(
            calls=steps,
            cpu=own.cpu + clustered * seconds,
            peak=max(own.peak, MEMORY_OF_WORKER) + round(min(clustered * BYTES_OF_CLUSTERED, MEMORY_OF_TASK)),
            read=round(edges * 16),
            written=own.written + round(clustered * 20),
            requests=own.requests + steps * 8,
            files=own.files + 2 * (steps - 1) + 2 * (cluster_files(rows) - 1),
        )

    yield StageCost(name, taken(USUALLY), taken(AT_MOST).cpu)


def decisions_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of deciding about all clusters, and of comparing texts if the round does."""
    yield decisions_of(workload, name)
    files = cluster_files(round(documents_of(workload)))
    for fan_out in map(subject.name_of, COMPARING):
        calls = workload.tried(fan_out).calls * files
        if calls:
            yield StageCost(fan_out, replace(workload.by_shard(fan_out), calls=calls))


def decisions_of(workload: Workload, name: str) -> StageCost:
    """Return the cost of deciding in as many passes as in the trial, which has one file of clusters."""
    rows, own = round(documents_of(workload)), workload.tried(name)
    files, passes = cluster_files(rows), max(1, own.calls)
    calls, clustered = passes if files == 1 else 3 * files * passes, rows * USUALLY
    spent = Spent(
        calls=calls,
        cpu=own.cpu + passes * clustered * SECONDS_OF_DECISION,
        peak=max(own.peak, MEMORY_OF_WORKER) + round(min(clustered, FILE_DOCUMENTS) * 100),
        read=round(passes * clustered * 20),
        written=own.written + round(passes * clustered * 25),
        requests=own.requests * calls // passes,
        files=own.files * calls // passes,
    )
    return StageCost(name, spent, spent.cpu + passes * rows * (AT_MOST - USUALLY) * SECONDS_OF_DECISION)


def overlap_cost(workload: Workload, _: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of counting duplicates by source: decisions for other scopes, and tokens from all shards."""
    untried = max(0, shards_of(workload) - workload.tried_shards)
    rows = round(documents_of(workload))
    cost = decisions_of(workload, name)
    yield replace(cost, spent=cost.spent + Spent(requests=REQUESTS_OF_COLUMNS * untried, read=rows * 6))


def audit_cost(workload: Workload, _: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of comparing pairs, if USUALLY are duplicates; they are chosen from all shards."""
    documents = documents_of(workload)
    size = sum(source.text for source in workload.sources.values()) / max(1.0, documents)
    seconds = SECONDS_OF_PAIR + SECONDS_OF_COMPARED * size
    pairs = min(PAIRS, USUALLY * documents)
    yield StageCost(name, replace(workload.by_shard(name), cpu=seconds * pairs))
    calls = min(shards_of(workload), ceil(2 * pairs))
    yield StageCost(TEXTS, replace(workload.by_shard(TEXTS), calls=calls))


def cluster_files(rows: int) -> int:
    """Return the number of files that hold the clusters of so many documents."""
    return max(1, ceil(rows / FILE_DOCUMENTS))
