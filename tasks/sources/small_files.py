"""Files that a recipe names beside its sources and that are read whole: evaluation sets, deny lists."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256

from pydantic import Field

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.compression import DecompressedTooLarge, compression_in, whole_content
from zyda_flows.tasks.sources.listing import InputFile, list_files, read_listed_file
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.stores import Stream


class PlannedFile(Record):
    """A file as it was listed. What is made with it depends on its content, not on where that lies."""

    listed: InputFile = Field(exclude=True)
    sha256: str


def planned_files(
    name: str, urls: tuple[str, ...], revision: str | None = None, most: int | None = None
) -> tuple[PlannedFile, ...]:
    """Find files. name: says whose they are in errors. most: bytes that each may have, those of a list without.

    Raises BadInput where there are none or one is too large, Denied, Unavailable.
    """
    source = Source.model_construct(name=name, files=urls, revision=revision)
    with errors_about(name):
        return tuple(
            PlannedFile(listed=file, sha256=digest_as_listed(name, file, most)) for file in list_files(source)
        )


@lru_cache(maxsize=1024)
def digest_as_listed(name: str, file: InputFile, most: int | None) -> str:
    return sha256(read_listed_file(name, file, most)).hexdigest()


@contextmanager
def errors_about(name: str) -> Iterator[None]:
    """Name what is read here by its own name in errors, which are those of sources."""
    try:
        yield
    except BadInput as error:
        raise BadInput(str(error).replace(f"source {name}", name, 1)) from error


def read_planned_file(name: str, file: PlannedFile, most: int | None = None) -> bytes:
    """Read a file as it was planned. Raises BadInput where it has changed, or has more than `most` bytes.

    Without `most` it is a list, or a file of an evaluation set.
    """
    with errors_about(name):
        content = read_listed_file(name, file.listed, most)
    if sha256(content).hexdigest() != file.sha256:
        raise BadInput(f"{name}, file {file.listed.url}: it has changed since the build began; build again")
    return content


def decompress_list(content: bytes, where: str) -> bytes:
    """Return what is compressed as it was before, and anything else as it is. Raises what `lines.DAMAGED` names."""
    compression = compression_in(content)
    found = whole_content(Stream(where, io.BytesIO(content)), compression, limits().list_bytes)
    if (lines := found.count(b"\n")) > limits().list_lines:
        raise DecompressedTooLarge(f"it has {lines:,} lines, expected at most {limits().list_lines:,}")
    return found
