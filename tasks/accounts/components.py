"""Accounts by component, licence and language: published and removed documents of each, with the reasons."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zyda_flows.tasks.errors import Damaged, first_line
from zyda_flows.tasks.storage.counts import Counts, totals
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

# The categories that documents are counted by: each is a field of a published shard and a table of the corpus.
COUNTED_BY = ("components", "licenses", "languages")
COMPONENTS_FILE, LICENSES_FILE, LANGUAGES_FILE = (f"{category}.parquet" for category in COUNTED_BY)
COMPONENTS = pa.schema(
    [("source", pa.string()), ("component", pa.string()), ("stage", pa.string()), ("reason", pa.string())]
    + [(unit, pa.int64()) for unit in ("documents", "tokens", "bytes")]
)

MOST_NAMES = 1000  # of a shard; rarer names are counted together
OTHERS = "(others)"
NOT_KNOWN = "unknown: "  # before the names of licences that are in no list


class ComponentCounts(Record):
    """Counts of the documents of a component that were kept, or removed by the same stage for the same reason.

    component: the name of a component, a licence or a language. stage, reason: None for kept documents.
    """

    component: str | None
    stage: str | None
    reason: str | None
    counts: Counts


def count_components(counted: pa.Table, removed: pa.Table) -> tuple[ComponentCounts, ...]:
    """Count the documents of a shard by component, stage and reason.

    counted: all documents, with `component` and the counts. removed: the removed documents, with `stage` and
    `reason`.
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


# The counts of each source, by its name, for a category of COUNTED_BY.
CountsBySource = Mapping[str, Sequence[ComponentCounts]]


def added_up(parts: Iterable[Sequence[ComponentCounts]]) -> tuple[ComponentCounts, ...]:
    """Add up the counts of several shards, sorted; kept documents, and documents without a component, are last."""
    entries = chain.from_iterable(parts)
    sums = totals({(entry.component, entry.stage, entry.reason): entry.counts} for entry in entries)
    order = sorted(sums, key=lambda end: [(part is None, part or "") for part in end])
    return tuple(
        ComponentCounts(
            component=component, stage=stage, reason=reason, counts=sums[component, stage, reason]
        )
        for component, stage, reason in order
    )


def count_names(counted: pa.Table, removed: pa.Table) -> tuple[ComponentCounts, ...]:
    """Count the documents of a shard by licence or language, stage and reason.

    counted: with the licence or language as `component`. A source may have a different name for each document: the
    unknown names beyond the MOST_NAMES most frequent names are counted as OTHERS.
    """
    names = counted.column("component").combine_chunks()
    is_unknown = pc.fill_null(pc.starts_with(names, NOT_KNOWN), False)
    frequencies = pc.value_counts(names.filter(is_unknown))
    if len(frequencies) > MOST_NAMES:
        by_count = pa.table({"name": frequencies.field("values"), "count": frequencies.field("counts")})
        most = by_count.sort_by([("count", "descending"), ("name", "ascending")]).column("name")[:MOST_NAMES]
        is_frequent = pc.or_(pc.is_in(names, most.combine_chunks()), pc.invert(is_unknown))
        place = counted.column_names.index("component")
        counted = counted.set_column(
            place, "component", pc.if_else(is_frequent, names, f"{NOT_KNOWN}{OTHERS}")
        )
    return count_components(counted, removed)


def component_table(counts: CountsBySource, name: str = "component") -> pa.Table:
    """Return the published table of counts: COMPONENTS, with the column `component` renamed to `name`."""
    rows = [
        {"source": source, "component": entry.component, "stage": entry.stage, "reason": entry.reason,
         **entry.counts.model_dump()}
        for source, components in counts.items()
        for entry in components
    ]  # fmt: skip
    names = [name if field.name == "component" else field.name for field in COMPONENTS]
    return pa.Table.from_pylist(rows, COMPONENTS).rename_columns(names)


def counted_tables(counted_by: Mapping[str, CountsBySource]) -> dict[str, pa.Table]:
    """Return the published tables of counts, by the names of their files."""
    return {
        f"{category}.parquet": component_table(counted_by[category], category.removesuffix("s"))
        for category in COUNTED_BY
        if counted_by.get(category)
    }


def accounts_of(folder: Folder, name: str = "component") -> dict[str, list[ComponentCounts]]:
    """Read a table that `component_table` made, by source. Raises Damaged."""
    accounts, path = dict[str, list[ComponentCounts]](), f"published/{name}s.parquet"
    try:
        for row in pq.read_table(pa.BufferReader(folder.read(path))).to_pylist():
            counts = Counts(**{unit: row.pop(unit) for unit in ("documents", "tokens", "bytes")})
            entry = ComponentCounts(
                component=row[name], stage=row["stage"], reason=row["reason"], counts=counts
            )
            accounts.setdefault(row["source"], []).append(entry)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        fault = f"{folder.url}/{path} cannot be read: {first_line(error)}; zyda verify --repair repairs it"
        raise Damaged(fault) from error
    return accounts


def start_and_end(components: Sequence[ComponentCounts]) -> dict[str | None, tuple[Counts, Counts]]:
    """Return for each component the counts of all documents and of the kept documents."""
    total = totals({entry.component: entry.counts} for entry in components)
    kept = totals({entry.component: entry.counts} for entry in components if not entry.stage)
    return {name: (counts, kept.get(name, Counts())) for name, counts in total.items()}
