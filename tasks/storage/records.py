"""Small JSON files of ours, each with a hash of itself, so that a cut or a change is noticed."""

import base64
import hashlib
import json
import re
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from tasks.errors import Damaged
from tasks.storage.folder import Folder

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


def seal(record: Record) -> bytes:
    """Write a record as JSON with a hash of itself."""
    body = record.model_dump_json().encode()
    return SEAL + hashlib.sha256(body).hexdigest().encode() + BODY + body + b"}"


def unseal(content: bytes, kind: type[Sealed], path: str) -> Sealed:
    """Read a sealed record. Raises Damaged where it is not as it was written."""
    if not is_sealed(content):
        raise Damaged(f"{path} is cut or changed, or of another version", path)
    return kind.model_validate_json(content.partition(BODY)[2][:-1])


def is_sealed(content: bytes) -> bool:
    """Say whether a record's hash is that of the rest of it."""
    head, _, sealed = content.partition(BODY)
    # What is sealed is followed by the last brace; slices, for it may be cut to nothing.
    return head == SEAL + hashlib.sha256(sealed[:-1]).hexdigest().encode() and sealed[-1:] == b"}"


def write_record(folder: Folder, path: str, record: Record) -> None:
    folder.write(path, seal(record))


def read_record(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Read a record, or return None where there is none. Raises Damaged."""
    content = folder.read_if_there(path)
    return None if content is None else unseal(content, kind, path)
