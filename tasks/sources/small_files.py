"""Files that a recipe names in addition to its sources and that are read whole: evaluation sets, deny lists."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256

from pydantic import Field

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.compression import whole_content
from zyda_flows.tasks.sources.decoders import DecompressedTooLarge, compression_in
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.sources.listing import list_files, read_listed_file
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.stores import Stream


class PlannedFile(Record):
    """A file as it was listed. Results depend on its content, not on its place."""

    listed: InputFile = Field(exclude=True)
    sha256: str


def planned_files(
    name: str, urls: tuple[str, ...], revision: str | None = None, most: int | None = None
) -> tuple[PlannedFile, ...]:
    """List files and hash their content.

    name: names their owner in errors. most: bytes that each file may have; by default, the limit of lists.
    Raises BadInput if there are no files or a file is too large, Denied, Unavailable.
    """
    source = Source.model_construct(name=name, files=urls, revision=revision)
    with errors_about(name):
        return tuple(planned_file(name, file, most) for file in list_files(source))


def planned_file(name: str, file: InputFile, most: int | None = None) -> PlannedFile:
    """Hash the content of a file. name, most: as of `planned_files`."""
    with errors_about(name):
        return PlannedFile(listed=file, sha256=digest_as_listed(name, file, most))


@lru_cache(maxsize=1024)
def digest_as_listed(name: str, file: InputFile, most: int | None) -> str:
    return sha256(read_listed_file(name, file, most)).hexdigest()


@contextmanager
def errors_about(name: str) -> Iterator[None]:
    """Replace "source NAME" by NAME in errors, for files that are no sources."""
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(f"source {name}", name, 1)) from error


def read_planned_file(name: str, file: PlannedFile, most: int | None = None) -> bytes:
    """Read a planned file. Raises BadInput if it has changed or has more than `most` bytes.

    most: by default, the limit of lists and evaluation sets.
    """
    with errors_about(name):
        content = read_listed_file(name, file.listed, most)
    if sha256(content).hexdigest() != file.sha256:
        raise BadInput(f"{name}, file {file.listed.url}: it has changed since the build began; build again")
    return content


def decompress_list(content: bytes, where: str) -> bytes:
    """Return content without its compression, if it has one. Raises the errors in `byte_lines.DAMAGED`."""
    compression = compression_in(content)
    plain = whole_content(Stream(where, io.BytesIO(content)), compression, limits().list_bytes)
    if (lines := plain.count(b"\n")) > limits().list_lines:
        raise DecompressedTooLarge(f"it has {lines:,} lines, expected at most {limits().list_lines:,}")
    return plain
