"""What the listing of a store says of a file: its content in a word, and when it was written."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import fsspec

CONTENT_FIELDS = ("ETag", "md5Hash", "etag", "checksum", "LastModified", "updated", "mtime", "created")
CHECKSUMMED = r"^[^|]*\|(ETag|md5Hash)="  # a stamp with a checksum that a store keeps
TIME_FIELDS = ("mtime", "LastModified", "updated", "modified", "created", "timeCreated")


def is_utf8(name: str) -> bool:
    """Say whether a name can be written as UTF-8: of other bytes, Python makes halves of characters."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


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


def stamps_in(fs: fsspec.AbstractFileSystem, place: str, *, is_local: bool) -> Iterator[tuple[str, str]]:
    """Yield the files of one folder by name, each with its stamp. Raises what the store does."""
    if is_local:
        with os.scandir(place) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # what goes away meanwhile is not there
                    if entry.is_file():
                        known = entry.stat()  # as fsspec says it, and `stamp_of` writes it
                        yield entry.name, f"{known.st_size}|mtime={known.st_mtime}"
        return
    fs.invalidate_cache()
    for info in fs.ls(place, detail=True):
        path = str(info["name"]).rstrip("/")
        # Some stores list a folder as if it were a file in itself.
        if info["type"] == "file" and path != place.rstrip("/"):
            yield path.rpartition("/")[2], stamp_of(info)
