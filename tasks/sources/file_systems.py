"""The file systems of inputs, and the versions of their files.

A version is a hash of a file's size and of its mark in the store: an ETag, a checksum or a time of change.
"""

import errno
import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from zyda_flows.tasks.storage.failures import forbids_when_busy

# The first field of an entry is used. GCS's etag and generation come late: its etag changes with metadata.
VERSION_FIELDS = (
    "ETag",
    "md5Hash",
    "crc32c",
    "checksum",
    "blob_id",
    "Content-MD5",
    "Digest",
    "generation",
    "etag",
    "LastModified",
    "Last-Modified",
    "updated",
    "mtime",
)
TEMPORARY_STATUSES = {408, 425, 429}  # and all statuses from 500: the server may answer later


class LinkFollowingFileSystem(LocalFileSystem):
    """Local files, with each link replaced by its target.

    A link has the type `broken` if its target is missing, and `loop` if its target is a folder that contains the
    link: a walk through such a folder would not end.
    """

    def info(self, path: Any, **more: Any) -> dict[str, Any]:
        entry = path if isinstance(path, os.DirEntry) else None
        name = str(entry.path if entry else path)
        if not (entry.is_symlink() if entry else os.path.islink(name)):
            return dict(super().info(path, **more))
        try:
            info = dict(super().info(os.path.realpath(name, strict=True), **more))
        except OSError as error:
            link_type = "loop" if error.errno == errno.ELOOP else "broken"
            return {"name": name, "type": link_type, "size": 0, "destination": os.readlink(name)}
        parent = os.path.realpath(os.path.dirname(name))
        is_loop = os.path.commonpath([parent, info["name"]]) == info["name"]
        kind = "loop" if info["type"] == "directory" and is_loop else info["type"]
        return {**info, "name": name, "type": kind, "destination": os.readlink(name)}


def file_system_of(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the file system of an input and its path in that file system.

    A name without a scheme is a local path, also if it contains `::`: fsspec would read `a::b.jsonl` as a chain of
    two file systems.
    """
    if "://" not in url:
        return LinkFollowingFileSystem(skip_instance_cache=True), url
    fs, path = url_to_fs(re.sub(r"^[A-Za-z0-9+.-]+(?=://)", lambda scheme: scheme[0].lower(), url))
    return fs, path


def is_temporary(error: BaseException) -> bool:
    """Return whether a temporary failure caused a "not found", which fsspec's HTTP raises for all failures."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
        status = getattr(cause, "status", None)
        if isinstance(status, int):
            return status >= 500 or status in TEMPORARY_STATUSES or forbids_when_busy(cause)
        if isinstance(cause, ConnectionError | TimeoutError) or type(cause).__module__.startswith("aiohttp"):
            return True
    return False


def version_of(info: Mapping[str, Any]) -> str:
    """Return a hash of a file's size and of the first mark of its content in the store's entry."""
    marks = [str(info[field]) for field in VERSION_FIELDS if info.get(field) is not None]
    return short_hash(info["size"], *marks[:1])


def is_version(info: Mapping[str, Any], version: str) -> bool:
    """Return whether a store's entry for a file matches a version.

    Any of the marks may match, with or without quotation marks; without marks the size suffices. Some stores write
    the marks of a single file differently from those in a listing.
    """
    marks = [str(info[field]) for field in VERSION_FIELDS if info.get(field) is not None]
    bare = [mark.strip('"') for mark in marks]
    forms = [*marks, *bare, *(f'"{mark}"' for mark in bare)]
    return not marks or version in {
        short_hash(info["size"]),
        *(short_hash(info["size"], form) for form in forms),
    }


def status_of_missing(fs: fsspec.AbstractFileSystem, path: str) -> int | None:
    """Return the HTTP status with which a server answered for a missing file, or None if there is no status."""
    try:
        fs.info(path)
    except FileNotFoundError as error:
        status = getattr(error.__cause__, "status", None)
        return status if isinstance(status, int) else None
    return None


def short_hash(*parts: object) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]
