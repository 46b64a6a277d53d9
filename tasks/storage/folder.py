"""The only opener of fsspec URLs: local disk, S3, GCS and whatever else fsspec reads.

A file appears whole or not at all: it is written on a local disk first and put in place in one step (a rename
on a local file system, one upload on an object store, which shows an object when its upload is complete).
Credentials and addresses are read by fsspec and its back ends from the environment, never by us.
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
BLOCK_BYTES = 8 << 20  # that are hashed at once
FILES_AT_ONCE = 8  # that a store is asked for
UPLOAD_BYTES = 50 << 20  # from which s3fs uploads a file in parts of this size


def is_local(url: str) -> bool:
    """Say whether a URL is of this machine's own files, without opening it."""
    return get_protocol(url) in {"file", "local"}


def absolute(url: str) -> str:
    """Return a URL that means the same from any working directory."""
    if "://" in url:
        return url.rstrip("/")
    return str(Path(url).expanduser().resolve())


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
        """Whether the store compares what it holds with checksums that it keeps."""
        return get_protocol(self.url) in STORES_WITH_CHECKSUMS

    def map(self, read: Callable[[Item], Result], files: Iterable[Item]) -> list[Result]:
        """Read a little of each of some files. A store, which is mostly waited for, is asked for some at once."""
        if self.is_local:
            return [read(file) for file in files]
        with ThreadPoolExecutor(FILES_AT_ONCE) as readers:
            return list(readers.map(read, files))

    def path(self, path: str) -> str:
        """Return the path of a file in this folder, as its file system wants it."""
        return f"{self._opened[1].rstrip('/')}/{path}" if path else self._opened[1]

    def folder(self, path: str) -> "Folder":
        return Folder(f"{self.url.rstrip('/')}/{path}")

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url}  # an opened file system stays here; whoever gets the folder opens its own

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)  # a frozen dataclass lets nobody set `url` by its name

    def count(self, requests: int = 1, **counts: int) -> None:
        """Count what is asked of the folder, in the requests that a store would be asked for it."""
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
        """Return the bytes of a file, or None where there is none."""
        info = self.info(path)
        return None if info is None else int(info["size"])

    def info(self, path: str) -> dict[str, Any] | None:
        """Return what the store says of a file now, or None where there is none."""
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
        """List the files below a path, relative to this folder, sorted, each with what the store says of it."""
        self.count(2)
        with explain_errors(f"{self.url}/{path}"):
            self.fs.invalidate_cache()
            top, place = self.path(""), self.path(path).rstrip("/")
            listing = self.fs.find(place, detail=True) if self.fs.exists(place) else {}
            # Some stores list an empty folder as if it were a file in itself.
            infos = {str(name).rstrip("/"): info for name, info in listing.items()}
            return {
                name.removeprefix(top).lstrip("/"): infos[name] for name in sorted(infos) if name != place
            }

    def files(self, path: str) -> list[str]:
        """List the files below a path, sorted, relative to this folder."""
        return list(self.listed(path))

    def stamps_in(self, path: str) -> Iterator[tuple[str, str]]:
        """Yield the files of one folder by name, each with its size and what else says that it is the same."""
        with explain_errors(f"{self.url}/{path}"), suppress(FileNotFoundError):
            yield from stamps_in(self.fs, self.path(path), is_local=self.is_local)

    def written(self, path: str) -> dict[str, tuple[int, float]]:
        """List the files below a path with their bytes and when they were written, in seconds since 1970."""
        return {name: (int(info["size"]), seconds_of(info)) for name, info in self.listed(path).items()}

    def written_at(self, path: str) -> float:
        """Return when a file was written, in seconds since 1970: a listing may not know yet that it is there."""
        with explain_errors(f"{self.url}/{path}"):
            self.fs.invalidate_cache(self.fs._parent(self.path(path)))
            return seconds_of(self.fs.info(self.path(path)))

    def digest_of(self, path: str) -> str:
        """Return the SHA-256 of a file, read some MiB at a time."""
        digest = hashlib.sha256()
        with self.open(path) as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def difference(self, path: str, size: int, digest: str) -> str | None:
        """Read a file and say how it differs from one of this size and SHA-256, if it does."""
        actual = self.size_of(path)
        if actual != size:
            return "is gone" if actual is None else f"has {actual:,} bytes, expected {size:,}"
        return None if self.digest_of(path) == digest else "has another content than was written"

    def write(self, path: str, content: bytes, *, read_only: bool = False) -> None:
        with self.scratch_file() as scratch:
            scratch.write_bytes(content)
            self.put(scratch, path, read_only=read_only)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file that nobody has written yet, in one step; return False where it is there already.

        Of all that try at once, one is told True: by a hard link, or by the store, which refuses the
        others' requests. A store that knows no such condition is asked before whether the file is there.
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
        """Give a local path to write; on a local folder it is one rename away from any other."""
        if self.is_local:
            parent = Path(self.path(SCRATCH))
            with explain_errors(self.url):
                parent.mkdir(parents=True, exist_ok=True)
        else:
            parent = Path(tempfile.gettempdir())
        scratch = parent / scratch_name()
        try:
            with explain_errors(str(parent)):
                yield scratch
        finally:
            with suppress(OSError):  # such as that of a folder that may only be read: it has been said
                scratch.unlink()

    def put(self, scratch: Path, path: str, *, read_only: bool = False) -> None:
        """Put a local file in place, whole; on a local folder the scratch file is moved.

        read_only: what is published shares its bytes with what it was made of, so nobody may edit it.
        """
        target = self.path(path)
        size = scratch.stat().st_size
        self.count(1 if size < UPLOAD_BYTES else 2 + -(-size // UPLOAD_BYTES), files=1, written=size)
        with explain_errors(f"{self.url}/{path}"):
            if self.is_local:
                if read_only:
                    with suppress(OSError):  # a file system without permissions
                        scratch.chmod(READ_ONLY)
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                os.replace(scratch, target)
            else:
                self.fs.put_file(str(scratch), target)

    def copy(self, path: str, to: str) -> None:
        """Give a file a second name: a hard link where files are local, else a copy in the store."""
        source, target = self.path(path), self.path(to)
        self.count(2, files=1)
        with explain_errors(f"{self.url}/{to}"):
            if not self.is_local:
                self.fs.cp_file(source, target)
                return
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, target)
            except OSError:  # a file system without hard links
                shutil.copyfile(source, target)

    def delete(self, path: str) -> None:
        """Remove a file or a folder with all that is in it; nothing happens if it is not there."""
        with explain_errors(f"{self.url}/{path}"):
            if not self.is_local:
                self.fs.invalidate_cache()
                for found in self.fs.find(self.path(path)):
                    with suppress(FileNotFoundError):  # another build may remove it, too
                        self.fs.rm_file(found)  # `rm` takes brackets in a name for a pattern
            elif self.fs.exists(self.path(path)):
                self.fs.rm(self.path(path), recursive=True)

    def remove(self, path: str) -> None:
        """Remove one file, by one request; nothing happens if it is not there."""
        self.count(files=-1)
        with explain_errors(f"{self.url}/{path}"), suppress(FileNotFoundError):
            self.fs.rm_file(self.path(path))

    def replace_folder(self, path: str, to: str) -> None:
        """Move a folder of local files to where another one may be, which goes."""
        old = Path(self.path(f"{SCRATCH}/{scratch_name()}"))
        with explain_errors(f"{self.url}/{to}"):
            replace_folder(Path(self.path(path)), Path(self.path(to)), old)

    def check_writable(self) -> None:
        """Try whether anything can be written here; nothing of it stays. Raises Denied where not."""
        if self.is_local:
            place = Path(self.path(""))
            with explain_errors(self.url):
                nearest = next(parent for parent in (place, *place.parents) if parent.exists())
            if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
                raise Denied(f"{self.url}: nothing can be written there: {nearest} is no folder to write in")
            return
        path = f"{SCRATCH}/{scratch_name()}"
        with explain_errors(self.url):
            self.fs.pipe_file(self.path(path), b"")
            self.fs.rm_file(self.path(path))

    def clear_scratch(self) -> None:
        """Remove what processes of this machine that are no more were writing."""
        for parent in [Path(tempfile.gettempdir()), *([Path(self.path(SCRATCH))] if self.is_local else [])]:
            remove_orphans(parent)
