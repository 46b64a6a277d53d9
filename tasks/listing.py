"""Which files a source has, and the numbers they were given.

The register is the memory of a corpus: the number of each source and of each file, given once and
never used again. It is a folder of entries, each of what was new to one build, and an entry is written
only where none is yet: of two builds that number files at once, wherever they run, one begins again. A
file is known by its URL and its version (size and ETag, checksum or time of
change, from the listing alone): one that changed in place is a new file with a new number, and the
old one's documents leave the corpus.
"""

import hashlib
import zlib
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from pydantic import Field

from tasks.artifacts import WORK, Record, digest_of, read_record, seal, unseal, write_record
from tasks.errors import Damaged, Denied, Unavailable, bad_input
from tasks.ids import MAX_FILES
from tasks.recipe import Source
from tasks.storage import Folder, explained

REGISTER = f"{WORK}/register"
VERSION_FIELDS = (
    "ETag",
    "etag",
    "md5Hash",
    "checksum",
    "blob_id",
    "LastModified",
    "updated",
    "mtime",
)


class Piece(Record):
    """A part of a file that is ingested alone: row groups of a Parquet file, or all of a file.

    `part` is its number within the file, `first_row` the number of its first row.
    """

    part: int = 0
    first_row: int = 0
    row_groups: tuple[int, ...] | None = None


class InputFile(Record):
    """A file of a source. `number` is -1 until the register gives one."""

    url: str
    version: str
    size: int
    number: int = -1
    pieces: tuple[Piece, ...] = ()

    @property
    def seed(self) -> int:
        """A number that is the same wherever the file lies."""
        return zlib.crc32(self.url.rpartition("/")[2].encode())


class Register(Record):
    """The numbers of a corpus's sources and files, those of the past included, from so many entries."""

    sources: dict[str, int] = {}
    files: dict[str, tuple[InputFile, ...]] = {}
    entries: int = Field(0, exclude=True)

    def __add__(self, new: "Register") -> "Register":
        files = {name: self.files.get(name, ()) + found for name, found in new.files.items()}
        return Register(
            sources=self.sources | new.sources, files=self.files | files, entries=self.entries + 1
        )


def load_register(folder: Folder) -> Register:
    """Read all entries. Raises Denied where one is damaged: nothing else knows the numbers that it holds."""
    try:
        entries = [unseal(folder.read(path), Register, path) for path in folder.files(REGISTER)]
    except Damaged as error:
        raise Denied(
            f"{folder.url}/{error}. It holds the numbers of files, of which documents' ids are made, and cannot "
            "be made again: put it back from a copy, or delete this corpus's folder and build it anew"
        ) from error
    return sum(entries, Register())


def extend_register(folder: Folder, before: Register, after: Register) -> None:
    """Write what is new since the register was read, if anything is.

    Raises Unavailable where another build has written to it in the meantime.
    """
    files = {name: found[len(before.files.get(name, ())) :] for name, found in after.files.items()}
    new = Register(
        sources={name: n for name, n in after.sources.items() if name not in before.sources},
        files={name: found for name, found in files.items() if found},
    )
    if not new.sources and not new.files:
        return
    path = f"{REGISTER}/{before.entries:06d}.json"
    if not folder.create(path, seal(new)):
        raise Unavailable(f"{folder.url}: another build of this corpus has numbered files at the same time")


class Listing(Record):
    """The files of a source that a build uses, in the order of their URLs."""

    files: tuple[InputFile, ...]


def save_listing(folder: Folder, source: str, files: Sequence[InputFile]) -> str:
    """Write the list of a source's files under a name that carries its hash; return the path."""
    listing = Listing(files=tuple(files))
    path = f"{WORK}/listings/{source}-{digest_of(listing.model_dump_json())}.json"
    write_record(folder, path, listing)
    return path


def load_listing(folder: Folder, path: str) -> tuple[InputFile, ...]:
    """Read a list of files. Raises Damaged where it is not as it was written, or gone."""
    listing = read_record(folder, path, Listing)
    if listing is None:
        raise Damaged(f"{folder.url}/{path} is gone", path)
    return listing.files


def list_files(source: Source) -> list[InputFile]:
    """List a source's files by URL, without reading any. Raises BadInput where a pattern has none."""
    files: dict[str, InputFile] = {}
    for pattern in source.files:
        try:
            found = matches(pattern)
        except Denied as error:
            raise bad_input(source.name, f"{pattern} cannot be listed: {error}") from error
        except Unavailable as error:
            raise Unavailable(f"source {source.name}: {pattern} cannot be listed: {error}") from error
        if not found:
            raise bad_input(source.name, f"no file matches {pattern}")
        files.update((file.url, file) for file in found)
    return [files[url] for url in sorted(files)]


def matches(pattern: str) -> list[InputFile]:
    with explained(pattern):
        fs, path = url_to_fs(pattern)
        if any(mark in path for mark in "*?["):
            infos = list(fs.glob(path, detail=True).values())
        else:
            infos = [fs.info(path)] if fs.exists(path) else []
        return [input_file(fs, info) for info in infos if info["type"] == "file"]


def input_file(fs: Any, info: dict[str, Any]) -> InputFile:
    is_local = isinstance(fs, LocalFileSystem)
    url = info["name"] if is_local else fs.unstrip_protocol(info["name"])
    marks = [str(info[field]) for field in VERSION_FIELDS if info.get(field) is not None]
    version = hashlib.sha256("|".join([str(info["size"]), *marks[:1]]).encode()).hexdigest()[:16]
    return InputFile(url=url, version=version, size=info["size"])


def sampled_files(files: Sequence[InputFile], fraction: float) -> list[InputFile]:
    """Choose the files of a sample: as few as can give it, by a hash of their names."""
    count = ceil(Fraction(str(fraction)) * len(files))
    ranked = sorted(files, key=lambda file: hashlib.sha256(name_of(file.url).encode()).digest())
    return sorted(ranked[:count], key=lambda file: file.url)


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def number_sources(register: Register, names: Sequence[str]) -> Register:
    """Give each new source the next number. Raises BadInput when 256 have been used."""
    numbers = dict(register.sources)
    for name in names:
        if name not in numbers:
            numbers[name] = len(numbers)
    if len(numbers) > 256:
        raise bad_input(names[-1], "this corpus has had 256 sources; start one with a new name")
    return register.model_copy(update={"sources": numbers})


def known_files(register: Register, source: str) -> dict[tuple[str, str], InputFile]:
    return {(file.url, file.version): file for file in register.files.get(source, ())}


def number_files(register: Register, source: str, inspected: Sequence[InputFile]) -> Register:
    """Give each new file of a source the next number, in the order of their URLs."""
    before = register.files.get(source, ())
    if len(before) + len(inspected) > MAX_FILES:
        raise bad_input(source, f"more than {MAX_FILES:,} files")
    numbered = tuple(file.model_copy(update={"number": len(before) + i}) for i, file in enumerate(inspected))
    files = {**register.files, source: before + numbered}
    return register.model_copy(update={"files": files})
