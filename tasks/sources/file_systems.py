"""Where inputs lie: their file systems, and which version of a file a store has now.

A version is a file's size and what its store says of it: an ETag, a checksum or a time of change.
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

# The first that a store gives. GCS's etag and generation come late: its etag changes with a file's metadata.
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
TEMPORARY_STATUSES = {408, 425, 429}  # and all from 500: a server that may answer later


class LinkFollowingFileSystem(LocalFileSystem):
    """Local files, with links taken for what they lead to.

    A link has the type `broken` where nothing is at its end, and `loop` where it leads to a folder that
    it lies in itself: a walk through that would not end.
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
    """Return the file system of an input and its path there.

    A name without a scheme is a local one, whatever stands in it: fsspec takes `a::b.jsonl` for two
    file systems in a chain.
    """
    if "://" not in url:
        return LinkFollowingFileSystem(skip_instance_cache=True), url
    fs, path = url_to_fs(re.sub(r"^[A-Za-z0-9+.-]+(?=://)", lambda scheme: scheme[0].lower(), url))
    return fs, path


def is_temporary(error: BaseException) -> bool:
    """Say whether a "not found" hides a server that failed: fsspec's HTTP says it of every failure."""
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
    """Hash what a store says of a file: its size, and the first of the marks of its content."""
    marks = [str(info[field]) for field in VERSION_FIELDS if info.get(field) is not None]
    return short_hash(info["size"], *marks[:1])


def is_version(info: Mapping[str, Any], version: str) -> bool:
    """Say whether what a store says of a file now is what a version was made of.

    Any of the marks will do, with quotation marks or without, and the size alone where there is no other: some
    stores say it otherwise of one file than in a listing.
    """
    marks = [str(info[field]) for field in VERSION_FIELDS if info.get(field) is not None]
    bare = [mark.strip('"') for mark in marks]
    forms = [*marks, *bare, *(f'"{mark}"' for mark in bare)]
    return not marks or version in {
        short_hash(info["size"]),
        *(short_hash(info["size"], form) for form in forms),
    }


def short_hash(*parts: object) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]
