"""The columns of published files, checked for equal names and different types."""

import json
import re
from collections.abc import Sequence

import pyarrow as pa

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.storage.artifacts import Manifest
from zyda_flows.tasks.storage.records import unpack

REMOVED = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("source", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("cluster_id", pa.uint64()),
        ("kept_doc_id", pa.uint64()),
        ("n_tokens", pa.int64()),
    ]
)
SOURCE = pa.field("source", pa.string())
# 64 bits, because polars sums narrower integers in their own type and overflows without an error.
COUNTS = re.compile("n_tokens|cluster_(size|sources)[2-9]?")
CLUSTER = re.compile("cluster_(id|size|sources)[2-9]?")
NEVER_NULL = re.compile(f"doc_id|n_tokens|{CLUSTER.pattern}")


def for_readers(schema: pa.Schema) -> pa.Schema:
    """Return the published types of columns: counts as int64, and metadata with the pandas types of integers.

    pandas reads an integer column with nulls as float64, which rounds ids above 2^53, unless the metadata have its
    nullable type. Other readers ignore these metadata.
    """
    fields = [field.with_type(pa.int64()) if COUNTS.fullmatch(field.name) else field for field in schema]
    kinds = {pa.int64(): "Int64", pa.uint64(): "UInt64"}
    columns = [
        {"name": field.name, "field_name": field.name, "pandas_type": str(field.type),
         "numpy_type": kinds[field.type], "metadata": None}
        for field in fields
        if field.type in kinds and not NEVER_NULL.fullmatch(field.name)
    ]  # fmt: skip
    described = {"columns": columns, "index_columns": [], "column_indexes": []}
    return pa.schema(fields, {"pandas": json.dumps(described)} if columns else None)


def removed_schema(manifests: Sequence[Manifest]) -> pa.Schema:
    """Return the columns of the removed files: REMOVED, evidence, and `added_to_removed`.

    Raises NotConserved if two stages declare a name with different types.
    """
    fields, declared_by = {field.name: field for field in REMOVED}, dict[str, str]()
    for manifest in manifests:
        for field in unpack(manifest.evidence) if manifest.evidence else ():
            before = fields.setdefault(field.name, field)
            if before.type != field.type:
                raise NotConserved(
                    f"the evidence {field.name} of stage {manifest.stage} is {field.type}, and that of stage "
                    f"{declared_by[field.name]} is {before.type}; give one of them another name"
                )
            declared_by.setdefault(field.name, manifest.stage)
    return pa.schema([*fields.values(), *added_to_removed(manifests)])


def added_to_removed(manifests: Sequence[Manifest]) -> list[pa.Field]:
    """Return the columns of scores, labels and buckets that removed documents have too.

    A column with the name of evidence is not among them.
    """
    evidence = {field.name for each in manifests if each.evidence for field in unpack(each.evidence)}
    taken = {*REMOVED.names, *evidence}
    return [
        field
        for manifest in manifests
        for field in manifest.added_columns
        if field.name not in taken and not CLUSTER.fullmatch(field.name)
    ]


def check_published_names(source: str, own: pa.Schema, manifests: Sequence[Manifest]) -> None:
    """Raise NotConserved if two published columns have the same name."""
    owners = dict.fromkeys([*own.names, "doc_id", SOURCE.name, "n_tokens"], f"source {source}")
    for manifest in manifests:
        for name in (field.name for field in manifest.added_columns):
            if name in owners:
                raise NotConserved(
                    f"stage {manifest.stage} adds a column {name} to the documents of source {source}, and "
                    f"{owners[name]} has a column of this name; give it another name"
                )
            owners[name] = f"stage {manifest.stage}"
