"""The columns of published files: which stages add them, and that each has a name and a type of its own."""

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
# Of 64 bits, because polars adds up narrower integers in their own type, without an error when they overflow.
COUNTS = re.compile("n_tokens|cluster_(size|sources)[2-9]?")
NEVER_NULL = re.compile("doc_id|n_tokens|cluster_(id|size|sources)[2-9]?")


def for_readers(schema: pa.Schema) -> pa.Schema:
    """Return the types in which columns are published: counts as int64, and integers as pandas has to read them.

    pandas reads an integer column with nulls as float64, which rounds ids above 2^53, unless the metadata name
    its nullable type. Other readers ignore these metadata.
    """
    fields = [one.with_type(pa.int64()) if COUNTS.fullmatch(one.name) else one for one in schema]
    kinds = {pa.int64(): "Int64", pa.uint64(): "UInt64"}
    columns = [
        {"name": one.name, "field_name": one.name, "pandas_type": str(one.type), "numpy_type": kinds[one.type],
         "metadata": None}
        for one in fields
        if one.type in kinds and not NEVER_NULL.fullmatch(one.name)
    ]  # fmt: skip
    described = {"columns": columns, "index_columns": [], "column_indexes": []}
    return pa.schema(fields, {"pandas": json.dumps(described)} if columns else None)


def removed_schema(manifests: Sequence[Manifest]) -> pa.Schema:
    """Return the columns of the removed files: REMOVED, and the evidence that stages declare, in their order.

    Raises NotConserved where two declare one name with two types.
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
    return pa.schema(list(fields.values()))


def check_published_names(source: str, own: pa.Schema, manifests: Sequence[Manifest]) -> None:
    """Raise NotConserved where two columns that are to be published have one name."""
    whose = dict.fromkeys([*own.names, "doc_id", SOURCE.name, "n_tokens"], f"source {source}")
    for manifest in manifests:
        for name in manifest.added_columns:
            if name in whose:
                raise NotConserved(
                    f"stage {manifest.stage} puts a column {name} beside the documents of source {source}, and "
                    f"{whose[name]} has one of that name; give it another"
                )
            whose[name] = f"stage {manifest.stage}"
