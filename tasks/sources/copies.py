"""Copies of sources that `zyda fetch` made, and their table, from which a recipe builds with the copies.

A copied file keeps its URL, version and name, which determine its number and its order: a build from copies gives
the same corpus as a build from the originals. `fetched.parquet` lists all files of the sources, including the
files without a copy, which are read from their original URL.
"""

import io
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.errors import Denied, bad_input, first_line
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.hub import at_commit
from zyda_flows.tasks.sources.input_files import InputFile, Location
from zyda_flows.tasks.sources.listing import list_files
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of

FETCHED = "fetched.parquet"
SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("pattern", pa.string()),
        ("revision", pa.string()),
        ("url", pa.string()),
        ("name", pa.string()),
        ("version", pa.string()),
        ("size", pa.int64()),
        ("commit", pa.string()),
        ("path", pa.string()),
        ("sha256", pa.string()),
        ("copy_version", pa.string()),
    ]
)


COPIES = "copies"
COPY_PATH = re.compile(COPIES + r"/[^/]+/[0-9a-f]{12}/[^/]+")  # other paths are not read
DIGEST = b"zyda.rows"  # metadata with the digest of all rows: Parquet footers have no checksums


class FetchedFile(Record):
    """A listed file of a source and its copy: `path` in the folder of copies, empty without a copy.

    sha256: of the content, if known. copy_version: the version in the store of the copy when the copy was made.
    """

    source: str
    pattern: str
    revision: str = ""
    url: str
    name: str
    version: str
    size: int
    commit: str = ""
    path: str = ""
    sha256: str = ""
    copy_version: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the content, by which a copy is matched with files of any source and pattern."""
        return self.url, self.version

    @property
    def mark(self) -> tuple[str, str, str]:
        """The identity of the copy, which differs between copies made at different times."""
        return self.path, self.sha256, self.copy_version

    def copied_as(self, copy: "FetchedFile | None") -> "FetchedFile":
        """Return this file with the copy of a file with the same key; unchanged if `copy` is None."""
        if copy is None:
            return self
        own = {"path": copy.path, "sha256": copy.sha256, "copy_version": copy.copy_version}
        return self.model_copy(update=own)

    def input_file(self, folder: Folder) -> InputFile:
        """Return the file as a build reads it: from its copy, or from the original if there is no copy."""
        location = None
        if self.path:
            location = Location(
                url=f"{folder.url}/{self.path}", version=self.copy_version, commit=self.commit
            )
        elif self.commit:
            pinned = at_commit(self.url, self.commit)
            location = Location(url=pinned, commit=self.commit, sha256=self.sha256)
        return InputFile(
            url=self.url, name=self.name, version=self.version, size=self.size, location=location
        )


def write_fetched(folder: Folder, files: Iterable[FetchedFile]) -> None:
    """Write the whole table of copies."""
    rows: list[dict[str, Any]] = [file.model_dump() for file in files]
    table = pa.Table.from_pylist(rows, SCHEMA).replace_schema_metadata({DIGEST: digest_of(rows)})
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", write_page_checksum=True)
    folder.write(FETCHED, content.getvalue())


def read_fetched(folder: Folder) -> tuple[FetchedFile, ...]:
    """Read the table of copies; empty if it is missing. Raises Denied if it is damaged."""
    content = folder.read_if_there(FETCHED)
    return () if content is None else parse_fetched(folder.url, content)


@lru_cache(maxsize=2)
def parse_fetched(url: str, content: bytes) -> tuple[FetchedFile, ...]:
    """Parse a table of copies. Raises Denied if it is damaged."""
    try:
        # Not from a Python file: an Arrow thread may release it while the process ends, which aborts the process.
        table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
        rows = table.to_pylist()
        if (table.schema.metadata or {}).get(DIGEST, b"").decode() != digest_of(rows):
            raise ValueError("its rows were changed after they were written")
        files = tuple(FetchedFile(**row) for row in rows)
        if invalid := [file.path for file in files if file.path and not has_valid_copy_path(file)]:
            raise ValueError(f"{invalid[0]} is not the path of a copy")
        return files
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise Denied(
            f"{url}/{FETCHED} is damaged: {first_line(error)}; delete it, and run zyda fetch again, which copies "
            "all files once more"
        ) from error


def list_source_files(source: Source, inputs: str | None) -> list[InputFile]:
    """List a source's files, ordered by URL: the current files, or the files fetched to a folder of copies.

    inputs: the folder of copies, or None. Raises BadInput, Denied, Unavailable.
    """
    files = list_files(source) if inputs is None else list_copies(source, inputs)
    if not source.format:
        return files
    return [file.model_copy(update={"format": source.format}) for file in files]


def has_valid_copy_path(file: FetchedFile) -> bool:
    """Return whether a row has a path that `zyda fetch` writes, and the version of the copy."""
    return (
        bool(COPY_PATH.fullmatch(file.path)) and ".." not in file.path.split("/") and bool(file.copy_version)
    )


def list_copies(source: Source, inputs: str) -> list[InputFile]:
    """List a source's fetched files. Raises BadInput if a pattern was not fetched at its revision, Denied."""
    folder = Folder(inputs)
    fetched = [file for file in read_fetched(folder) if file.source == source.name]
    for pattern in source.patterns:
        check_fetched(source, pattern, [file for file in fetched if file.pattern == pattern], folder)
    return by_url(file.input_file(folder) for file in fetched if file.pattern in source.patterns)


def check_fetched(source: Source, pattern: str, files: list[FetchedFile], folder: Folder) -> None:
    """Raise BadInput if a pattern has no fetched files, or files of another revision than the recipe's."""
    if not files:
        raise bad_input(source.name, f"{pattern} was not fetched to {folder.url}; run zyda fetch")
    if any(file.revision != (source.revision or "") for file in files):
        fetched, expected = files[0].revision or "the main branch", source.revision or "the main branch"
        fault = f"{pattern} was fetched at {fetched}, and the recipe has {expected}; run zyda fetch again"
        raise bad_input(source.name, fault)


def by_url(files: Iterable[InputFile]) -> list[InputFile]:
    """Return each file once, ordered by URL."""
    known = {file.url: file for file in files}
    return [known[url] for url in sorted(known)]


def copies_by_file(files: Iterable[FetchedFile]) -> dict[tuple[str, str], FetchedFile]:
    """Return the files with a copy, by key."""
    return {file.key: file for file in files if file.path}
