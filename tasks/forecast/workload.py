"""The workload of a build: the cost of the stages that process every shard, extrapolated from a trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from zyda_flows.tasks.forecast.sizes import SizeEstimates
from zyda_flows.tasks.forecast.trial import Calls
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import SourceSize, shards_of
from zyda_flows.tasks.storage.folder import UPLOAD_BYTES

NOT_COUNTS = 1 << 12  # figures above this are bytes; a call has fewer files and requests
ON_STORES = ("inputs", "input_requests", "read", "written", "requests", "files")
LEAST_SPREAD = 0.1  # share of their mean; a smaller spread of sizes does not show how costs grow with size


@dataclass(frozen=True)
class TrialWorkload:
    """The workload of a build on a number of workers (see `tasks.stage.cost.Workload`)."""

    sizes: SizeEstimates
    workers: int

    @property
    def sources(self) -> Mapping[str, SourceSize]:
        return self.sizes.sources

    @property
    def tried_shards(self) -> int:
        return sum(part.shards for part in self.sizes.all_parts)

    def tried(self, name: str) -> Spent:
        return sum((calls.spent for calls in self.calls(name).values()), Spent())

    def calls(self, name: str) -> dict[str | None, Calls]:
        """Return the calls with a name in the trial, by source."""
        return {source: calls for (stage, source), calls in self.sizes.trial.calls.items() if stage == name}

    def by_shard(self, name: str) -> Spent:
        spent = sum((self.cost_of_source(name, source) for source in self.sources), Spent())
        about_corpus = self.calls(name).get(None)
        return spent + self.about_corpus(about_corpus.spent) if about_corpus else spent

    def cost_of_source(self, name: str, source: str) -> Spent:
        """Return the cost of a source's calls, from the calls for its parts; without any, from all calls."""
        tried, is_tried = self.sizes.trial.parts, source in self.sizes.trial.parts
        calls = [
            calls
            for tried_source, calls in self.calls(name).items()
            if (tried_source == source if is_tried else tried_source in tried)
        ]
        spent = sum((part.spent for part in calls), Spent())
        if not spent.calls:
            return spent
        parts = self.sizes.parts_of(source)
        by_size = self.sizes.estimates[source].bytes / max(1.0, sum(part.weight for part in parts))
        by_calls = len(self.sources[source].shards) / max(1, sum(part.shards for part in parts))
        size = by_size * sum(seen for part in calls for seen, _ in part.sizes_and_costs)
        count = spent.calls * by_calls
        grown = {figure: fit_growth.of(count, size) for figure, fit_growth in self.growths(name).items()}
        known: dict[str, Any] = {"cpu": spent.cpu * by_size, "peak": spent.peak}
        # The files of the trial are small; each is written to a store in a single request.
        grown["requests"] += count * requests_for_parts(grown["written"] / count)
        whole = {figure: round(value) for figure, value in grown.items()}
        return Spent(calls=round(count), **(whole | known))

    def about_corpus(self, tried: Spent) -> Spent:
        """Return the cost of calls for the whole corpus that read each shard once."""
        size = sum(source.bytes for source in self.sizes.estimates.values())
        by_size = size / max(1.0, sum(part.weight for part in self.sizes.all_parts))
        by_shards = shards_of(self) / max(1, self.tried_shards)
        return replace(
            tried,
            **{
                figure: round(getattr(tried, figure) * by_shards) for figure in ("calls", "requests", "files")
            },
            **{figure: round(getattr(tried, figure) * by_size) for figure in ("read", "written")},
            cpu=tried.cpu * by_size,
        )

    def growths(self, name: str) -> "dict[str, Growth]":
        """Return the growth of storage figures with the text of a call, over all sources."""
        each = [
            call for source, calls in self.calls(name).items() if source for call in calls.sizes_and_costs
        ]
        sizes = [size for size, _ in each]
        return {
            figure: fit_growth([getattr(spent, figure) for _, spent in each], sizes) for figure in ON_STORES
        }


class Growth(NamedTuple):
    """The cost of a call: a constant part, and a part for each byte of text."""

    per_call: float
    per_byte: float

    def of(self, calls: float, size: float) -> float:
        return self.per_call * calls + self.per_byte * size


def fit_growth(taken: Sequence[float], sizes: Sequence[float]) -> Growth:
    """Split costs into a constant part and a part that grows with size, by least squares; both are >= 0."""
    mean, mean_size = sum(taken) / len(taken), sum(sizes) / len(sizes)
    spread = sum((size - mean_size) ** 2 for size in sizes)
    if spread <= len(sizes) * (LEAST_SPREAD * mean_size) ** 2:
        return Growth(0.0, mean / mean_size) if mean > NOT_COUNTS and mean_size else Growth(mean, 0.0)
    together = sum((cost - mean) * (size - mean_size) for cost, size in zip(taken, sizes, strict=True))
    per_byte = min(max(0.0, together / spread), mean / mean_size)
    return Growth(mean - per_byte * mean_size, per_byte)


def requests_for_parts(size: float) -> int:
    """Return the number of requests beyond one that writing a file of this size to a store needs."""
    return 0 if size < UPLOAD_BYTES else 1 + ceil(size / UPLOAD_BYTES)
