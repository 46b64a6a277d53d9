"""The files of a source: where each lies, its version and its pieces; and the stored lists of them.

A file is identified by its URL and its version (size and ETag, checksum or time of change). A file that is
replaced at the same URL is a new file: the register (`tasks.sources.register`) gives it a new number, and the
documents of the old file leave the corpus.
"""

import hashlib
import zlib
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, read_record, write_record


class FilePiece(Record):
    """A part of a file that is ingested by itself: row groups of a Parquet file, or a whole file.

    part: its number within the file. first_row: the number of its first row. rows: the number of its rows, if the
    footer of the file states it.
    """

    part: int = 0
    first_row: int = 0
    row_groups: tuple[int, ...] | None = None
    rows: int | None = None


WHOLE = FilePiece()


class Location(Record):
    """The place from which a file is read: a URL, its version in that store, and its commit, if it has one.

    sha256: of the content, if the store states it.
    """

    url: str
    version: str = ""
    commit: str = ""
    sha256: str = ""


class InputFile(Record):
    """A file of a source. number: -1 until the register assigns a number.

    format: from the recipe, for files whose names do not show it. name: the path below the fixed part of the
    pattern that matched the file; samples are chosen by it, so that they are the same wherever the files lie.
    location: the place from which the file is read, if it is not its URL; results do not depend on it.
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
        """The identity of the file among all files of a source. The same file in another format is another file."""
        return self.url, self.version, self.format

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that determine the rows of the file and their numbers."""
        return self.model_dump(exclude={"pieces", "location"})

    @property
    def seed(self) -> int:
        """A number for the sampling of rows that does not depend on the place of the file."""
        # Not `hash()`, which differs between processes.
        return zlib.crc32((self.name or self.url.rpartition("/")[2]).encode())


class NumberedSource(Record):
    """A source with its number in document ids, and the path of the list of its files."""

    source: str
    number: int
    listing: str


class Listing(Record):
    """The files of a source that a build uses, ordered by URL."""

    files: tuple[InputFile, ...]


def save_listing(folder: Folder, source: str, files: Sequence[InputFile]) -> str:
    """Write the list of a source's files and return its path, which contains a hash of the list.

    The hash does not depend on the locations of the files.
    """
    without_locations = Listing(files=tuple(file.model_copy(update={"location": None}) for file in files))
    path = f"{WORK}/listings/{source}-{digest_of(without_locations.model_dump_json())}.json"
    write_record(folder, path, Listing(files=tuple(files)))
    return path


def load_listing(folder: Folder, path: str) -> tuple[InputFile, ...]:
    """Read a list of files. Raises Damaged if it is missing or was changed."""
    listing = read_record(folder, path, Listing)
    if listing is None:
        raise Damaged(f"{folder.url}/{path} is missing", path)
    return listing.files


def sampled_files(files: Sequence[InputFile], fraction: float) -> list[InputFile]:
    """Choose the smallest number of files that can give a sample, by a hash of their paths below the pattern."""
    # `Fraction` of the decimal text: the float product 0.07 * 100 is above 7 and would select an eighth file.
    count = ceil(Fraction(str(fraction)) * len(files))
    ranked = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())
    return sorted(ranked[:count], key=lambda file: file.url)
