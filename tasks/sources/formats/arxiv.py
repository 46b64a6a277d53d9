"""arXiv's sources: tars of e-prints. An e-print is a gzip file of LaTeX, or of a tar with its files.

A document is the main file of an e-print with its inputs inserted; `extract: latex` converts it to text. E-prints
without LaTeX, for example with only a PDF, are skipped and counted by kind. A single gzip file is one e-print.
"""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import PurePosixPath
from posixpath import normpath
from tarfile import BLOCKSIZE

import pyarrow as pa

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.extraction.eprints import NoLatex, TooLarge, is_source, latex_of
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.compression import chunks_of
from zyda_flows.tasks.sources.decoders import DAMAGED_MEMBER
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.outcomes import (
    BadRecord,
    Outcome,
    SkippedRecord,
    checked_outcomes,
    chunks_of_outcomes,
    first_documents,
)
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input
from zyda_flows.tasks.sources.tar_members import TarMember, TarMembers
from zyda_flows.tasks.storage.stores import Stream

NAME = "arxiv"
ENDINGS = (".tar",)
AT_RANDOM = False
VERSION = 1
SCHEMA = pa.schema(
    [
        ("text", pa.large_string()),
        ("arxiv_id", pa.string()),
        ("version", pa.int16()),
        ("main_file", pa.string()),
        ("url", pa.string()),
    ]
)
ID = re.compile(r"^(?:(\d{4}\.\d{4,5})|([a-z-]+(?:\.[A-Z]{2})?)/?(\d{7}))(?:v(\d+))?$")
USTAR, AT = b"ustar", 257  # the mark of a tar, and its position
BEGINNING = 1 << 16  # bytes of a file that suffice to determine its kind


class Eprints:
    """The e-prints of a file as outcomes. count: of the e-prints read."""

    def __init__(self, stream: Input) -> None:
        self.stream, self.count = stream, 0

    def __iter__(self) -> Iterator[Outcome]:
        for member in self.members():
            self.count += not member.is_rest
            yield (
                BadRecord(f"{named(member)}{member.fault}", member.content, member.is_rest)
                if member.fault
                else (outcome_of(member))
            )

    def members(self) -> Iterator[TarMember]:
        if self.stream.url.lower().endswith(ENDINGS):
            yield from TarMembers(chunks_of(self.stream, None), limits().eprint_bytes, has_end=True)
            return
        most = limits().eprint_bytes
        content = self.stream.read(most + 1)
        fault = f"it has more than {most:,} bytes" if len(content) > most else ""
        yield TarMember(self.stream.url.rpartition("/")[2], content, fault)


def named(member: TarMember) -> str:
    return f"{member.name}: " if member.name else ""


def outcome_of(member: TarMember) -> Outcome:
    """Return the outcome of an e-print."""
    path = PurePosixPath(member.name)
    if path.suffix.lower() != ".gz":
        return SkippedRecord(
            path.suffix.lower().removeprefix(".").upper() if path.suffix.lower() == ".pdf" else "other file"
        )
    try:
        latex, main = latex_of(files_of(path.stem, member.content))
    except NoLatex as kind:
        return SkippedRecord(str(kind))
    except TooLarge as error:
        return BadRecord(f"{member.name}: {error}")
    except DAMAGED_MEMBER as error:
        return BadRecord(f"{member.name}: its data are damaged: {first_line(error)}", member.content)
    arxiv_id, version = identity(path.stem)
    url = f"https://arxiv.org/abs/{arxiv_id}" if arxiv_id else None
    return {"text": latex, "arxiv_id": arxiv_id, "version": version, "main_file": main, "url": url}


def files_of(name: str, content: bytes) -> dict[str, bytes]:
    """Unpack an e-print: its files by path. Files that are not LaTeX sources are cut to their beginning.

    Raises TooLarge, and an error of DAMAGED_MEMBER.
    """
    chunks = bounded(chunks_of(Stream(name, io.BytesIO(content)), "gzip"), limits().eprint_bytes)
    head = bytearray()
    for chunk in chunks:
        head += chunk
        if len(head) >= BLOCKSIZE:
            break
    unpacked = chain([bytes(head)], chunks)
    if len(head) < BLOCKSIZE or not head.startswith(USTAR, AT):
        content = b"".join(unpacked)
        return {f"{name}.tex" if b"\\" in content else name: content}
    files = dict[str, bytes]()
    for member in TarMembers(unpacked, limits().eprint_bytes, has_end=False):
        if member.fault:
            raise EOFError(f"{named(member)}{member.fault}")
        if len(files) == limits().eprint_files:
            raise TooLarge(f"it has more than {limits().eprint_files:,} files")
        path = normpath(member.name)
        files[path] = member.content if is_source(path, member.content) else member.content[:BEGINNING]
    return files


def bounded(chunks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Yield chunks. Raises TooLarge if they have more than `most` bytes in total."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise TooLarge(f"it has more than {most:,} bytes when it is decompressed")
        yield chunk


def identity(stem: str) -> tuple[str | None, int | None]:
    """Return an e-print's id, such as 2001.00001 or hep-th/9901001, and its version, if the name has them."""
    match = ID.match(stem)
    if match is None:
        return None, None
    return match[1] or f"{match[2]}/{match[3]}", int(match[4]) if match[4] else None


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns of all files, after checking the first e-prints."""
    return checked_outcomes(stream, Eprints(stream), SCHEMA, text, may_be_bad=may_be_bad), (FilePiece(),)


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first e-prints, up to the document number `count`."""
    return first_documents(Eprints(stream), SCHEMA, count)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read all e-prints."""
    eprints = Eprints(stream)
    yield from chunks_of_outcomes(eprints, SCHEMA, text, tally, selection)
    tally.rows += eprints.count
