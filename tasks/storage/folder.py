"""Folders behind URLs of fsspec: local disk, S3, GCS and any other file system of fsspec.

A file appears only when it is complete: it is written on a local disk first, and put in place in one step (a rename
on a local file system, or an upload to an object store, which shows an object only after its upload). fsspec and
its back ends read credentials and addresses from the environment; this project never reads them.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol

from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.spent import METER
from zyda_flows.tasks.storage.scratch import SCRATCH, link_as, remove_orphans, replace_folder, scratch_name
from zyda_flows.tasks.storage.stamps import seconds_of, stamps_in
from zyda_flows.tasks.storage.stores import (
    STORES_WITH_CHECKSUMS,
    Stream,
    create_in_store,
    explain_errors,
    open_file,
)

Item = TypeVar("Item")
Result = TypeVar("Result")

READ_ONLY = 0o444
BLOCK_BYTES = 8 << 20  # bytes to hash at once
FILES_AT_ONCE = 8  # simultaneous requests to a store
UPLOAD_BYTES = 50 << 20  # s3fs uploads larger files in parts of this size


def is_local(url: str) -> bool:
    """Return whether a URL refers to local files, without opening it."""
    return get_protocol(url) in {"file", "local"}


def absolute(url: str) -> str:
    """Return a URL that does not depend on the working directory."""
    if "://" in url:
        return url.rstrip("/")
    return str(Path(url).expanduser().resolve())


def make_folder(path: Path) -> None:
    """Make a local folder; to look for it first takes a tenth of the time, if it exists."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Folder:
    """A folder behind a URL. Paths are relative to it, with forward slashes."""

    url: str

    @cached_property
    def _opened(self) -> tuple[fsspec.AbstractFileSystem, str]:
        with explain_errors(self.url):
            return url_to_fs(self.url)

    @property
    def fs(self) -> fsspec.AbstractFileSystem:
        return self._opened[0]

    @property
    def is_local(self) -> bool:
        return isinstance(self.fs, LocalFileSystem)

    @property
    def compares_itself(self) -> bool:
        """Whether the store checks its files with its own checksums."""
        return get_protocol(self.url) in STORES_WITH_CHECKSUMS

    def map(self, read: Callable[[Item], Result], files: Iterable[Item]) -> list[Result]:
        """Read a small part of each of some files; read FILES_AT_ONCE in parallel from a store, to hide latency."""
        if self.is_local:
            return [read(file) for file in files]
        with ThreadPoolExecutor(FILES_AT_ONCE) as readers:
            return list(readers.map(read, files))

    def path(self, path: str) -> str:
        """Return the path of a file in this folder, in the form that its file system expects."""
        return f"{self._opened[1].rstrip('/')}/{path}" if path else self._opened[1]

    def folder(self, path: str) -> "Folder":
        return Folder(f"{self.url.rstrip('/')}/{path}")

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url}  # without the open file system: the receiving process opens its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)  # assignment to `url` raises, because the dataclass is frozen

    def count(self, requests: int = 1, **counts: int) -> None:
        """Count operations on the folder, as the number of requests that a store would receive."""
        METER.add(requests=requests, **counts)

    def exists(self, path: str) -> bool:
        self.count()
        with explain_errors(self.url):
            return bool(self.fs.exists(self.path(path)))

    def open(self, path: str) -> Stream:
        """Open a file for reading at random places."""
        url = f"{self.url}/{path}"
        self.count()  # for its size
        with explain_errors(url):
            return Stream(url, open_file(self.fs, self.path(path), at_random=True))

    def size_of(self, path: str) -> int | None:
        """Return the bytes of a file, or None if it does not exist."""
        info = self.info(path)
        return None if info is None else int(info["size"])

    def info(self, path: str) -> dict[str, Any] | None:
        """Return the current metadata of a file from its store, or None if it does not exist."""
        self.count()
        with explain_errors(f"{self.url}/{path}"):
            try:
                self.fs.invalidate_cache(self.fs._parent(self.path(path)))
                return dict(self.fs.info(self.path(path)))
            except FileNotFoundError:
                return None

    def read(self, path: str) -> bytes:
        self.count(2)
        with explain_errors(f"{self.url}/{path}"):
            content = bytes(self.fs.cat_file(self.path(path)))
        METER.add(read=len(content))
        return content

    def read_if_there(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except Denied as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def listed(self, path: str) -> dict[str, dict[str, Any]]:
        """List the files below a path, relative to this folder, sorted, each with its metadata from the store."""
        self.count(2)
        with explain_errors(f"{self.url}/{path}"):
            self.fs.invalidate_cache()
            top, place = self.path(""), self.path(path).rstrip("/")
            listing = self.fs.find(place, detail=True) if self.fs.exists(place) else {}
            # Some stores list an empty folder as a file.
            infos = {str(name).rstrip("/"): info for name, info in listing.items()}
            return {
                name.removeprefix(top).lstrip("/"): infos[name] for name in sorted(infos) if name != place
            }

    def files(self, path: str) -> list[str]:
        """List the files below a path, sorted, relative to this folder."""
        return list(self.listed(path))

    def folders(self, path: str) -> list[str]:
        """List the names of the folders directly in a folder, sorted; none if it does not exist."""
        self.count()
        with explain_errors(f"{self.url}/{path}"), suppress(FileNotFoundError):
            self.fs.invalidate_cache()
            entries = self.fs.ls(self.path(path), detail=True)
            names = (str(entry["name"]).rstrip("/") for entry in entries if entry["type"] == "directory")
            return sorted(name.rpartition("/")[2] for name in names)
        return []

    def stamps_in(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the name and the stamp of each file of a folder; a stamp changes with the file's content."""
        with explain_errors(f"{self.url}/{path}"), suppress(FileNotFoundError):
            yield from stamps_in(self.fs, self.path(path), is_local=self.is_local)

    def written(self, path: str) -> dict[str, tuple[int, float]]:
        """List the files below a path with their bytes and their modification times, in seconds since 1970."""
        return {name: (int(info["size"]), seconds_of(info)) for name, info in self.listed(path).items()}

    def written_at(self, path: str) -> float:
        """Return the modification time of a file in seconds since 1970; listings may lack a new file."""
        with explain_errors(f"{self.url}/{path}"):
            self.fs.invalidate_cache(self.fs._parent(self.path(path)))
            return seconds_of(self.fs.info(self.path(path)))

    def digest_of(self, path: str) -> str:
        """Return the SHA-256 of a file, read in blocks of BLOCK_BYTES."""
        digest = hashlib.sha256()
        with self.open(path) as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def difference(self, path: str, size: int, digest: str) -> str | None:
        """Read a file and describe how it differs from the given size and SHA-256; return None if it is equal."""
        actual = self.size_of(path)
        if actual != size:
            return "is missing" if actual is None else f"has {actual:,} bytes, expected {size:,}"
        return None if self.digest_of(path) == digest else "has another content than was written"

    def write(self, path: str, content: bytes, *, read_only: bool = False) -> None:
        with self.scratch_file() as scratch:
            scratch.write_bytes(content)
            self.put(scratch, path, read_only=read_only)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file in one step unless it exists; return False if it exists.

        If several processes try at once, True is returned to only one of them: by a hard link, or by the store,
        which refuses later requests. A store without conditional writes is checked for the file before the write.
        """
        self.count(files=1, written=len(content))
        with explain_errors(f"{self.url}/{path}"):
            if not self.is_local:
                return create_in_store(self.fs, self.path(path), content)
            with self.scratch_file() as scratch:
                scratch.write_bytes(content)
                return link_as(scratch, Path(self.path(path)))

    @contextmanager
    def scratch_file(self) -> Iterator[Path]:
        """Yield a local path to write to; for a local folder it is on the same file system."""
        if self.is_local:
            parent = Path(self.path(SCRATCH))
            with explain_errors(self.url):
                make_folder(parent)
        else:
            parent = Path(tempfile.gettempdir())
        scratch = parent / scratch_name()
        try:
            with explain_errors(str(parent)):
                yield scratch
        finally:
            with suppress(OSError):  # for example a read-only folder, which has already raised an error
                scratch.unlink()

    def put(self, scratch: Path, path: str, *, read_only: bool = False) -> None:
        """Put a local file in place in one step; in a local folder the scratch file is moved.

        read_only: make it read-only, because a published file shares its bytes with the artifact it was linked
        from.
        """
        target = self.path(path)
        size = scratch.stat().st_size
        self.count(1 if size < UPLOAD_BYTES else 2 + -(-size // UPLOAD_BYTES), files=1, written=size)
        with explain_errors(f"{self.url}/{path}"):
            if self.is_local:
                if read_only:
                    with suppress(OSError):  # a file system without permissions
                        scratch.chmod(READ_ONLY)
                make_folder(Path(target).parent)
                os.replace(scratch, target)
            else:
                self.fs.put_file(str(scratch), target)

    def copy(self, path: str, to: str) -> None:
        """Give a file a second name: a hard link for local files, otherwise a copy in the store."""
        source, target = self.path(path), self.path(to)
        self.count(2, files=1)
        with explain_errors(f"{self.url}/{to}"):
            if not self.is_local:
                self.fs.cp_file(source, target)
                return
            make_folder(Path(target).parent)
            try:
                os.link(source, target)
            except OSError:  # a file system without hard links
                shutil.copyfile(source, target)

    def delete(self, path: str) -> None:
        """Remove a file or a folder with its content; do nothing if it does not exist."""
        with explain_errors(f"{self.url}/{path}"):
            if not self.is_local:
                self.fs.invalidate_cache()
                for file in self.fs.find(self.path(path)):
                    with suppress(FileNotFoundError):  # another build may remove it at the same time
                        self.fs.rm_file(file)  # `rm` interprets brackets in a name as a pattern
            elif self.fs.exists(self.path(path)):
                self.fs.rm(self.path(path), recursive=True)

    def remove(self, path: str) -> None:
        """Remove a file with a single request; do nothing if it does not exist."""
        self.count(files=-1)
        with explain_errors(f"{self.url}/{path}"), suppress(FileNotFoundError):
            self.fs.rm_file(self.path(path))

    def replace_folder(self, path: str, to: str) -> None:
        """Move a folder of local files to `to`, and remove the folder that exists there."""
        old = Path(self.path(f"{SCRATCH}/{scratch_name()}"))
        with explain_errors(f"{self.url}/{to}"):
            replace_folder(Path(self.path(path)), Path(self.path(to)), old)

    def check_writable(self) -> None:
        """Check that files can be written here, and leave none. Raises Denied if that fails."""
        if self.is_local:
            place = Path(self.path(""))
            with explain_errors(self.url):
                nearest = next(parent for parent in (place, *place.parents) if parent.exists())
            if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
                raise Denied(f"{self.url}: nothing can be written there: {nearest} is not a writable folder")
            return
        path = f"{SCRATCH}/{scratch_name()}"
        with explain_errors(self.url):
            self.fs.pipe_file(self.path(path), b"")
            self.fs.rm_file(self.path(path))

    def clear_scratch(self) -> None:
        """Remove the scratch files of ended processes of this machine."""
        for parent in [Path(tempfile.gettempdir()), *([Path(self.path(SCRATCH))] if self.is_local else [])]:
            remove_orphans(parent)
