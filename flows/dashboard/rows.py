"""What is known of each stage of a build, and of each source in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect.futures import PrefectFuture

from zyda_flows.tasks.stage.results import BuildStep
from zyda_flows.tasks.storage.artifacts import Counts, Receipt


@dataclass
class Cell:
    """A stage of a source, or of all: shards and what has been read of them, until its receipt is there."""

    done: int = 0
    total: int = 0
    seen: Counts = field(default_factory=Counts)
    receipt: Receipt | None = None
    inside: dict[str, float] = field(
        default_factory=dict
    )  # how far shards are that take long, by their names

    @property
    def size(self) -> Counts:
        """What its source has: as far as it has been read, and as much in each shard that is to come."""
        if self.receipt:
            return self.receipt.out
        times = self.total / self.done if self.done else 1.0
        return Counts(**{unit: round(n * times) for unit, n in self.seen.model_dump().items()})

    def fraction(self, expected: int | None = None) -> float:
        """Return how much of it is done. expected: the bytes of text of all its shards, where they are known."""
        if self.receipt or not self.total:
            return float(self.receipt is not None)
        if self.done >= self.total:
            return 1.0
        of_done = self.seen.bytes / expected if expected and self.seen.bytes else self.done / self.total
        # As many of them as are done are those that had come farthest; each may be as large as another.
        under_way = sum(sorted(self.inside.values())[: max(0, len(self.inside) - self.done)])
        return min(1.0, of_done + (1 - of_done) * under_way / (self.total - self.done))


@dataclass
class Row:
    """A stage over all its sources."""

    step: BuildStep
    cells: dict[str | None, Cell]
    began: float | None = None
    ended: float | None = None
    has_failed: bool = False
    is_held_up: bool = False  # by what a stage before it raised
    futures: list[PrefectFuture[Any]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.ended is not None

    @property
    def receipts(self) -> list[Receipt]:
        return [cell.receipt for cell in self.cells.values() if cell.receipt]

    @property
    def seen(self) -> Counts:
        """Documents, tokens and bytes that the stage has looked at, in this build or before."""
        return sum((documents_entering(cell) for cell in self.cells.values()), Counts())

    @property
    def looked_at_now(self) -> Counts:
        """Those of the sources at which it looked in this build."""
        return sum((documents_entering(cell) for cell in self.cells.values() if cell.total), Counts())

    def fraction(self, weights: dict[str | None, int], expected: Callable[[str | None], int | None]) -> float:
        """Return how much of the stage is done, by the size of the sources; of which it is not known, the mean.

        expected: the bytes that it looks at of a source, where they are known.
        """
        if self.is_over:
            return 1.0
        sizes = self.sizes(weights)
        done = sum(sizes[source] * cell.fraction(expected(source)) for source, cell in self.cells.items())
        return done / max(1, sum(sizes.values()))

    def sizes(self, weights: dict[str | None, int]) -> dict[str | None, float]:
        """Return the size of each source; of which it is not known, the mean."""
        usual = max(1.0, sum(weights.values()) / max(1, len(weights)))
        return {source: weights.get(source, usual) for source in self.cells}

    def made_now(self, weights: dict[str | None, int]) -> float:
        """Return the part of the stage, by the size of the sources, that was not there before this build."""
        sizes = self.sizes(weights)
        before = sum(sizes[source] for source, cell in self.cells.items() if cell.receipt and not cell.total)
        return 1 - before / max(1, sum(sizes.values()))

    def seconds(self, now: float) -> float:
        return 0.0 if self.began is None else (self.ended or now) - self.began


def documents_entering(cell: Cell) -> Counts:
    if not cell.receipt:
        return cell.seen
    return cell.receipt.out + cell.receipt.removed


def weights_of(ingested: Mapping[str | None, Cell]) -> dict[str | None, int]:
    """Return the bytes of text of each source, 1 at least, as far as they or its shards are known."""
    known = {source: cell.size.bytes for source, cell in ingested.items() if cell.done or cell.receipt}
    shards = sum(ingested[source].total for source in known)
    usual = sum(known.values()) / shards if shards else 1.0
    judged = {source: usual * cell.total for source, cell in ingested.items() if cell.total}
    return {source: max(1, round(size)) for source, size in (judged | known).items()}
