"""The accounts of components, licences and languages: what was published of each, what went, and why."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zyda_flows.tasks.errors import Damaged, first_line
from zyda_flows.tasks.storage.artifacts import Counts, totals
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

# What documents are counted by: a field of what publishes them, and a table of the corpus.
COUNTED_BY = ("components", "licenses", "languages")
COMPONENTS_FILE, LICENSES_FILE, LANGUAGES_FILE = (f"{what}.parquet" for what in COUNTED_BY)
COMPONENTS = pa.schema(
    [("source", pa.string()), ("component", pa.string()), ("stage", pa.string()), ("reason", pa.string())]
    + [(unit, pa.int64()) for unit in ("documents", "tokens", "bytes")]
)

MOST_NAMES = 1000  # of a shard, beyond which names are counted together
OTHERS = "(others)"
NOT_KNOWN = "unknown: "  # before names of licences that are in no list


class ComponentCounts(Record):
    """Documents of a component that met the same end: they stay, where there is no stage, or it let them go.

    component: or the name of a licence, or of a language.
    """

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


# The counts of each source, by its name: by one of COUNTED_BY.
CountsBySource = Mapping[str, Sequence[ComponentCounts]]


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


def count_names(counted: pa.Table, removed: pa.Table) -> tuple[ComponentCounts, ...]:
    """Count the documents of a shard by licence or language and end, which are the components of `counted`.

    Sources may have as many names as documents: of those that are not known all beyond the MOST_NAMES most frequent
    are OTHERS.
    """
    names = counted.column("component").combine_chunks()
    is_unknown = pc.fill_null(pc.starts_with(names, NOT_KNOWN), False)
    found = pc.value_counts(names.filter(is_unknown))
    if len(found) > MOST_NAMES:
        by_count = pa.table({"name": found.field("values"), "count": found.field("counts")})
        most = by_count.sort_by([("count", "descending"), ("name", "ascending")]).column("name")[:MOST_NAMES]
        is_one = pc.or_(pc.is_in(names, most.combine_chunks()), pc.invert(is_unknown))
        place = counted.column_names.index("component")
        counted = counted.set_column(place, "component", pc.if_else(is_one, names, f"{NOT_KNOWN}{OTHERS}"))
    return count_components(counted, removed)


def component_table(of_sources: CountsBySource, name: str = "component") -> pa.Table:
    """Return the accounts of all components as they are published: COMPONENTS, `component` under another name."""
    rows = [
        {"source": source, "component": one.component, "stage": one.stage, "reason": one.reason,
         **one.counts.model_dump()}
        for source, components in of_sources.items()
        for one in components
    ]  # fmt: skip
    names = [name if field.name == "component" else field.name for field in COMPONENTS]
    return pa.Table.from_pylist(rows, COMPONENTS).rename_columns(names)


def counted_tables(counted_by: Mapping[str, CountsBySource]) -> dict[str, pa.Table]:
    """Return the published tables of what is counted, by the names of their files."""
    return {
        f"{what}.parquet": component_table(counted_by[what], what.removesuffix("s"))
        for what in COUNTED_BY
        if counted_by.get(what)
    }


def accounts_of(folder: Folder, name: str = "component") -> dict[str, list[ComponentCounts]]:
    """Read the published accounts that `component_table` made, by source. Raises Damaged."""
    found, path = dict[str, list[ComponentCounts]](), f"published/{name}s.parquet"
    try:
        for row in pq.read_table(pa.BufferReader(folder.read(path))).to_pylist():
            counts = Counts(**{unit: row.pop(unit) for unit in ("documents", "tokens", "bytes")})
            one = ComponentCounts(
                component=row[name], stage=row["stage"], reason=row["reason"], counts=counts
            )
            found.setdefault(row["source"], []).append(one)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        fault = f"{folder.url}/{path} cannot be read: {first_line(error)}; zyda verify --repair repairs it"
        raise Damaged(fault) from error
    return found


def start_and_end(components: Sequence[ComponentCounts]) -> dict[str | None, tuple[Counts, Counts]]:
    """Return of each component what entered, and what is left."""
    entered = totals({one.component: one.counts} for one in components)
    left = totals({one.component: one.counts} for one in components if not one.stage)
    return {name: (counts, left.get(name, Counts())) for name, counts in entered.items()}
