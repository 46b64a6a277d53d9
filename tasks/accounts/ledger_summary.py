"""Summarise a ledger: the tokens of each source through the stages, and large losses."""

from typing import NamedTuple

from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.words import in_words


class TokenPath(NamedTuple):
    """The counts of a source, or of all: at the start, after each of `Ledger.stages_between`, and at the end."""

    source: str
    start: Counts
    between: tuple[Counts, ...]
    end: Counts


def token_paths(ledger: Ledger) -> list[TokenPath]:
    """Return the path of each source, and the path of all sources as `total`."""
    first, *_, last = ledger.stages
    return [
        TokenPath(
            source or "total",
            ledger.of(first, source),
            tuple(ledger.of(stage, source) for stage in ledger.stages_between),
            ledger.of(last, source),
        )
        for source in (*ledger.sources, None)
    ]


def large_losses(ledger: Ledger) -> list[str]:
    """Return a sentence for each stage that removed or cut more than half of a source, and each empty source."""
    sentences = list[str]()
    first, *_, last = ledger.stages
    for source in ledger.sources:
        losses = [loss for stage in ledger.stages if (loss := large_loss(ledger, stage, source))]
        if ledger.of(first, source).documents and not ledger.of(last, source).documents:
            why = ", ".join(f"{removed} of its tokens{mostly}" for removed, mostly in losses)
            sentences.append(f"nothing is left of source {source}{why and f': {why}'}")
        else:
            sentences += [f"{removed} of the tokens of source {source}{mostly}" for removed, mostly in losses]
    return sentences


def large_loss(ledger: Ledger, stage: str, source: str) -> tuple[str, str] | None:
    """Return the share of a source that a stage removed and the main reason; None if it removed at most half."""
    cut = ledger.cut(stage, source).tokens
    lost = ledger.removed(stage, source).tokens + cut
    remaining = ledger.of(stage, source).tokens
    if lost <= remaining:
        return None
    reasons = sorted(ledger.removed_by(stage, source).items(), key=lambda item: -item[1].tokens)
    mostly = f" (most by {reasons[0][0]})" if len(reasons) > 1 else ""
    verb = "removed or cut" if cut else "removed"
    return f"{in_words(stage)} {verb} {lost / (lost + remaining):.1%}", mostly
