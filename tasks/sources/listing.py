"""Which files a source has, as its store lists them.

A file is known by its URL and its version (size and ETag, checksum or time of change, from the listing
alone): one that changed in place is a new file, which the register (`tasks.sources.register`) gives a new
number, and the old one's documents leave the corpus.
"""

import hashlib
import io
import os
import re
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from zyda_flows.tasks.errors import BadInput, Damaged, Denied, Unavailable, ZydaError, bad_input, first_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.file_lists import FilesFrom, selected
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.recipe.values import has_commits
from zyda_flows.tasks.sources.compression import COMPRESSIONS, DAMAGED_MEMBER, compression_in, whole_content
from zyda_flows.tasks.sources.file_systems import file_system_of, is_temporary, version_of
from zyda_flows.tasks.sources.hub import as_in_pattern, at_commit, commit_of
from zyda_flows.tasks.sources.streams import open_input
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.failures import unavailable
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record
from zyda_flows.tasks.storage.stamps import is_utf8
from zyda_flows.tasks.storage.stores import Stream, ask_again, explain_errors

WILDCARDS = "*?["
CONCURRENT_REQUESTS = 16  # about files of a list
INVALID_LIST: tuple[type[Exception], ...] = (*DAMAGED_MEMBER, UnicodeDecodeError)


class FilePiece(Record):
    """A part of a file that is ingested alone: row groups of a Parquet file, or all of a file.

    `part` is its number within the file, `first_row` the number of its first row, `rows` how many it has
    where the file's footer says so.
    """

    part: int = 0
    first_row: int = 0
    row_groups: tuple[int, ...] | None = None
    rows: int | None = None


class Location(Record):
    """Where a file is read: a URL, the version that its store gives it there, and the commit, if it has one.

    sha256: of its content, where its store says it.
    """

    url: str
    version: str = ""
    commit: str = ""
    sha256: str = ""


class InputFile(Record):
    """A file of a source. `number` is -1 until the register gives one.

    `format` is what its recipe says that it is, where its name does not. `name` is its path below the fixed
    part of the pattern that found it: what a sample goes by, so that it is the same wherever the files lie.
    `location` is where it is read, where that is not its URL. What is made of a file does not depend on that.
    """

    url: str
    name: str = ""
    version: str
    size: int
    number: int = -1
    pieces: tuple[FilePiece, ...] = ()
    location: Location | None = None
    format: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from all others: read as another format it is another file."""
        return self.url, self.version, self.format

    @property
    def identity(self) -> dict[str, Any]:
        """What decides what its rows are and how they are numbered."""
        return self.model_dump(exclude={"pieces", "location"})

    @property
    def seed(self) -> int:
        """A number that is the same wherever the file lies, for the choice of its rows."""
        # No `hash()`: that of a text differs from process to process.
        return zlib.crc32((self.name or self.url.rpartition("/")[2]).encode())


class NumberedSource(Record):
    """A source with its number in document ids, and the path of the list of its files."""

    source: str
    number: int
    listing: str


class Listing(Record):
    """The files of a source that a build uses, in the order of their URLs."""

    files: tuple[InputFile, ...]


def save_listing(folder: Folder, source: str, files: Sequence[InputFile]) -> str:
    """Write the list of a source's files under a name that carries a hash of it; return the path.

    Where the files are read has no part in the hash.
    """
    at_home = Listing(files=tuple(file.model_copy(update={"location": None}) for file in files))
    path = f"{WORK}/listings/{source}-{digest_of(at_home.model_dump_json())}.json"
    write_record(folder, path, Listing(files=tuple(files)))
    return path


def load_listing(folder: Folder, path: str) -> tuple[InputFile, ...]:
    """Read a list of files. Raises Damaged where it is not as it was written, or gone."""
    listing = read_record(folder, path, Listing)
    if listing is None:
        raise Damaged(f"{folder.url}/{path} is gone", path)
    return listing.files


def list_files(source: Source) -> list[InputFile]:
    """List a source's files by URL, without reading any. Raises BadInput where a pattern has none."""
    files = {file.url: file for matching in list_by_pattern(source).values() for file in matching}
    if not any(file.size for file in files.values()):
        raise bad_input(source.name, "each of its files has 0 bytes", file=next(iter(files)))
    return [files[url] for url in sorted(files)]


def list_by_pattern(source: Source) -> dict[str, list[InputFile]]:
    """List the files of each of a source's patterns. Raises BadInput where one has none."""
    finds = {
        pattern: partial(files_matching, source.name, pattern, source.revision) for pattern in source.files
    }
    finds |= {one.pattern: partial(files_in_list, source, one) for one in source.lists}
    files = dict[str, list[InputFile]]()
    for pattern, find in finds.items():
        try:
            matching = ask_again(find, waits=())
        except BadInput:
            raise
        except (Denied, ValueError) as error:  # fsspec raises it for patterns and protocols
            raise bad_input(source.name, f"{pattern} cannot be listed: {first_line(error)}") from error
        except Unavailable as error:
            raise Unavailable(f"source {source.name}: {pattern} cannot be listed: {error}") from error
        if not matching:
            raise bad_input(source.name, f"no file matches {pattern}{folder_hint(pattern)}")
        files[pattern] = matching
    return files


def files_in_list(source: Source, one: FilesFrom) -> list[InputFile]:
    """Return the files that a list names and its `select` chooses. Raises BadInput where one is not there."""
    lines = map(str.strip, read_list(source.name, one).splitlines())
    paths = [*dict.fromkeys(line for line in lines if line and not line.startswith("#"))]
    chosen = selected(paths, one.select)
    if not chosen:
        fault = f"{one.url} names {len(paths):,} files, of which `select: {one.select}` chooses none"
        raise bad_input(source.name, fault)
    with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
        return [*pool.map(partial(listed_file, source, one), chosen)]


def listed_file(source: Source, one: FilesFrom, path: str) -> InputFile:
    """Return a file that a list names."""
    url = (
        path
        if "://" in path or os.path.isabs(path)
        else (one.prefix or f"{one.url.rpartition('/')[0]}/") + path
    )
    files = ask_again(partial(files_matching, source.name, url, source.revision))
    if len(files) != 1:
        raise bad_input(source.name, f"{url} is not there; it is in the list {one.url}")
    return files[0].model_copy(update={"name": path})


def read_list(source: str, one: FilesFrom) -> str:
    """Read a list of files. Raises BadInput where it is none."""
    files = files_matching(source, one.url)
    if len(files) != 1:
        raise bad_input(source, f"there is no list of files at {one.url}")
    content = read_listed_file(source, files[0], limits().file_list_bytes)
    try:
        stream = Stream(one.url, io.BytesIO(content))
        return whole_content(stream, compression_in(content), limits().file_list_bytes).decode("utf-8-sig")
    except INVALID_LIST as error:
        raise bad_input(source, f"no list of files: {first_line(error)}", file=one.url) from error


def read_listed_file(source: str, file: InputFile, most: int | None = None) -> bytes:
    """Read a file where it was listed. Raises BadInput where it is not, or no longer, as it was then, or too large.

    most: bytes that it may have; without, as many as a list or a file of an evaluation set.
    """
    most = limits().list_bytes if most is None else most
    if file.size > most:
        raise bad_input(source, f"it has {file.size:,} bytes, expected at most {most:,}", file=file.url)
    location = file.location or Location(url="", version=file.version)
    with open_input(source, file.url, file.size, location.version, location.url, at_random=False) as stream:
        content = b"".join(iter(lambda: stream.read(1 << 20), b""))
        stream.expect_unchanged()
    return content


def files_matching(source: str, pattern: str, revision: str | None = None) -> list[InputFile]:
    """List the files of a pattern as they are now, links followed; a file with just that name is it.

    Those of a repository on the hub are listed at the commit that the revision names now.
    """
    commit = ""
    with explain_errors(pattern):
        if has_commits(pattern):
            commit = commit_of(pattern, revision)
        fs, path = file_system_of(at_commit(pattern, commit) if commit else pattern)
        fs.invalidate_cache()
        found = [file for info in pattern_infos(fs, path) for file in files_in_folder(fs, info, path)]
        infos = [*{str(file["name"]): file for file in found}.values()]
    files = [to_input_file(source, fs, info, path_below_pattern(path, str(info["name"]))) for info in infos]
    if not commit:
        return files
    digests = [(info.get("lfs") or {}).get("sha256", "") for info in infos]
    return [read_at_commit(file, pattern, commit, sha) for file, sha in zip(files, digests, strict=True)]


def read_at_commit(file: InputFile, pattern: str, commit: str, sha256: str) -> InputFile:
    """Return a file that was listed at a commit: its URL is the pattern's, and it is read at that commit."""
    location = Location(url=file.url, commit=commit, sha256=sha256)
    return file.model_copy(update={"url": as_in_pattern(file.url, pattern), "location": location})


def folder_hint(pattern: str) -> str:
    """Say what to write where a pattern without a file is a folder."""
    if not any(mark in pattern for mark in WILDCARDS):
        with suppress(ZydaError, ValueError), explain_errors(pattern):
            fs, path = file_system_of(pattern)
            if fs.isdir(path):
                return f", which is a folder: write {pattern.rstrip('/')}/** for all below it"
    return ""


def pattern_infos(fs: Any, path: str) -> list[dict[str, Any]]:
    """Return what a file system knows of the files of a pattern."""
    alone = None if "*" in path else file_info(fs, path)  # the other marks may stand in a name or an address
    if alone is not None:
        return [alone]
    infos = fs.glob(path, detail=True).values() if any(mark in path for mark in WILDCARDS) else ()
    return [info if info.get("size") is not None else file_info(fs, info["name"]) or info for info in infos]


def files_in_folder(fs: Any, info: dict[str, Any], pattern: str) -> list[dict[str, Any]]:
    """Return a file alone; of a folder with an ending, as Spark's `x.parquet`, the files in it with that ending.

    Names that begin with a dot or an underscore are marks of the program that wrote the folder.
    Raises ValueError if the pattern has the ending, and the folder has other files alone.
    """
    if info["type"] != "directory":
        return [info]
    folder = str(info["name"]).rstrip("/")
    ending = os.path.splitext(folder)[1].lower()
    if not ending:
        return []
    endings = tuple(f"{ending}{compression}" for compression in ("", *COMPRESSIONS))
    found = fs.find(folder, detail=True)
    own = {path: one for path, one in found.items() if not re.search(r"/[._]", path[len(folder) :])}
    files = [one for path, one in sorted(own.items()) if path.lower().endswith(endings)]
    if own and not files and pattern.lower().endswith(ending):
        raise ValueError(f"{folder} is a folder in which no file ends with {ending}; name its files")
    return files


def file_info(fs: Any, path: str) -> dict[str, Any] | None:
    """Return what a file system knows of a file, or None where there is none.

    Raises Unavailable where it was a server's failure that reads as if there was none.
    """
    try:
        return dict(fs.info(path))
    except FileNotFoundError as error:
        if is_temporary(error):
            raise unavailable(f"{path}: {error.__cause__}", error) from error
        return None


def path_below_pattern(pattern: str, path: str) -> str:
    """Return a file's path below the part of a pattern that has no marks; its name where none has any."""
    steps = pattern.split("/")
    fixed = next(
        (i for i, step in enumerate(steps) if any(mark in step for mark in WILDCARDS)), len(steps) - 1
    )
    return "/".join(path.split("/")[fixed:]) or path.rpartition("/")[2]


def to_input_file(source: str, fs: Any, info: dict[str, Any], name: str) -> InputFile:
    is_local = isinstance(fs, LocalFileSystem)
    url = str(info["name"] if is_local else fs.unstrip_protocol(info["name"]))
    if not is_utf8(url):
        raise bad_input(source, "its name is not UTF-8; give it another", file=url)
    if fault := unreadable_reason(info):
        raise bad_input(source, fault, file=url)
    return InputFile(url=url, name=name, version=version_of(info), size=info["size"])


def unreadable_reason(info: dict[str, Any]) -> str | None:
    """Say why what was listed cannot be read as a file, if it cannot."""
    if info["type"] == "broken":
        return f"a link to {info['destination']}, where nothing is"
    if info["type"] == "loop":
        return f"a link to {info['destination']}, which leads back to itself"
    if info["type"] == "other":
        return "neither a file nor a folder"
    if info.get("size") is None:
        return (
            "its server does not say how large it is (no Content-Length), so that nobody could tell the end"
        )
    return None


def sampled_files(files: Sequence[InputFile], fraction: float) -> list[InputFile]:
    """Choose the files of a sample: as few as can give it, by a hash of their paths below the pattern."""
    # The fraction as it is written: in floats 0.07 * 100 is more than 7, and would take an eighth file.
    count = ceil(Fraction(str(fraction)) * len(files))
    ranked = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())
    return sorted(ranked[:count], key=lambda file: file.url)
