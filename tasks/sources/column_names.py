"""Rename the columns of a source whose names the build uses for its own columns."""

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS

CLUSTER_COLUMNS = (
    "cluster_id",
    "cluster_size",
    "cluster_sources",
)  # followed by the round's number from the second round on
RESERVED_NAMES = (
    "doc_id", "source", "n_tokens", "n_bytes", "quality_pred", "quality_prob", "document_steps",
    *(f"{name}{number}" for name in CLUSTER_COLUMNS for number in ("", *range(2, 10))),
)  # fmt: skip
ADDED_BY_MODEL = ("score", "int_score")
SOURCE_PREFIX = "source_"


def column_renames(
    names: Iterable[str], text: str, *, classified: bool, measured: Collection[str] = ()
) -> dict[str, str]:
    """Return new names for the columns of a source whose names the build uses itself.

    `doc_id` becomes `source_doc_id`, and `source_doc_id` becomes `source_source_doc_id`: the new name of a column
    depends on no other column, so it is the same in every file.

    measured: the columns that the recipe's steps publish for the documents of this source.
    """
    taken = {*RESERVED_NAMES, *(ADDED_BY_MODEL if classified else ()), *measured, "text"} - {text}
    return {name: f"{SOURCE_PREFIX}{name}" for name in names if without_prefix(name) in taken}


def without_prefix(name: str) -> str:
    while name.startswith(SOURCE_PREFIX):
        name = name.removeprefix(SOURCE_PREFIX)
    return name


def names_of_text(text: str, *, classified: bool) -> tuple[str, ...]:
    """Return the names of the text in a `keep`: also the source's own name, unless another column has it."""
    is_free = text != "text" and not column_renames([text], "text", classified=classified)
    return ("text", text) if is_free else ("text",)


def stored_schema(
    columns: pa.Schema,
    text: str,
    *,
    classified: bool,
    measured: Collection[str] = (),
    added: Sequence[pa.Field] = (),
) -> pa.Schema:
    """Return the schema of documents from the columns of a file. added: columns that ingest appends."""
    measured = [*measured, *(field.name for field in added)]
    own = [field for field in columns if field.name != text]
    renamed = column_renames([field.name for field in own], text, classified=classified, measured=measured)
    named = [field.with_name(renamed.get(field.name, field.name)) for field in own]
    return pa.schema([*DOCUMENT_COUNTS, pa.field("text", pa.large_string()), *named, *added])


def separator_fault(schema: pa.Schema) -> str:
    """Return a fault if the only column name contains another separator than a comma, else an empty text."""
    if len(schema) == 1 and (";" in schema.names[0] or "\t" in schema.names[0]):
        return (
            f"its columns are not separated by commas: {schema.names[0]!r}; a .tsv file has tabs between them"
        )
    return ""
