"""Read the listings of stores: a stamp of each file's content, and its modification time."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import fsspec

CONTENT_FIELDS = ("ETag", "md5Hash", "etag", "checksum", "LastModified", "updated", "mtime", "created")
CHECKSUMMED = r"^[^|]*\|(ETag|md5Hash)="  # matches a stamp with a checksum from a store
TIME_FIELDS = ("mtime", "LastModified", "updated", "modified", "created", "timeCreated")


def is_utf8(name: str) -> bool:
    """Return whether a name can be encoded as UTF-8; Python decodes invalid bytes to lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def stamp_of(info: dict[str, Any]) -> str:
    """Return a stamp of a file's content from its listing: its size, and a hash or a time of change."""
    field = next((field for field in CONTENT_FIELDS if info.get(field) is not None), "")
    return f"{info.get('size')}|{field}={info.get(field, '')}"


def seconds_of(info: dict[str, Any]) -> float:
    """Return the modification time in a listing, in seconds since 1970; it may be a number, a time or a text."""
    moment = next((info[field] for field in TIME_FIELDS if info.get(field) is not None), 0.0)
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return moment.timestamp() if isinstance(moment, datetime) else float(moment)


def stamps_in(fs: fsspec.AbstractFileSystem, place: str, *, is_local: bool) -> Iterator[tuple[str, str]]:
    """Yield the name and the stamp of each file of a folder. Raises the store's errors."""
    if is_local:
        with os.scandir(place) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # removed since the scan
                    if entry.is_file():
                        known = entry.stat()  # in the format of fsspec and `stamp_of`
                        yield entry.name, f"{known.st_size}|mtime={known.st_mtime}"
        return
    fs.invalidate_cache()
    for info in fs.ls(place, detail=True):
        path = str(info["name"]).rstrip("/")
        # Some stores list a folder as a file.
        if info["type"] == "file" and path != place.rstrip("/"):
            yield path.rpartition("/")[2], stamp_of(info)
