"""Compute the key of a job from the fields that can change its output; other fields need a stated reason."""

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.records import Record, pack


@dataclass(frozen=True)
class NotInKey:
    """Mark a field that is not part of the key: `order: Annotated[Preference, NotInKey("...")]`.

    reason: why the output does not depend on the field, or which other part of the key contains it.
    """

    reason: str


def mark_of(field: Field[Any]) -> NotInKey | None:
    """Return the mark of a field that is not part of the key, or None."""
    return next(
        (mark for mark in getattr(field.type, "__metadata__", ()) if isinstance(mark, NotInKey)), None
    )


def key_fields(job: Any) -> Iterator[Field[Any]]:
    """Yield the fields of a dataclass that are part of its key."""
    return (field for field in fields(job) if mark_of(field) is None)


def key_content(value: Any) -> Any:
    """Return a JSON value that is equal for equal content.

    An artifact is represented by its digest. Raises TypeError for a value of an unsupported type: mark its field
    with `NotInKey`.
    """
    match value:
        case None | str() | int() | float():
            return value
        case Artifact():
            return value.digest
        case Record():
            return value.model_dump(mode="json")
        case pa.Schema():
            return pack(value)
        case pa.DataType():
            return str(value)
        case np.ndarray():
            return [str(value.dtype), value.shape, sha256(value.tobytes()).hexdigest()]
        case tuple() | list():
            return [key_content(element) for element in value]
    if is_dataclass(value):
        return {field.name: key_content(getattr(value, field.name)) for field in key_fields(value)}
    raise TypeError(
        f"a value of type {type(value).__name__} cannot be part of a key; mark its field with NotInKey"
    )
