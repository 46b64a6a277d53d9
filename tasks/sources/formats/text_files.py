"""Plain text and Markdown: a document in each file, in UTF-8."""

from collections.abc import Iterator

import pyarrow as pa

from tasks.sources.compression import COMPRESSIONS
from tasks.sources.formats.whole_files import columns, read_whole
from tasks.sources.listing import Piece
from tasks.sources.rows import Chunk, Tally
from tasks.sources.selection import ALL, Selection
from tasks.sources.streams import Input

NAME = "txt"
ENDINGS = tuple(f"{stem}{end}" for stem in (".txt", ".md") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 1


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[Piece, ...]]:
    """Return the columns that all files have."""
    return columns(stream, text), (Piece(),)


def read(stream: Input, piece: Piece, text: str, tally: Tally, selection: Selection = ALL) -> Iterator[Chunk]:
    """Read the text, without the mark with which Windows begins one."""
    return read_whole(stream, lambda content: content.decode("utf-8-sig"), text, tally, selection)
