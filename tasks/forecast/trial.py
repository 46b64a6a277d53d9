"""The measurements of a trial, a build of a part of a recipe's sources."""

from dataclasses import dataclass, field
from typing import Any

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.spent import Spent
from zyda_flows.tasks.stage.cost import ModelTrial
from zyda_flows.tasks.stage.progress import count_documents_read
from zyda_flows.tasks.storage.counts import Counts


@dataclass(frozen=True)
class TrialPart:
    """A part of a piece that was ingested. weight: the bytes of its file that it represents.

    rows: the number of rows read.
    """

    weight: float
    rows: int
    documents: Counts
    shards: int
    set_aside: int
    spent: Spent


@dataclass
class Calls:
    """The calls of a stage for a source: their total cost, and the text in bytes and cost of each call."""

    spent: Spent = field(default_factory=Spent)
    sizes_and_costs: list[tuple[float, Spent]] = field(default_factory=list)

    def add(self, size: float, spent: Spent) -> None:
        self.spent += spent
        self.sizes_and_costs.append((size, spent))


@dataclass
class Trial:
    """The measurements: parts by source, calls by stage and source, and the ledger."""

    parts: dict[str, list[TrialPart]] = field(default_factory=dict)
    models: dict[str, dict[str, ModelTrial]] = field(default_factory=dict)
    calls: dict[tuple[str, str | None], Calls] = field(default_factory=dict)
    costs_outside_calls: dict[str, Spent] = field(
        default_factory=dict
    )  # the costs of each stage outside its calls
    warm_up_seconds: float = 0.0  # seconds in which a process loads libraries and compiles kernels
    ledger: Ledger | None = None

    @property
    def text(self) -> int:
        """The bytes of text that were read."""
        return sum(part.documents.bytes for parts in self.parts.values() for part in parts)

    def add_result(self, stage: str, source: str | None, result: Any, spent: Spent) -> None:
        """Add the cost of a call of a stage, or the cost of the stage outside its calls."""
        if not spent.calls:
            self.costs_outside_calls[stage] = self.costs_outside_calls.get(stage, Spent()) + spent
            return
        self.calls.setdefault((stage, source), Calls()).add(count_documents_read(result).bytes, spent)
