"""The key of a job, from its fields: all that can change its output, and a reason for each field that cannot."""

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
    """The mark of a field that is not part of the key: `order: Annotated[Preference, NotInKey("...")]`.

    reason: why the output does not depend on it, or by what else it is in the key.
    """

    reason: str


def mark_of(one: Field[Any]) -> NotInKey | None:
    """Return the mark of a field that is not part of the key."""
    return next((mark for mark in getattr(one.type, "__metadata__", ()) if isinstance(mark, NotInKey)), None)


def key_fields(job: Any) -> Iterator[Field[Any]]:
    """Yield the fields of a dataclass that are part of its key."""
    return (one for one in fields(job) if mark_of(one) is None)


def key_content(value: Any) -> Any:
    """Return a JSON value that is the same for the same content.

    An artifact is its digest. Raises TypeError for a value of another kind: mark its field with `NotInKey`.
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
            return [key_content(one) for one in value]
    if is_dataclass(value):
        return {one.name: key_content(getattr(value, one.name)) for one in key_fields(value)}
    raise TypeError(f"a {type(value).__name__} cannot be part of a key")
