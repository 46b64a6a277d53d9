"""Sealed records: small JSON files with a hash of their content, their kind and their path.

The hash detects truncated, changed and misplaced records. The path is relative to the corpus's folder, so the
folder may be moved.
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

KEY = re.compile("[0-9a-f]{20}")  # a result of `digest_of`, used in names of artifacts and records
SEAL = b'{"sha256":"'
BODY = b'","record":'


class Record(BaseModel):
    """A frozen JSON value of this project."""

    model_config = ConfigDict(frozen=True)


Sealed = TypeVar("Sealed", bound=Record)


def digest_of(value: Any) -> str:
    """Hash a JSON value: 20 hexadecimal digits, 80 bits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def pack(schema: pa.Schema) -> str:
    """Encode a schema as text, for a manifest."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def unpack(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def seal(record: Record, path: str) -> bytes:
    """Encode a record as JSON with a hash for its path in the corpus's folder."""
    body = record.model_dump_json().encode()
    return SEAL + hash_of(type(record), path, body) + BODY + body + b"}"


def unseal(content: bytes, kind: type[Sealed], path: str) -> Sealed:
    """Decode a sealed record. Raises Damaged if it was changed, or is of another version or path."""
    if is_sealed(content, kind, path):
        with suppress(ValidationError):
            body = body_of(content)
            record = kind.model_validate_json(body)
            if record.__pydantic_serializer__.to_json(record) == body:  # else fields are missing or unknown
                return record
    raise Damaged(f"{path} is cut or changed, or of another place or version", path)


def hash_of(kind: type[Record], path: str, body: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(f"{kind.__name__} {path}\n".encode())
    digest.update(body)
    return digest.hexdigest().encode()


def is_sealed(content: bytes, kind: type[Record], path: str) -> bool:
    """Return whether a record is unchanged, of this kind and for this path."""
    place = content.find(BODY)
    body = memoryview(content)[place + len(BODY) : -1]  # not a copy: a manifest may have 100 MB
    return place > 0 and content[:place] == SEAL + hash_of(kind, path, body) and content.endswith(b"}")


def body_of(content: bytes) -> bytes:
    return content.partition(BODY)[2][:-1]


def write_record(folder: Folder, path: str, record: Record) -> None:
    folder.write(path, seal(record, path))


def read_record(folder: Folder, path: str, kind: type[Sealed]) -> Sealed | None:
    """Read a record, or return None if it does not exist. Raises Damaged."""
    content = folder.read_if_there(path)
    return None if content is None else unseal(content, kind, path)
