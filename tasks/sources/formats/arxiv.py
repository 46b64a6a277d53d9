"""arXiv's sources: tars of e-prints, each a gzip file of LaTeX or of a tar with its files.

A document is the main file of an e-print with its inputs in their places; `extract: latex` makes text of it.
E-prints without LaTeX, for example of PDF alone, are skipped and counted by their kind. A gzip file by itself is
one e-print.
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
    Bad,
    Outcome,
    Skip,
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
USTAR, AT = b"ustar", 257  # how a tar is known
BEGINNING = 1 << 16  # bytes of a file that show its kind


class Eprints:
    """The e-prints of a file. They are counted."""

    def __init__(self, stream: Input) -> None:
        self.stream, self.count = stream, 0

    def __iter__(self) -> Iterator[Outcome]:
        for member in self.members():
            self.count += not member.is_rest
            yield (
                Bad(f"{named(member)}{member.fault}", member.content, member.is_rest)
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
        return Skip(
            path.suffix.lower().removeprefix(".").upper() if path.suffix.lower() == ".pdf" else "other file"
        )
    try:
        latex, main = latex_of(files_of(path.stem, member.content))
    except NoLatex as found:
        return Skip(str(found))
    except TooLarge as error:
        return Bad(f"{member.name}: {error}")
    except DAMAGED_MEMBER as error:
        return Bad(f"{member.name}: its data are damaged: {first_line(error)}", member.content)
    arxiv_id, version = identity(path.stem)
    url = f"https://arxiv.org/abs/{arxiv_id}" if arxiv_id else None
    return {"text": latex, "arxiv_id": arxiv_id, "version": version, "main_file": main, "url": url}


def files_of(name: str, content: bytes) -> dict[str, bytes]:
    """Unpack an e-print; of files that are no sources of LaTeX, the beginnings suffice.

    Raises TooLarge, and one of DAMAGED_MEMBER.
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
    """Yield chunks. Raises TooLarge if they have more bytes in all than allowed."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise TooLarge(f"it has more than {most:,} bytes when it is decompressed")
        yield chunk


def identity(stem: str) -> tuple[str | None, int | None]:
    """Return an e-print's id, as 2001.00001 or hep-th/9901001, and its version, if its file's name has them."""
    found = ID.match(stem)
    if found is None:
        return None, None
    return found[1] or f"{found[2]}/{found[3]}", int(found[4]) if found[4] else None


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
    """Return the columns that all files have, after a look at the first e-prints."""
    return checked_outcomes(stream, Eprints(stream), SCHEMA, text, may_be_bad=may_be_bad), (FilePiece(),)


def first_rows(stream: Input, count: int) -> Chunk:
    """Return the first e-prints, up to the last of so many documents."""
    return first_documents(Eprints(stream), SCHEMA, count)


def read(
    stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
) -> Iterator[Chunk]:
    """Read all e-prints."""
    eprints = Eprints(stream)
    yield from chunks_of_outcomes(eprints, SCHEMA, text, tally, selection)
    tally.rows += eprints.count
