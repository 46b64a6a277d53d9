"""Accounts by component, licence, language and bucket: published and removed documents of each, with the reasons.

A task of a shard counts its documents. The counts of shards are added up in a tree of tasks, so that none of them
reads more than a few tables. A table of counts has the columns ENDS, sorted; kept documents, and documents without
a component, are last.
"""

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zyda_flows.tasks.errors import Damaged, bad_input, first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder

# The categories that documents are counted by: each is a table of the corpus.
COUNTED_BY = ("components", "licenses", "languages", "buckets")
COMPONENTS_FILE, LICENSES_FILE, LANGUAGES_FILE, BUCKETS_FILE = (
    f"{category}.parquet" for category in COUNTED_BY
)
UNITS = tuple(Counts.model_fields)
# Component, licence, language or bucket; null stage and reason for kept documents.
ENDS = pa.schema(
    [("component", pa.string()), ("stage", pa.string()), ("reason", pa.string())]
    + [(unit, pa.int64()) for unit in UNITS]
)
COMPONENTS = pa.schema([pa.field("source", pa.string()), *ENDS])
CATEGORY = pa.field("category", pa.string())
COUNTED = pa.schema([CATEGORY, *ENDS])

MOST_NAMES = 1000  # of a shard; rarer names are counted together
MOST_ROWS = 1 << 19  # of tables that are added up together
OTHERS = "(others)"
NOT_KNOWN = "unknown: "  # before the names of licences that are in no list

# The counts of each source, by its name, for a category of COUNTED_BY: ENDS.
CountsBySource = Mapping[str, pa.Table]


def count_components(counted: pa.Table, removed: pa.Table) -> pa.Table:
    """Count the documents of a shard by component, stage and reason: ENDS.

    counted: all documents, with `component` and the counts. removed: the removed documents, with `stage` and
    `reason`.
    """
    ends = removed.select(["doc_id", "stage", "reason"])
    joined = counted.join(ends, "doc_id").append_column("documents", pa.repeat(1, len(counted)))
    return grouped(joined.rename_columns({"n_tokens": "tokens", "n_bytes": "bytes"}), ENDS)


def grouped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add up the counts of rows with equal names, sorted by them."""
    names = [name for name in schema.names if name not in UNITS]
    sums = table.group_by(names).aggregate([(unit, "sum") for unit in UNITS])
    columns = [*names, *(f"{unit}_sum" for unit in UNITS)]
    in_order = sums.select(columns).sort_by([(name, "ascending") for name in names])
    return in_order.rename_columns(schema.names).cast(schema).combine_chunks()


def added_up(tables: Iterable[pa.Table], schema: pa.Schema = ENDS) -> pa.Table:
    """Add up tables of counts, a few at a time. schema: ENDS or COUNTED."""
    total, waiting = schema.empty_table(), list[pa.Table]()
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) > max(MOST_ROWS, len(total)):
            total, waiting = grouped(pa.concat_tables([total, *waiting]), schema), []
    return grouped(pa.concat_tables([total, *waiting]), schema)


def count_names(counted: pa.Table, removed: pa.Table) -> pa.Table:
    """Count the documents of a shard by licence or language, stage and reason: ENDS.

    counted: with the licence or language as `component`. A source may have a different name for each document: the
    unknown names beyond the MOST_NAMES most frequent names are counted as OTHERS.
    """
    return with_others(count_components(counted, removed), MOST_NAMES)


def with_others(ends: pa.Table, most: int) -> pa.Table:
    """Count unknown names beyond the `most` most frequent unknown names as OTHERS. ends: ENDS or COUNTED."""
    names = ends.column("component")
    is_unknown = pc.fill_null(pc.starts_with(names, NOT_KNOWN), False)
    if CATEGORY.name in ends.column_names:
        is_unknown = pc.and_(is_unknown, pc.equal(ends.column(CATEGORY.name), "licenses"))
    by_name = ends.filter(is_unknown).group_by("component").aggregate([("documents", "sum")])
    if len(by_name) <= most:
        return ends
    order = [("documents_sum", "descending"), ("component", "ascending")]
    frequent = by_name.sort_by(order).column("component")[:most].combine_chunks()
    is_rare = pc.and_not(is_unknown, pc.is_in(names, frequent))
    renamed = pc.if_else(is_rare, f"{NOT_KNOWN}{OTHERS}", names)
    return grouped(ends.set_column(ends.column_names.index("component"), "component", renamed), ends.schema)


def of_category(counted: pa.Table, category: str) -> pa.Table:
    """Return the counts of a category: ENDS. counted: COUNTED."""
    return counted.filter(pc.field(CATEGORY.name) == category).select(ENDS.names).combine_chunks()


def check_names(source: str, counted: pa.Table) -> None:
    """Raise BadInput if a source has too many components. counted: COUNTED."""
    names = of_category(counted, COUNTED_BY[0]).column("component").unique()
    check_number_of_components(source, names.to_pylist())


def check_number_of_components(source: str, names: Collection[str | None]) -> None:
    """Raise BadInput for too many components of a shard or a source. names: distinct."""
    if len(names) > (most := limits().component_names):
        examples = ", ".join(sorted(name for name in names if name is not None)[:2])
        raise bad_input(
            source,
            f"component: {len(names):,} different values ({examples}, ...), expected at most {most:,}; "
            "name a column, or a part of the path, with fewer values",
        )


def component_table(counts: CountsBySource, name: str = "component") -> pa.Table:
    """Return the published table of counts: COMPONENTS, with the column `component` renamed to `name`."""
    tables = [
        ends.add_column(0, "source", pa.repeat(pa.scalar(source, pa.string()), len(ends)))
        for source, ends in counts.items()
    ]
    names = [name if field.name == "component" else field.name for field in COMPONENTS]
    return pa.concat_tables([COMPONENTS.empty_table(), *tables]).combine_chunks().rename_columns(names)


def counted_tables(counted_by: Mapping[str, CountsBySource]) -> dict[str, pa.Table]:
    """Return the published tables of counts, by the names of their files."""
    return {
        f"{category}.parquet": component_table(counted_by[category], category.removesuffix("s"))
        for category in COUNTED_BY
        if counted_by.get(category)
    }


def accounts_of(folder: Folder, name: str = "component") -> dict[str, pa.Table]:
    """Read a table that `component_table` made, by source: ENDS. Raises Damaged."""
    path = f"published/{name}s.parquet"
    try:
        table = pq.read_table(pa.BufferReader(folder.read(path))).select(["source", name, *ENDS.names[1:]])
        table = table.rename_columns(COMPONENTS.names).cast(COMPONENTS)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        fault = f"{folder.url}/{path} cannot be read: {first_line(error)}; zyda verify --repair repairs it"
        raise Damaged(fault) from error
    return {
        source: table.filter(pc.field("source") == source).select(ENDS.names)
        for source in table.column("source").unique().to_pylist()
    }


def start_and_end(ends: pa.Table) -> dict[str | None, tuple[Counts, Counts]]:
    """Return for each component, in order, the counts of all documents and of the kept documents. ends: ENDS."""
    kept = counts_by_name(ends.filter(pc.field("stage").is_null()))
    return {name: (counts, kept.get(name, Counts())) for name, counts in counts_by_name(ends).items()}


def counts_by_name(ends: pa.Table) -> dict[str | None, Counts]:
    names = pa.schema([field for field in ENDS if field.name not in ("stage", "reason")])
    rows = grouped(ends.select(names.names), names).to_pylist()
    return {row.pop("component"): Counts(**row) for row in rows}


def total_of(ends: pa.Table) -> Counts:
    """Add up the counts of all rows."""
    return Counts(**{unit: pc.sum(ends.column(unit)).as_py() or 0 for unit in UNITS})
