"""The account of judges: the documents of each source that a judge judged, and that its `keep` removed."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from zyda_flows.tasks.accounts.intervals import wilson
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.recipe.judges import QUALITY
from zyda_flows.tasks.storage.counts import ControlCounts, Counts
from zyda_flows.tasks.words import counted

UNITS = tuple(Counts.model_fields)
PARTS = ("judged", "not_judged", "removed")
JUDGES = pa.schema(
    [("judge", pa.string()), ("source", pa.string())]
    + [(f"{part}_{unit}", pa.int64()) for part in PARTS for unit in UNITS]
    + [("control_documents", pa.int64()), ("control_equal", pa.int64())]
    + [("control_low", pa.float64()), ("control_high", pa.float64())]
)


class JudgeAccount(NamedTuple):
    """The documents of a source that enter a judge: judged, not judged by its `only_if`, and removed afterwards.

    control: the comparison of the judge with its `only_if` on a sample; None if there was none.
    """

    judge: str
    source: str
    judged: Counts
    not_judged: Counts
    removed: Counts
    control: ControlCounts | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the share of equal decisions of the control sample."""
        control = self.control
        return wilson(control.equal, control.documents) if control and control.documents else None

    def sentence(self) -> str:
        """Return the result of the control sample; "" if there was none."""
        if self.control is None or self.interval is None:
            return ""
        low, high = self.interval
        documents, equal = self.control.documents, self.control.equal
        return (
            f"Of {counted(documents, 'document')} of {self.source}, drawn by a hash of their ids, the judge "
            f"{self.judge} alone (`{self.control.alone}`) decides {equal:,} as the recipe: "
            f"{equal / documents:.2%}, with a 95 % interval from {low:.2%} to {high:.2%}."
        )


def judge_accounts(ledger: Ledger) -> Iterator[JudgeAccount]:
    """Yield the account of each judge and source, in the order of the stages."""
    for line in ledger.lines:
        if line.judged is None:
            continue
        _, _, name = line.stage.partition("_")  # `classify` or `classify_NAME`
        removed = (
            ledger.removed(f"keep_{name}", line.source)
            if name
            else ledger.removed_by("filter", line.source).get(QUALITY, Counts())
        )
        control = next((each.control for each in ledger.lines_of(f"control_{name}", line.source)), None)
        yield JudgeAccount(
            name or QUALITY, line.source, line.judged, line.out - line.judged, removed, control
        )


def judges_table(ledger: Ledger) -> pa.Table:
    """Return the published table of judges: JUDGES."""
    return pa.Table.from_pylist([row_of(account) for account in judge_accounts(ledger)], JUDGES)


def row_of(account: JudgeAccount) -> dict[str, str | int | float]:
    row: dict[str, str | int | float] = {"judge": account.judge, "source": account.source}
    row |= {f"{part}_{unit}": getattr(getattr(account, part), unit) for part in PARTS for unit in UNITS}
    if account.control is not None:
        row |= {"control_documents": account.control.documents, "control_equal": account.control.equal}
    if account.interval is not None:
        row |= {"control_low": account.interval[0], "control_high": account.interval[1]}
    return row


HEADS = (
    "judge",
    "source",
    "documents judged",
    "not judged",
    "removed",
    "tokens judged",
    "not judged",
    "removed",
)


def judge_cells(account: JudgeAccount) -> list[str]:
    """Return a row below HEADS."""
    counts = (account.judged, account.not_judged, account.removed)
    figures = [*(each.documents for each in counts), *(each.tokens for each in counts)]
    return [account.judge, account.source, *(f"{figure:,}" for figure in figures)]


def judges_as_markdown(ledger: Ledger) -> str:
    """Return the account of judges as a table of Markdown with its title; "" without judges."""
    accounts = [*judge_accounts(ledger)]
    rows = [judge_cells(account) for account in accounts]
    if not rows:
        return ""
    lines = [HEADS, ["---", "---", *["---:"] * (len(HEADS) - 2)], *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    sentences = "".join(f"- {sentence}\n" for account in accounts if (sentence := account.sentence()))
    sentences += "\n" if sentences else ""
    title = "Documents and tokens of each judge; `removed` counts the removals by its `keep`:"
    return f"{title}\n\n{table}\n{sentences}"
