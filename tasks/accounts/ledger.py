"""The ledger: documents, tokens and bytes of every source at every stage, and the check of them."""

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tasks.errors import NotConserved
from tasks.storage.artifacts import Counts, Receipt, total
from tasks.storage.records import Record

DEDUPLICATED = "removals"  # the stage after which a table shows what deduplication left
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


class Line(Record):
    """What a stage did to a source: what came out of it, and what did not."""

    stage: str
    source: str
    out: Counts
    removed: Counts
    set_aside: Counts


class Ledger(Record):
    """The lines of a corpus, by stage, then by source in the order of their rank."""

    lines: tuple[Line, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(line.source for line in self.lines if line.stage == self.stages[0])

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that account for documents, in their order."""
        return tuple(dict.fromkeys(line.stage for line in self.lines))

    def of(self, stage: str, source: str | None = None) -> Counts:
        """Return what came out of a stage, of one source or of all."""
        return total(line.out for line in self.lines if line.stage == stage and source in (None, line.source))

    def removed(self, stage: str, source: str | None = None) -> Counts:
        return total(
            line.removed for line in self.lines if line.stage == stage and source in (None, line.source)
        )

    def table(self) -> pa.Table:
        """Return the ledger as it is published: LEDGER."""
        return pa.Table.from_pylist([row_of(line) for line in self.lines], LEDGER)


def row_of(line: Line) -> dict[str, str | int]:
    counts = {"": line.out, "removed_": line.removed, "set_aside_": line.set_aside}
    numbers = {f"{p}{unit}": n for p, counted in counts.items() for unit, n in counted.model_dump().items()}
    return {"stage": line.stage, "source": line.source, **numbers}


def make_ledger(receipts: Iterable[Sequence[Receipt]]) -> Ledger:
    """Make the ledger of the receipts of each source, in the order of the stages.

    Raises NotConserved where, for a source and stage, the documents, tokens or bytes that came in
    are not those that came out, were removed and were set aside, or not those that the stage before
    let out.
    """
    per_source = [list(of_source) for of_source in receipts]
    for of_source in per_source:
        check(of_source)
    stages = zip(*per_source, strict=True)
    return Ledger(lines=tuple(line_of(done) for stage in stages for done in stage))


def line_of(done: Receipt) -> Line:
    return Line(
        stage=done.stage,
        source=str(done.source),
        out=done.out,
        removed=done.removed,
        set_aside=done.set_aside,
    )


def check(receipts: Sequence[Receipt]) -> None:
    """Check the account of one source. Raises NotConserved."""
    if len({done.source for done in receipts}) > 1:
        raise NotConserved(f"one account of sources {sorted({str(done.source) for done in receipts})}")
    before = receipts[0].entering
    for done in receipts:
        name = f"source {done.source}, stage {done.stage}"
        if done.entering != before:
            raise NotConserved(f"{name}: {done.entering} came in, but {before} left the stage before")
        accounted = done.out + done.removed + done.set_aside
        if done.entering != accounted:
            raise NotConserved(f"{name}: {done.entering} came in, but {accounted} is accounted for")
        before = done.out


def start_and_end(ledger: Ledger) -> list[tuple[str, Counts, Counts, Counts]]:
    """Return each source's counts at the start, after deduplication and at the end, and the total."""
    return [
        (
            source or "total",
            ledger.of(ledger.stages[0], source),
            ledger.of(DEDUPLICATED, source),
            ledger.of(ledger.stages[-1], source),
        )
        for source in (*ledger.sources, None)
    ]


def as_markdown(ledger: Ledger) -> str:
    """Write the table of the design: tokens of each source at the start, in between and at the end."""
    lines = [
        "| source | start | after cross-dedup | after filtering |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {source} | " + " | ".join(f"{counts.tokens:,}" for counts in three) + " |"
        for source, *three in start_and_end(ledger)
    ]
    return "\n".join(lines) + "\n"


def as_json(ledger: Ledger) -> str:
    """Write the lines as they are published."""
    return json.dumps([row_of(line) for line in ledger.lines], indent=1) + "\n"
