"""The ledger: documents, tokens and bytes of every source at every stage, and the check of them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.storage.artifacts import (
    CleaningCounts,
    Counts,
    RareCounts,
    Receipt,
    SpecialCounts,
    total,
    totals,
)
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.words import counted, in_words

LEDGER = pa.schema(
    [
        ("stage", pa.string()),
        ("source", pa.string()),
        *(
            (f"{prefix}{unit}", pa.int64())
            for prefix in ("", "removed_", "set_aside_")
            for unit in ("documents", "tokens", "bytes")
        ),
    ]
)


REASONS = pa.schema(
    [("stage", pa.string()), ("source", pa.string()), ("reason", pa.string())]
    + [(unit, pa.int64()) for unit in ("documents", "tokens", "bytes")]
)
CLEANED = pa.schema(
    [("source", pa.string()), ("cleaning", pa.string())]
    + [(unit, pa.int64()) for unit in ("documents", "characters_before", "characters_after", "replaced")]
)
MOST_TOKENS = 5  # special tokens that a sentence names
SPECIAL_TOKENS = pa.schema(
    [("source", pa.string()), ("token", pa.string()), ("documents", pa.int64()), ("occurrences", pa.int64())]
)
SKIPPED = pa.schema([("source", pa.string()), ("reason", pa.string()), ("records", pa.int64())])


class Line(RareCounts):
    """What a stage did to a source: what came out of it, and what did not.

    removed_by: the documents that were removed, by reason. cleaned: what each cleaning changed, by its name.
    skipped: records of files that are no documents, by what they are. special_tokens: those that texts hold.
    """

    stage: str
    source: str
    out: Counts
    removed: Counts
    set_aside: Counts
    removed_by: dict[str, Counts] = {}
    cleaned: dict[str, CleaningCounts] = {}

    def special_sentence(self) -> str:
        """Return how many documents hold special tokens as characters."""
        held = ", ".join(
            f"`{token}` {counted(of.occurrences, 'time')} in {counted(of.documents, 'document')}"
            for token, of in most_first(self.special_tokens)[:MOST_TOKENS]
        )
        more = ", and others; special_tokens.parquet has all" * (len(self.special_tokens) > MOST_TOKENS)
        return f"texts of {self.source} hold special tokens as characters: {held}{more}"


class Ledger(Record):
    """The lines of a corpus, by stage, then by source in the order of their rank."""

    lines: tuple[Line, ...]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        first = self.stages[0]
        return tuple(line.source for line in self.lines if line.stage == first)

    @cached_property
    def stages(self) -> tuple[str, ...]:
        """The stages that account for documents, in their order."""
        return tuple(dict.fromkeys(line.stage for line in self.lines))

    @cached_property
    def stages_between(self) -> tuple[str, ...]:
        """The stages that let documents go, but for the last of them, after which all is as at the end."""
        return tuple(stage for stage in self.stages if self.removed(stage).documents)[:-1]

    @cached_property
    def by_stage(self) -> dict[str, dict[str, Line]]:
        """The lines of each stage, by source."""
        lines_by_stage: dict[str, dict[str, Line]] = {}
        for line in self.lines:
            lines_by_stage.setdefault(line.stage, {})[line.source] = line
        return lines_by_stage

    def lines_of(self, stage: str, source: str | None) -> Iterable[Line]:
        """Return the lines of a stage, of one source or of all."""
        of_stage = self.by_stage.get(stage, {})
        if source is None:
            return of_stage.values()
        return (of_stage[source],) if source in of_stage else ()

    def of(self, stage: str, source: str | None = None) -> Counts:
        """Return what came out of a stage, of one source or of all."""
        return total(line.out for line in self.lines_of(stage, source))

    def removed(self, stage: str, source: str | None = None) -> Counts:
        return total(line.removed for line in self.lines_of(stage, source))

    def table(self) -> pa.Table:
        """Return the ledger as it is published: LEDGER."""
        return pa.Table.from_pylist([row_of(line) for line in self.lines], LEDGER)

    def removed_by(self, stage: str, source: str | None = None) -> dict[str, Counts]:
        """Return what a stage removed of one source or of all, by reason, in the order of these."""
        of_sources = (line.removed_by for line in self.lines_of(stage, source))
        return dict(sorted(totals(of_sources).items()))

    def reasons(self) -> pa.Table:
        """Return the documents that went, by stage, source and reason, as it is published: REASONS."""
        rows = [
            {"stage": line.stage, "source": line.source, "reason": reason, **counts.model_dump()}
            for line in self.lines
            for reason, counts in line.removed_by.items()
        ]
        return pa.Table.from_pylist(rows, REASONS)

    def cleaned(self) -> pa.Table:
        """Return what each cleaning changed, by source, as it is published: CLEANED."""
        rows = [
            {"source": line.source, "cleaning": name, **cleaned.model_dump()}
            for line in self.lines
            for name, cleaned in line.cleaned.items()
        ]
        return pa.Table.from_pylist(rows, CLEANED)

    def skipped(self) -> pa.Table:
        """Return how many records of files are no documents, as it is published: SKIPPED."""
        rows = [
            {"source": line.source, "reason": reason, "records": records}
            for line in self.lines
            for reason, records in sorted(line.skipped.items())
        ]
        return pa.Table.from_pylist(rows, SKIPPED)

    def special_tokens(self) -> pa.Table:
        """Return the special tokens that texts hold as characters, as it is published: SPECIAL_TOKENS."""
        rows = [
            {"source": line.source, "token": token, **counts.model_dump()}
            for line in self.lines
            for token, counts in line.special_tokens.items()
        ]
        return pa.Table.from_pylist(rows, SPECIAL_TOKENS)


def most_first(counts: Mapping[str, SpecialCounts]) -> list[tuple[str, SpecialCounts]]:
    return sorted(counts.items(), key=lambda one: (-one[1].occurrences, one[0]))


def row_of(line: Line) -> dict[str, str | int]:
    counts = {"": line.out, "removed_": line.removed, "set_aside_": line.set_aside}
    numbers = {f"{p}{unit}": n for p, counted in counts.items() for unit, n in counted.model_dump().items()}
    return {"stage": line.stage, "source": line.source, **numbers}


def make_ledger(steps: Iterable[Sequence[Receipt]]) -> Ledger:
    """Make the ledger of the receipts of each stage, in their order; the first looked at every source.

    What is left of a source that a stage did not look at passes it. Raises NotConserved where, for a source and
    stage, the documents, tokens or bytes that came in are not those that came out, were removed and were set
    aside, or not those that the stage before let out.
    """
    of_stages = [{receipt.source: receipt for receipt in step} for step in steps]
    for source in of_stages[0]:
        check_account([of_stage[source] for of_stage in of_stages if source in of_stage])
    lines, left = list[Line](), {source: receipt.out for source, receipt in of_stages[0].items()}
    for of_stage in of_stages:
        name = next(iter(of_stage.values())).stage
        lines += [
            line_of(of_stage[source]) if source in of_stage else pass_line(name, str(source), left[source])
            for source in left
        ]
        left |= {source: receipt.out for source, receipt in of_stage.items()}
    return Ledger(lines=tuple(lines))


def pass_line(stage: str, source: str, counts: Counts) -> Line:
    """Return the line of a stage that did not look at a source."""
    return Line(stage=stage, source=source, out=counts, removed=Counts(), set_aside=Counts())


def line_of(receipt: Receipt) -> Line:
    return Line(
        stage=receipt.stage,
        source=str(receipt.source),
        out=receipt.out,
        removed=receipt.removed,
        removed_by=receipt.removed_by,
        cleaned=receipt.cleaned,
        skipped=receipt.skipped,
        special_tokens=receipt.special_tokens,
        set_aside=receipt.set_aside,
    )


def check_account(receipts: Sequence[Receipt]) -> None:
    """Check the account of one source. Raises NotConserved."""
    if len({receipt.source for receipt in receipts}) > 1:
        raise NotConserved(f"one account of sources {sorted({str(receipt.source) for receipt in receipts})}")
    before = receipts[0].entering
    for receipt in receipts:
        name = f"source {receipt.source}, stage {receipt.stage}"
        if receipt.entering != before:
            raise NotConserved(f"{name}: {receipt.entering} came in, but {before} left the stage before")
        accounted = receipt.out + receipt.removed + receipt.set_aside
        if receipt.entering != accounted:
            raise NotConserved(f"{name}: {receipt.entering} came in, but {accounted} is accounted for")
        by_reason = total(receipt.removed_by.values())
        if receipt.removed_by and by_reason != receipt.removed:
            raise NotConserved(f"{name}: {receipt.removed} went, but for reasons {by_reason}")
        before = receipt.out


class TokenPath(NamedTuple):
    """What was left of a source, or of all: at the start, after each of `Ledger.stages_between`, at the end."""

    source: str
    start: Counts
    between: tuple[Counts, ...]
    end: Counts


def token_paths(ledger: Ledger) -> list[TokenPath]:
    """Return the way of each source, and that of all as `total`."""
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
    """Return a sentence for each stage that removed more than half of a source, and each source that is empty."""
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
    """Return which share a stage removed of a source, and by which of several reasons mostly, if over a half."""
    lost, remaining = ledger.removed(stage, source).tokens, ledger.of(stage, source).tokens
    if lost <= remaining:
        return None
    reasons = sorted(ledger.removed_by(stage, source).items(), key=lambda one: -one[1].tokens)
    mostly = f" (most by {reasons[0][0]})" if len(reasons) > 1 else ""
    return f"{in_words(stage)} removed {lost / (lost + remaining):.1%}", mostly
