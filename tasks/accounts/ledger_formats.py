"""A ledger as Markdown and as JSON."""

import json
from collections.abc import Mapping
from typing import Any

from zyda_flows.tasks.accounts.ledger import Ledger, Line, row_of
from zyda_flows.tasks.accounts.ledger_summary import token_paths
from zyda_flows.tasks.storage.counts import Counts


def as_markdown(ledger: Ledger) -> str:
    """Write the tokens of each source at the start, after the stages that removed documents, and at the end."""
    names = ["source", "start", *(f"after {stage}" for stage in ledger.stages_between), "end"]
    rows = [
        [
            token_path.source,
            *(f"{counts.tokens:,}" for counts in (token_path.start, *token_path.between, token_path.end)),
        ]
        for token_path in token_paths(ledger)
    ]
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def as_json(ledger: Ledger) -> str:
    """Write the lines as JSON, each with its removals by reason, its cleanings and its skipped records."""
    return json.dumps([row_of(line) | details_of(line) for line in ledger.lines], indent=1) + "\n"


def details_of(line: Line) -> dict[str, Any]:
    names = ("removed_by", "cleaned", "skipped", "special_tokens", "judged", "control")
    return line.model_dump(include={name for name in names if getattr(line, name)})


def reasons_as_markdown(ledger: Ledger, stage: str, sentences: Mapping[str, str]) -> str:
    """Write the removals of a stage by reason and source: documents, and their tokens in parentheses.

    sentences: an explanation of each reason; their order is the order of the rows.
    """
    taken = ledger.removed_by(stage)
    names = ["reason", *ledger.sources, "total"]
    lines = [names, ["---", *["---:"] * (len(names) - 1)]]
    order = {reason: place for place, reason in enumerate(sentences)}
    for reason in sorted(taken, key=lambda reason: order.get(reason, len(order))):
        removed = [
            ledger.removed_by(stage, source).get(reason, Counts()) for source in (*ledger.sources, None)
        ]
        cells = [
            f"{counts.documents:,} ({counts.tokens:,})" if counts.documents else "" for counts in removed
        ]
        lines.append([f"`{reason}`: {sentences.get(reason, '')}", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
