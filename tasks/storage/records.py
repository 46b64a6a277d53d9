"""Small JSON files of ours, each with a hash of itself, of its kind and of its place.

So a cut, a change, and a record that lies where another should are noticed. The place is relative to the corpus's
folder, which may be moved.
"""

import base64
import hashlib
import json
import re
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.storage.folder import Folder

KEY = re.compile("[0-9a-f]{20}")  # what `digest_of` returns, in the names of what was made
SEAL = b'{"sha256":"'
BODY = b'","record":'


class Record(BaseModel):
    """A frozen JSON value of ours."""

    model_config = ConfigDict(frozen=True)


Sealed = TypeVar("Sealed", bound=Record)


def digest_of(value: Any) -> str:
    """Hash a JSON value: 20 hexadecimal digits, 80 bits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def pack(schema: pa.Schema) -> str:
    """Write a schema as text, for a manifest."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpack(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def seal(record: Record, path: str) -> bytes:
    """Write a record as JSON with a hash of itself in its place, by its path in the corpus's folder."""
    body = record.model_dump_json().encode()
    return SEAL + hash_of(type(record), path, body) + BODY + body + b"}"


def unseal(content: bytes, kind: type[Sealed], path: str) -> Sealed:
    """Read a sealed record. Raises Damaged where it is not as it was written, by this version and in this place."""
    body = body_of(content)
    if is_sealed(content, kind, path):
        with suppress(ValidationError):
            record = kind.model_validate_json(body)
            if record.model_dump_json().encode() == body:  # or it lacks a field, or has one that nobody knows
                return record
    raise Damaged(f"{path} is cut or changed, or of another place or version", path)


def hash_of(kind: type[Record], path: str, body: bytes) -> bytes:
    return hashlib.sha256(f"{kind.__name__} {path}\n".encode() + body).hexdigest().encode()


def is_sealed(content: bytes, kind: type[Record], path: str) -> bool:
    """Say whether a record is as it was written, of this kind and in this place."""
    body = body_of(content)
    return content == SEAL + hash_of(kind, path, body) + BODY + body + b"}"


def body_of(content: bytes) -> bytes:
    return content.partition(BODY)[2][:-1]


def write_record(folder: Folder, path: str, record: Record) -> None:
    folder.write(path, seal(record, path))


def read_record(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Read a record, or return None where there is none. Raises Damaged."""
    content = folder.read_if_there(path)
    return None if content is None else unseal(content, kind, path)
