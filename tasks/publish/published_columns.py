"""The columns of published files: which stages add them, and that each has a name and a type of its own."""

from collections.abc import Sequence

import pyarrow as pa

from tasks.errors import NotConserved
from tasks.storage.artifacts import Manifest
from tasks.storage.records import unpack

REMOVED = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("source", pa.string()),
        ("stage", pa.string()),
        ("reason", pa.string()),
        ("cluster_id", pa.uint64()),
        ("kept_doc_id", pa.uint64()),
        ("n_tokens", pa.uint32()),
    ]
)


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
    whose = dict.fromkeys([*own.names, "doc_id", "n_tokens"], f"source {source}")
    for manifest in manifests:
        for name in manifest.added_columns:
            if name in whose:
                raise NotConserved(
                    f"stage {manifest.stage} puts a column {name} beside the documents of source {source}, and "
                    f"{whose[name]} has one of that name; give it another"
                )
            whose[name] = f"stage {manifest.stage}"
