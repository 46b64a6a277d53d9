"""Write the README.md of an export, with the configurations for `datasets.load_dataset`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import yaml

from zyda_flows.tasks.sources.columns import is_json
from zyda_flows.tasks.sources.json_text import is_list

Features = dict[str, dict[str, Any]]  # by the name of the column

CARD = "README.md"
MADE_BY = (
    "zyda export wrote this file and writes it again; exported.parquet lists the files with their SHA-256."
)
BODY = """\
# {name}

{documents:,} documents of the corpus {name}. {made_by}

`datasets.load_dataset(<this folder>)` loads the documents of all sources. With the name of a source it loads the
documents of that source with all its columns.
"""


def export_card(
    name: str, documents: int, kind: str, schemas: Mapping[str, pa.Schema], nested: Sequence[str]
) -> str:
    """Return the card. kind: format of the files. schemas: of each source. nested: sources with subfolders."""
    patterns = {source: f"{source}/{'**/' * (source in nested)}*.{kind}" for source in schemas}
    configs: list[dict[str, Any]] = [
        {"config_name": source, "data_files": pattern} for source, pattern in patterns.items()
    ]
    head: dict[str, Any] = {"pretty_name": name, "configs": configs}
    columns = common_columns([*schemas.values()])
    if columns:
        chosen = {"columns": columns} if kind == "parquet" else {}
        default = {
            "config_name": "default",
            "default": True,
            "data_files": [*patterns.values()],
            **chosen,
        }
        configs.insert(0, default)
    if kind != "parquet":  # JSON files have no types, and a source may lack a column
        by_source = {source: features_of(schema) for source, schema in schemas.items()}
        head["dataset_info"] = [
            {"config_name": source, "features": [*features.values()]}
            for source, features in (("default", joined(by_source.values())), *by_source.items())
        ]
    body = BODY.format(name=name, documents=documents, made_by=MADE_BY)
    return f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n\n{body}"


def common_columns(schemas: Sequence[pa.Schema]) -> list[str]:
    """Return the columns that all schemas have with one type, in the order of the first."""
    return [
        field.name
        for field in (schemas[0] if schemas else ())
        if all(field.name in each.names and each.field(field.name).type == field.type for each in schemas)
    ]


def joined(by_source: Iterable[Features]) -> Features:
    """Join the features of sources. A feature with different types in two sources becomes JSON."""
    whole = dict[str, dict[str, Any]]()
    for features in by_source:
        for name, feature in features.items():
            is_same = whole.setdefault(name, feature) == feature
            whole[name] = feature if is_same else {"name": name, "dtype": "json"}
    return whole


def features_of(schema: pa.Schema) -> Features:
    """Return the features of columns for `datasets`, by name."""
    return {
        field.name: {"name": field.name} | ({"dtype": "json"} if is_json(field) else as_feature(field.type))
        for field in schema
    }


def as_feature(kind: pa.DataType) -> dict[str, Any]:
    """Return the feature for `datasets` of a type in JSON.

    Other types than numbers, booleans, lists, objects are text.
    """
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return as_feature(kind.value_type)
    if pa.types.is_struct(kind):
        return {
            "struct": [
                {"name": kind.field(i).name} | as_feature(kind.field(i).type) for i in range(kind.num_fields)
            ]
        }
    if pa.types.is_map(kind):
        return {
            "list": [
                {"name": "key"} | as_feature(kind.key_type),
                {"name": "value"} | as_feature(kind.item_type),
            ]
        }
    if is_list(kind):
        item = as_feature(kind.value_type)
        return {"list": item.get("dtype") or item.get("struct") or item}
    if pa.types.is_floating(kind):
        return {"dtype": f"float{kind.bit_width}"}
    is_plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return {"dtype": str(kind) if is_plain else "string"}
