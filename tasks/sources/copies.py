"""Copies of sources that `zyda fetch` made, and the table of them, by which a recipe builds from the copies.

A file keeps its URL, its version and its name, of which its number and its place among others come: what is
built from a copy is what would have been built from the original. `fetched.parquet` has all files of the sources
as they were listed, also those that have no copy yet; these are read where they are.
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
from zyda_flows.tasks.sources.listing import InputFile, Location, list_files
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
PLACE = re.compile(COPIES + r"/[^/]+/[0-9a-f]{12}/[^/]+")  # of a copy; nothing else is read
DIGEST = b"zyda.rows"  # of all rows, in the table's metadata: footers of Parquet have no checksums


class FetchedFile(Record):
    """A file of a source as it was listed, and its copy: `path` in the folder of copies, empty where there is none.

    sha256: of its content, where it is known. copy_version: what the store of the copy said of it when it was made.
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
        """What says which copy is its own, whichever pattern of which source found it."""
        return self.url, self.version

    @property
    def mark(self) -> tuple[str, str, str]:
        """What tells its copy from one that was made before or after."""
        return self.path, self.sha256, self.copy_version

    def copied_as(self, copy: "FetchedFile | None") -> "FetchedFile":
        """Return it with the copy of another one of its key, if there is one."""
        if copy is None:
            return self
        own = {"path": copy.path, "sha256": copy.sha256, "copy_version": copy.copy_version}
        return self.model_copy(update=own)

    def input_file(self, folder: Folder) -> InputFile:
        """Return the file as a build reads it: its copy, or the original where there is none."""
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
    """Write the table of copies, whole."""
    rows: list[dict[str, Any]] = [file.model_dump() for file in files]
    table = pa.Table.from_pylist(rows, SCHEMA).replace_schema_metadata({DIGEST: digest_of(rows)})
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", write_page_checksum=True)
    folder.write(FETCHED, content.getvalue())


def read_fetched(folder: Folder) -> tuple[FetchedFile, ...]:
    """Read the table of copies; nothing where there is none. Raises Denied where it is damaged."""
    content = folder.read_if_there(FETCHED)
    return () if content is None else parse_fetched(folder.url, content)


@lru_cache(maxsize=2)
def parse_fetched(url: str, content: bytes) -> tuple[FetchedFile, ...]:
    """Read the rows of a table of copies. Raises Denied."""
    try:
        # Not from a file of Python: a thread of Arrow may release it while the process ends, which aborts it.
        table = pq.read_table(pa.BufferReader(content), page_checksum_verification=True)
        rows = table.to_pylist()
        if (table.schema.metadata or {}).get(DIGEST, b"").decode() != digest_of(rows):
            raise ValueError("its rows are not those that were written")
        files = tuple(FetchedFile(**row) for row in rows)
        if odd := [file.path for file in files if file.path and not has_valid_copy_path(file)]:
            raise ValueError(f"{odd[0]} is no path of a copy")
        return files
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise Denied(
            f"{url}/{FETCHED} is damaged: {first_line(error)}; delete it, and run zyda fetch again, which copies "
            "all files once more"
        ) from error


def list_source_files(source: Source, inputs: str | None) -> list[InputFile]:
    """List a source's files by URL: as they are now, or as they were fetched to a folder of copies.

    Raises BadInput, Denied, Unavailable.
    """
    files = list_files(source) if inputs is None else list_copies(source, inputs)
    said = source.format
    return [file.model_copy(update={"format": said}) for file in files] if said else files


def has_valid_copy_path(file: FetchedFile) -> bool:
    """Say whether a row names a copy as `zyda fetch` places it, and what its store said of it."""
    return bool(PLACE.fullmatch(file.path)) and ".." not in file.path.split("/") and bool(file.copy_version)


def list_copies(source: Source, inputs: str) -> list[InputFile]:
    """List a source's files as they were fetched. Raises BadInput where a pattern was not, and Denied."""
    folder = Folder(inputs)
    fetched = [file for file in read_fetched(folder) if file.source == source.name]
    for pattern in source.patterns:
        of_pattern = [file for file in fetched if file.pattern == pattern]
        if any(file.revision != (source.revision or "") for file in of_pattern):
            was = of_pattern[0].revision or "the main branch"
            fault = (
                f"{pattern} was fetched at {was}, and the recipe says {source.revision or 'the main branch'}"
            )
            raise bad_input(source.name, f"{fault}; run zyda fetch again")
        if not of_pattern:
            raise bad_input(source.name, f"{pattern} was not fetched to {folder.url}; run zyda fetch")
    return by_url(file.input_file(folder) for file in fetched if file.pattern in source.patterns)


def by_url(files: Iterable[InputFile]) -> list[InputFile]:
    """Return each file once, in the order of the URLs."""
    known = {file.url: file for file in files}
    return [known[url] for url in sorted(known)]


def copies_by_file(files: Iterable[FetchedFile]) -> dict[tuple[str, str], FetchedFile]:
    """Return the files that have a copy, by their keys."""
    return {file.key: file for file in files if file.path}
