"""What the listing of a store says of a file: its content in a word, and when it was written."""

from datetime import datetime
from typing import Any

CONTENT_FIELDS = ("ETag", "md5Hash", "etag", "checksum", "LastModified", "updated", "mtime", "created")
CHECKSUMMED = r"^[^|]*\|(ETag|md5Hash)="  # a stamp with a checksum that a store keeps
TIME_FIELDS = ("mtime", "LastModified", "updated", "modified", "created", "timeCreated")


def stamp_of(info: dict[str, Any]) -> str:
    """Say in a word what a listing says of a file's content: its size, and a hash or a time of change."""
    field = next((field for field in CONTENT_FIELDS if info.get(field) is not None), "")
    return f"{info.get('size')}|{field}={info.get(field, '')}"


def seconds_of(info: dict[str, Any]) -> float:
    """Return when a listing says that a file was written: a number, a time, or a text."""
    moment = next((info[field] for field in TIME_FIELDS if info.get(field) is not None), 0.0)
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)
