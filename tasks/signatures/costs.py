"""The costs of stages over band keys, computed from how they divide their work, at the rates of docs/speed.md."""

from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round, Subject, rounds_of
from zyda_flows.tasks.signatures.bands import RANGE_ROWS, key_ranges
from zyda_flows.tasks.signatures.merging import GROUP_SHARDS, MERGE, groups_of
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import MEMORY_OF_WORKER, USUALLY, StageCost, Workload, documents_of

SECONDS_OF_ROW = 1.1e-6 / 8  # of a core, for a document in each of 8 bands that is merged, joined or sorted
REQUESTS_FOR_FOOTER = 2  # the size of its file, and the footer


def minhash_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of a round's signatures, and of merging the band keys of large sources."""
    yield StageCost(name, workload.by_shard(name))
    yield merge_cost(workload, dedup_of(subject), 1.0)


def edges_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of joining band keys; each worker reads every footer once."""
    spent = ranges(workload, name, dedup_of(subject), round(documents_of(workload)), USUALLY)
    footers = REQUESTS_FOR_FOOTER * key_files(workload) * min(workload.workers, spent.calls)
    yield StageCost(name, spent + Spent(requests=footers), spent.cpu)


def index_cost(workload: Workload, subject: Subject, name: str) -> Iterable[StageCost]:
    """Return the cost of sorting the band keys of kept documents, and of merging them before."""
    left, dedup = remaining(workload), dedup_of(subject)
    yield merge_cost(workload, dedup, left / max(1, round(documents_of(workload))))
    spent = ranges(workload, name, dedup, left, 1.0)
    yield StageCost(name, spent, spent.cpu)


def dedup_of(subject: Subject) -> Dedup:
    """Return the settings of a round."""
    assert isinstance(subject, Round)
    return subject.dedup


def remaining(workload: Workload) -> int:
    """Return the number of documents that rules, filters and models keep."""
    return round(sum(source.documents * source.kept for source in workload.sources.values()))


def merge_cost(workload: Workload, dedup: Dedup, kept: float) -> StageCost:
    """Return the cost of merging the band keys of large sources. kept: share of the documents that have keys."""
    spent = Spent()
    for source in workload.sources.values():
        rows = source.documents * kept * dedup.key_bands
        size = round(rows * row_bytes(dedup))
        for files, groups in levels_of(source.shards):
            calls = sum(len(group) > 1 for group in groups)
            spent += Spent(
                calls=calls, cpu=rows * SECONDS_OF_ROW, peak=2 * MEMORY_OF_WORKER, read=size, written=size,
                requests=calls * 4 + 2 * len(files) * dedup.key_bands, files=2 * calls,
            )  # fmt: skip
    return StageCost(MERGE, spent, spent.cpu)


def ranges(workload: Workload, name: str, dedup: Dedup, rows: int, written: float) -> Spent:
    """Return the cost of reading all ranges of keys. written: share of the rows that are written."""
    tried_spent, bands = workload.tried(name), dedup.key_bands
    calls, size = len(key_ranges(rows)) * bands, rows * bands * row_bytes(dedup)
    tried = max(1, tried_spent.calls)
    return Spent(
        calls=calls,
        cpu=tried_spent.cpu / tried * calls + rows * bands * SECONDS_OF_ROW,
        peak=max(tried_spent.peak, MEMORY_OF_WORKER) + round(min(rows, RANGE_ROWS) * row_bytes(dedup) * 4),
        read=size,
        written=round(size * written) + tried_spent.written // tried * calls,
        requests=calls
        * max(1, tried_spent.requests // tried + 2 * (key_files(workload) - workload.tried_shards)),
        files=calls * max(1, tried_spent.files // tried),
    )


def published_key_files(workload: Workload, recipe: Recipe) -> int:
    """Return the number of files of band keys that are published."""
    ranges_of_band = len(key_ranges(remaining(workload)))
    return sum(ranges_of_band * each.dedup.key_bands for each in rounds_of(recipe)) * recipe.publish_bands


def largest_merged(workload: Workload, recipe: Recipe) -> float:
    """Return the bytes of the largest file of merged band keys."""
    document_bytes = max(dedup.key_bands * row_bytes(dedup) for dedup in recipe.rounds)

    def merged(documents: float, shards: int) -> float:
        together = 1
        while shards > together * GROUP_SHARDS:
            together *= GROUP_SHARDS
        return documents * min(1.0, together / max(1, shards)) * document_bytes

    return max(merged(source.documents, len(source.shards)) for source in workload.sources.values())


def row_bytes(dedup: Dedup) -> int:
    """Return the bytes of a row of band keys on storage: a key and an id."""
    return 24 if dedup.is_wide else 16


def key_files(workload: Workload) -> int:
    """Return the number of files in which the band keys of a round are read."""
    return sum(files_after_merging(source.shards) for source in workload.sources.values())


def files_after_merging(shards: Sequence[str]) -> int:
    """Return the number of files that hold the band keys of a source's shards."""
    last = len(shards)
    for _, groups in levels_of(shards):
        last = len(groups)
    return last


def levels_of(shards: Sequence[str]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield, for each level of merging, the files of band keys and the groups in which they are merged."""
    level, files = 1, [cast(Any, SimpleNamespace(name=shard)) for shard in shards]
    while len(files) > GROUP_SHARDS:
        groups = groups_of(files, level)
        yield files, groups
        files = [group[0] for group in groups]
        level += 1
