"""The ledger: documents, tokens and bytes of every source at every stage, and the check of them."""

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa

from tasks.artifacts import Counts, Done, total
from tasks.errors import NotConserved
from tasks.records import Record

STAGES = ("ingest", "minhash", "removals", "classify", "filter", "publish")
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
        return tuple(line.source for line in self.lines if line.stage == STAGES[0])

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


def make_ledger(receipts: Iterable[Sequence[Done]]) -> Ledger:
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


def line_of(done: Done) -> Line:
    return Line(
        stage=done.stage,
        source=str(done.source),
        out=done.out,
        removed=done.removed,
        set_aside=done.set_aside,
    )


def check(receipts: Sequence[Done]) -> None:
    """Check the account of one source. Raises NotConserved."""
    if tuple(done.stage for done in receipts) != STAGES:
        raise NotConserved(f"source {receipts[0].source}: stages {[done.stage for done in receipts]}")
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
            ledger.of("ingest", source),
            ledger.of("removals", source),
            ledger.of("publish", source),
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
