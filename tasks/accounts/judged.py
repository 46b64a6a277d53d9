"""The account of judges: the documents of each source that a judge judged, and those that its `keep` removed."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.recipe.judges import QUALITY
from zyda_flows.tasks.storage.counts import Counts

UNITS = tuple(Counts.model_fields)
PARTS = ("judged", "not_judged", "removed")
JUDGES = pa.schema(
    [("judge", pa.string()), ("source", pa.string())]
    + [(f"{part}_{unit}", pa.int64()) for part in PARTS for unit in UNITS]
)


class JudgeAccount(NamedTuple):
    """The documents of a source that enter a judge: judged, not judged by its `only_if`, and removed afterwards."""

    judge: str
    source: str
    judged: Counts
    not_judged: Counts
    removed: Counts


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
        yield JudgeAccount(name or QUALITY, line.source, line.judged, line.out - line.judged, removed)


def judges_table(ledger: Ledger) -> pa.Table:
    """Return the published table of judges: JUDGES."""
    rows = [
        {"judge": account.judge, "source": account.source}
        | {f"{part}_{unit}": getattr(getattr(account, part), unit) for part in PARTS for unit in UNITS}
        for account in judge_accounts(ledger)
    ]
    return pa.Table.from_pylist(rows, JUDGES)


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
    rows = [judge_cells(account) for account in judge_accounts(ledger)]
    if not rows:
        return ""
    lines = [HEADS, ["---", "---", *["---:"] * (len(HEADS) - 2)], *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"Documents and tokens of each judge; `removed` are those that its `keep` removed:\n\n{table}\n"
