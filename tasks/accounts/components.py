"""The accounts of components: of each, what was published and what each stage let go, and why."""

from collections.abc import Iterable, Sequence
from itertools import chain

import pyarrow as pa

from tasks.storage.artifacts import Counts, totals
from tasks.storage.records import Record

COMPONENTS_FILE = "components.parquet"
COMPONENTS = pa.schema(
    [("source", pa.string()), ("component", pa.string()), ("stage", pa.string()), ("reason", pa.string())]
    + [(unit, pa.int64()) for unit in ("documents", "tokens", "bytes")]
)


class ComponentCounts(Record):
    """Documents of a component that met the same end: they stay, where there is no stage, or it let them go."""

    component: str | None
    stage: str | None
    reason: str | None
    counts: Counts


def count_components(counted: pa.Table, removed: pa.Table) -> tuple[ComponentCounts, ...]:
    """Count the documents of a shard by component and end.

    counted: all of them, with `component` and the counts. removed: those that went, with `stage` and `reason`.
    """
    ends = removed.select(["doc_id", "stage", "reason"])
    joined = counted.join(ends, "doc_id").append_column("documents", pa.repeat(1, len(counted)))
    groups = joined.group_by(["component", "stage", "reason"])
    sums = groups.aggregate([(name, "sum") for name in ("documents", "n_tokens", "n_bytes")])
    return added_up([[
        ComponentCounts(
            component=row["component"], stage=row["stage"], reason=row["reason"],
            counts=Counts(documents=row["documents_sum"], tokens=row["n_tokens_sum"], bytes=row["n_bytes_sum"]),
        )
        for row in sums.to_pylist()
    ]])  # fmt: skip


def added_up(parts: Iterable[Sequence[ComponentCounts]]) -> tuple[ComponentCounts, ...]:
    """Add up the counts of several shards, sorted; those that stay and those without a component come last."""
    sums = totals({(one.component, one.stage, one.reason): one.counts} for one in chain.from_iterable(parts))
    order = sorted(sums, key=lambda end: [(part is None, part or "") for part in end])
    return tuple(
        ComponentCounts(
            component=component, stage=stage, reason=reason, counts=sums[component, stage, reason]
        )
        for component, stage, reason in order
    )


def component_table(of_sources: dict[str, Sequence[ComponentCounts]]) -> pa.Table:
    """Return the accounts of all components as they are published: COMPONENTS."""
    rows = [
        {"source": source, "component": one.component, "stage": one.stage, "reason": one.reason,
         **one.counts.model_dump()}
        for source, components in of_sources.items()
        for one in components
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, COMPONENTS)


def start_and_end(components: Sequence[ComponentCounts]) -> dict[str | None, tuple[Counts, Counts]]:
    """Return of each component what entered, and what is left."""
    entered = totals({one.component: one.counts} for one in components)
    left = totals({one.component: one.counts} for one in components if not one.stage)
    return {name: (counts, left.get(name, Counts())) for name, counts in entered.items()}
