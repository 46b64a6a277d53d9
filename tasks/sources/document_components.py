"""The component of a document: the part of its source that contains it, such as `zyda_arxiv` or `CC-MAIN-2024-10`.

It comes from a column, from the URL of the document's file, or is the language that a step identified. It is
stored in the column `component`, which is null for documents without a component.
"""

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.errors import bad_input
from zyda_flows.tasks.recipe.source import ComponentOf
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.named_values import column_texts

COMPONENT = pa.field("component", pa.string())
NO_FOLDER = "other"  # the folder of documents without a component
LONGEST = 100  # characters of a folder's name


def check_paths(source: str, component: ComponentOf | None, files: Sequence[InputFile]) -> None:
    """Raise BadInput if the pattern of a component does not match the URL of each file."""
    if component is None or component.path is None:
        return
    others = [file.url for file in files if not component_of_url(component.path, file.url)]
    if others:
        count = f"of {len(files):,} files {len(others):,} do not"
        fault = f"component.path: its URL does not match {component.path}; {count}"
        raise bad_input(source, fault, file=others[0])


def component_of_url(pattern: str, url: str) -> str | None:
    """Return the text that the group of a pattern matches in a file's URL, or None."""
    match = re.search(pattern, url)
    return match[1] or None if match else None


def components_of(component: ComponentOf, table: pa.Table, file: InputFile) -> pa.Array:
    """Return the component of each row of a file: (n,) strings. Raises ValueError for a column of another type.

    All values are null for components by language, which files do not state.
    """
    if component.language:
        return pa.nulls(len(table), COMPONENT.type)
    if component.path is not None:
        return pa.repeat(pa.scalar(component_of_url(component.path, file.url), COMPONENT.type), len(table))
    names = column_texts(table, str(component.column), "component")
    return pc.if_else(pc.equal(names, ""), pa.scalar(None, COMPONENT.type), names)


def folder_name(component: str | None) -> str:
    """Return the folder of a component: its name, with hyphens for characters that are not portable."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", component or "").strip("-.")[:LONGEST] or NO_FOLDER
