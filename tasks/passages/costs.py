"""The cost of the search for repeated passages: jobs on shards, and on ranges of fingerprints."""

from collections.abc import Iterable
from dataclasses import replace

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import gathering_jobs
from zyda_flows.tasks.passages.search import context_parts, estimated_fingerprints
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Subject
from zyda_flows.tasks.stage.cost import StageCost, Workload
from zyda_flows.tasks.stage.shared_files import planned_groups

REPEATED = 0.1  # share of fingerprints that are repeated; 3 to 16 % of technical documentation
SHARD_JOBS = 4  # of a part, for each shard


def passages_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of all parts, with the trial's time for each byte of text."""
    assert isinstance(subject, Recipe)
    searched = [size for source, size in workload.sources.items() if not subject.source(source).exempt]
    text = round(sum(size.text * size.kept for size in searched))
    calls = shards = sum(len(size.shards) for size in searched)
    for part in subject.passages:
        anchors = estimated_fingerprints(text, part)
        calls += SHARD_JOBS * shards
        context_bits = context_parts(round(anchors * REPEATED), part).bit_length()
        for ranges in (len(Naming.for_rows(anchors).numbers), 1 << context_bits):
            calls += ranges + gathering_jobs(shards, ranges) + gathering_jobs(ranges, shards)
    for size in searched:
        calls += sum(shards > 1 for shards in planned_groups(size, subject.published_mib))
    yield StageCost(name, replace(workload.by_shard(name), calls=calls))
