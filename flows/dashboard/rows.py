"""The progress of each stage of a build, and of each source in the stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect.futures import PrefectFuture

from zyda_flows.tasks.stage.results import BuildStep
from zyda_flows.tasks.storage.artifacts import Receipt
from zyda_flows.tasks.storage.counts import Counts


@dataclass
class Cell:
    """The progress of a stage with a source, or with all sources of a corpus stage.

    done, total: numbers of shards. documents_read: the counts of the finished shards. receipt: set when the stage
    is finished. shard_fractions: the finished fraction of shards that take long, by the names of the shards.
    fan_outs: the numbers of done and of all shards of each fan-out, of a stage with several.
    """

    done: int = 0
    total: int = 0
    documents_read: Counts = field(default_factory=Counts)
    receipt: Receipt | None = None
    shard_fractions: dict[str, float] = field(default_factory=dict)
    fan_outs: dict[str, tuple[int, int]] = field(default_factory=dict)

    def count(self, report: dict[str, Any]) -> None:
        """Record the counts of a report of a fan-out."""
        self.done, self.total = report["done"], report["total"]
        if not report.get("planned"):
            self.documents_read = Counts(**report["documents_read"])
            return
        self.fan_outs[report["report_id"]] = self.done, self.total
        self.done, known = map(sum, zip(*self.fan_outs.values(), strict=True))
        self.total = max(
            known, report["planned"], self.done + 1
        )  # the stage is not finished before its receipt

    @property
    def size(self) -> Counts:
        """The counts of the source; until all shards are read, an estimate from the mean of the finished shards."""
        if self.receipt:
            return self.receipt.out
        times = self.total / self.done if self.done else 1.0
        return Counts(**{unit: round(n * times) for unit, n in self.documents_read.model_dump().items()})

    def fraction(self, expected: int | None = None) -> float:
        """Return the finished fraction. expected: the bytes of text of all shards, if they are known."""
        if self.receipt or not self.total:
            return float(self.receipt is not None)
        if self.done >= self.total:
            return 1.0
        read = self.documents_read.bytes
        finished = read / expected if expected and read else self.done / self.total
        # `shard_fractions` also has finished shards: they are the entries with the largest fractions.
        under_way = sum(
            sorted(self.shard_fractions.values())[: max(0, len(self.shard_fractions) - self.done)]
        )
        return min(1.0, finished + (1 - finished) * under_way / (self.total - self.done))


@dataclass
class Row:
    """A stage over all its sources."""

    step: BuildStep
    cells: dict[str | None, Cell]
    began: float | None = None
    ended: float | None = None
    has_failed: bool = False
    is_held_up: bool = False  # because an earlier stage failed
    futures: list[PrefectFuture[Any]] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.ended is not None

    @property
    def receipts(self) -> list[Receipt]:
        return [cell.receipt for cell in self.cells.values() if cell.receipt]

    @property
    def documents_read(self) -> Counts:
        """Documents, tokens and bytes that the stage has read, in this build or in earlier builds."""
        return sum((documents_read_by(cell) for cell in self.cells.values()), Counts())

    @property
    def documents_read_now(self) -> Counts:
        """Documents, tokens and bytes of the sources that the stage has read in this build."""
        return sum((documents_read_by(cell) for cell in self.cells.values() if cell.total), Counts())

    def fraction(self, weights: dict[str | None, int], expected: Callable[[str | None], int | None]) -> float:
        """Return the finished fraction of the stage, weighted by `sizes`.

        expected: a function from a source to the bytes that the stage reads of it, or None if they are unknown.
        """
        if self.is_over:
            return 1.0
        sizes = self.sizes(weights)
        done = sum(sizes[source] * cell.fraction(expected(source)) for source, cell in self.cells.items())
        return done / max(1, sum(sizes.values()))

    def sizes(self, weights: dict[str | None, int]) -> dict[str | None, float]:
        """Return the size of each source in bytes; for a source of unknown size, the mean of the others."""
        usual = max(1.0, sum(weights.values()) / max(1, len(weights)))
        return {source: weights.get(source, usual) for source in self.cells}

    def fraction_made_now(self, weights: dict[str | None, int]) -> float:
        """Return the fraction of the stage, weighted by `sizes`, that was not finished in earlier builds."""
        sizes = self.sizes(weights)
        before = sum(sizes[source] for source, cell in self.cells.items() if cell.receipt and not cell.total)
        return 1 - before / max(1, sum(sizes.values()))

    def seconds(self, now: float) -> float:
        return 0.0 if self.began is None else (self.ended or now) - self.began


def documents_read_by(cell: Cell) -> Counts:
    if not cell.receipt:
        return cell.documents_read
    return cell.receipt.out + cell.receipt.removed + cell.receipt.cut


def weights_of(ingested: Mapping[str | None, Cell]) -> dict[str | None, int]:
    """Return the bytes of text of each source, at least 1.

    The bytes of a source of which no shard is finished are estimated from its number of shards. A source with an
    unknown number of shards is left out.
    """
    known = {source: cell.size.bytes for source, cell in ingested.items() if cell.done or cell.receipt}
    shards = sum(ingested[source].total for source in known)
    usual = sum(known.values()) / shards if shards else 1.0
    judged = {source: usual * cell.total for source, cell in ingested.items() if cell.total}
    return {source: max(1, round(size)) for source, size in (judged | known).items()}
