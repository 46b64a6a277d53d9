"""The component of a document: the part of its source that it is of, such as `zyda_arxiv` or `CC-MAIN-2024-10`.

It comes from a column, or from the URL of the document's file, and stands in a column of its own. Documents that
have none are null there.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import bad_input
from tasks.recipe.source import ComponentOf
from tasks.sources.columns import is_json
from tasks.sources.listing import InputFile

COMPONENT = pa.field("component", pa.string())
NO_FOLDER = "other"  # where documents without a component lie
LONGEST = 100  # characters of a folder's name


def check_paths(source: str, component: ComponentOf | None, files: Sequence[InputFile]) -> None:
    """Raise BadInput where a pattern does not say of which component each file is."""
    if component is None or component.path is None:
        return
    others = [file.url for file in files if not of_url(component.path, file.url)]
    if others:
        count = f"of {len(files):,} files {len(others):,} do not"
        fault = f"component.path: its URL does not match {component.path}; {count}"
        raise bad_input(source, fault, file=others[0])


def of_url(pattern: str, url: str) -> str | None:
    """Return what the group of a pattern finds in a file's URL, None where it finds nothing."""
    found = re.search(pattern, url)
    return found[1] or None if found else None


def components_of(component: ComponentOf, table: pa.Table, file: InputFile) -> pa.Array:
    """Return the component of each row of a file: (n,) strings. Raises ValueError for a column that names none."""
    if component.path is not None:
        return pa.repeat(pa.scalar(of_url(component.path, file.url), COMPONENT.type), len(table))
    names = texts_in(table, str(component.column))
    return pc.if_else(pc.equal(names, ""), pa.scalar(None, COMPONENT.type), names)


def texts_in(table: pa.Table, path: str) -> pa.Array:
    """Return the values of a column, or of a field in a column of objects, as text: (n,) strings."""
    names = [name for name in table.column_names if name == path or path.startswith(f"{name}.")]
    if not names:
        return pa.nulls(len(table), COMPONENT.type)
    name = max(names, key=len)
    field, column = table.schema.field(name), table.column(name).combine_chunks()
    below = path[len(name) + 1 :].split(".") if name != path else []
    if is_json(field):
        decoded = (None if text is None else value_at(json.loads(text), below) for text in column.to_pylist())
        return pa.array(decoded, COMPONENT.type)
    while below and pa.types.is_struct(column.type) and column.type.get_field_index(below[0]) >= 0:
        column = pc.struct_field(column, below.pop(0))
    if below and not (pa.types.is_struct(column.type) or pa.types.is_null(column.type)):
        raise ValueError(f"column {name!r} is {column.type}, which has no fields")
    if below:
        return pa.nulls(len(table), COMPONENT.type)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise ValueError(
            f"column {path!r} is {column.type}, which names no component; a text or a number does"
        )
    return column.cast(COMPONENT.type)


def value_at(value: Any, path: Sequence[str]) -> str | None:
    """Return a text or number in decoded JSON as text, None for anything else. path: the fields that lead to it."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def folder_name(component: str | None) -> str:
    """Return the folder of a component: its name, with a hyphen for what is not in names of folders everywhere."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", component or "").strip("-.")[:LONGEST] or NO_FOLDER
