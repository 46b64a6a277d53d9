"""The ledger: documents, tokens and bytes of every source at every stage, checked against each other."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.storage.artifacts import RareCounts, Receipt
from zyda_flows.tasks.storage.counts import CleaningCounts, Counts, SpecialCounts, total, totals
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.words import counted

LEDGER = pa.schema(
    [
        ("stage", pa.string()),
        ("source", pa.string()),
        *(
            (f"{prefix}{unit}", pa.int64())
            for prefix in ("", "removed_", "set_aside_", "cut_")
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
    """The counts of a stage for a source: documents that it kept, removed and set aside.

    cut: tokens and bytes of kept documents that it cut; no documents.
    removed_by: the removed documents, by reason. cleaned: changes by each cleaning, by its name. skipped: records
    of files that are no documents, by kind. special_tokens: special tokens that texts contain as characters.
    judged: documents that the model of the stage judged; None for other stages. control: as in RareCounts.
    """

    stage: str
    source: str
    out: Counts
    removed: Counts
    set_aside: Counts
    cut: Counts = Counts()
    removed_by: dict[str, Counts] = {}
    cleaned: dict[str, CleaningCounts] = {}

    def special_sentence(self) -> str:
        """Return how many documents contain special tokens as characters."""
        held = ", ".join(
            f"`{token}` {counted(counts.occurrences, 'time')} in {counted(counts.documents, 'document')}"
            for token, counts in most_first(self.special_tokens)[:MOST_TOKENS]
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
        """The stages that removed or cut documents, without the last of them: its result is the end."""
        changing = (s for s in self.stages if self.removed(s).documents or self.cut(s).bytes)
        return tuple(changing)[:-1]

    @cached_property
    def by_stage(self) -> dict[str, dict[str, Line]]:
        """The lines of each stage, by source."""
        lines_by_stage: dict[str, dict[str, Line]] = {}
        for line in self.lines:
            lines_by_stage.setdefault(line.stage, {})[line.source] = line
        return lines_by_stage

    def lines_of(self, stage: str, source: str | None) -> Iterable[Line]:
        """Return the lines of a stage, of a source or of all."""
        lines = self.by_stage.get(stage, {})
        if source is None:
            return lines.values()
        return (lines[source],) if source in lines else ()

    def of(self, stage: str, source: str | None = None) -> Counts:
        """Return the counts that a stage kept, for a source or for all."""
        return total(line.out for line in self.lines_of(stage, source))

    def removed(self, stage: str, source: str | None = None) -> Counts:
        return total(line.removed for line in self.lines_of(stage, source))

    def cut(self, stage: str, source: str | None = None) -> Counts:
        """Return the tokens and bytes that a stage cut from kept documents, of a source or of all."""
        return total(line.cut for line in self.lines_of(stage, source))

    def table(self) -> pa.Table:
        """Return the published table of the ledger: LEDGER."""
        return pa.Table.from_pylist([row_of(line) for line in self.lines], LEDGER)

    def removed_by(self, stage: str, source: str | None = None) -> dict[str, Counts]:
        """Return the counts that a stage removed of a source or of all, by reason, sorted."""
        sums = totals(line.removed_by for line in self.lines_of(stage, source))
        return dict(sorted(sums.items()))

    def reasons(self) -> pa.Table:
        """Return the published table of removed documents, by stage, source and reason: REASONS."""
        rows = [
            {"stage": line.stage, "source": line.source, "reason": reason, **counts.model_dump()}
            for line in self.lines
            for reason, counts in line.removed_by.items()
        ]
        return pa.Table.from_pylist(rows, REASONS)

    def cleaned(self) -> pa.Table:
        """Return the published table of changes by each cleaning, by source: CLEANED."""
        rows = [
            {"source": line.source, "cleaning": name, **cleaned.model_dump()}
            for line in self.lines
            for name, cleaned in line.cleaned.items()
        ]
        return pa.Table.from_pylist(rows, CLEANED)

    def skipped(self) -> pa.Table:
        """Return the published table of records that are no documents: SKIPPED."""
        rows = [
            {"source": line.source, "reason": reason, "records": records}
            for line in self.lines
            for reason, records in sorted(line.skipped.items())
        ]
        return pa.Table.from_pylist(rows, SKIPPED)

    def special_tokens(self) -> pa.Table:
        """Return the published table of special tokens that texts contain as characters: SPECIAL_TOKENS."""
        rows = [
            {"source": line.source, "token": token, **counts.model_dump()}
            for line in self.lines
            for token, counts in line.special_tokens.items()
        ]
        return pa.Table.from_pylist(rows, SPECIAL_TOKENS)


def most_first(counts: Mapping[str, SpecialCounts]) -> list[tuple[str, SpecialCounts]]:
    return sorted(counts.items(), key=lambda item: (-item[1].occurrences, item[0]))


def row_of(line: Line) -> dict[str, str | int]:
    counts = {"": line.out, "removed_": line.removed, "set_aside_": line.set_aside, "cut_": line.cut}
    numbers = {f"{p}{unit}": n for p, counted in counts.items() for unit, n in counted.model_dump().items()}
    return {"stage": line.stage, "source": line.source, **numbers}


def make_ledger(steps: Iterable[Sequence[Receipt]]) -> Ledger:
    """Return the ledger of the receipts of all stages, in their order. The first stage has receipts of all sources.

    A stage without a receipt for a source keeps all documents of the source. Raises NotConserved if the documents,
    tokens or bytes that entered a stage differ from the sum of its kept, removed, set aside and cut counts, or from
    the counts that the stage before kept.
    """
    receipts = [{receipt.source: receipt for receipt in step} for step in steps]
    for source in receipts[0]:
        check_account([by_source[source] for by_source in receipts if source in by_source])
    lines, remaining = list[Line](), {source: receipt.out for source, receipt in receipts[0].items()}
    for by_source in receipts:
        stage = next(iter(by_source.values())).stage
        for source, counts in remaining.items():
            receipt = by_source.get(source)
            lines.append(line_of(receipt) if receipt else pass_line(stage, str(source), counts))
        remaining |= {source: receipt.out for source, receipt in by_source.items()}
    return Ledger(lines=tuple(lines))


def pass_line(stage: str, source: str, counts: Counts) -> Line:
    """Return the line of a stage without a receipt for a source."""
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
        judged=receipt.judged,
        control=receipt.control,
        set_aside=receipt.set_aside,
        cut=receipt.cut,
    )


def check_account(receipts: Sequence[Receipt]) -> None:
    """Check the counts of a source through all stages. Raises NotConserved."""
    if len({receipt.source for receipt in receipts}) > 1:
        raise NotConserved(f"one account of sources {sorted({str(receipt.source) for receipt in receipts})}")
    before = receipts[0].entering
    for receipt in receipts:
        name = f"source {receipt.source}, stage {receipt.stage}"
        if receipt.entering != before:
            raise NotConserved(f"{name}: {receipt.entering} entered, but the stage before kept {before}")
        accounted = receipt.out + receipt.removed + receipt.set_aside + receipt.cut
        if receipt.entering != accounted:
            raise NotConserved(
                f"{name}: {receipt.entering} entered, but {accounted} were kept, removed, set aside or cut"
            )
        by_reason = total(receipt.removed_by.values())
        if receipt.removed_by and by_reason != receipt.removed:
            raise NotConserved(f"{name}: {receipt.removed} were removed, but the reasons sum to {by_reason}")
        if receipt.judged is not None and any(count < 0 for _, count in receipt.entering - receipt.judged):
            raise NotConserved(f"{name}: {receipt.entering} entered, but {receipt.judged} were judged")
        before = receipt.out
