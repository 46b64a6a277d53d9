"""HTML: a page in each file. Pages in a column of another format need none: `extract` reads any text."""

from collections.abc import Iterator

import pyarrow as pa

from tasks.extraction.decoding import decoded
from tasks.sources.compression import COMPRESSIONS
from tasks.sources.formats.whole_files import columns, read_whole
from tasks.sources.listing import Piece
from tasks.sources.rows import Chunk, Tally
from tasks.sources.selection import ALL, Selection
from tasks.sources.streams import Input

NAME = "html"
ENDINGS = tuple(f"{stem}{end}" for stem in (".html", ".htm", ".xhtml") for end in ("", *COMPRESSIONS))
AT_RANDOM = False
VERSION = 1


def inspect(
    stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
) -> tuple[pa.Schema | None, tuple[Piece, ...]]:
    """Return the columns that all files have."""
    return columns(stream, text), (Piece(),)


def read(stream: Input, piece: Piece, text: str, tally: Tally, selection: Selection = ALL) -> Iterator[Chunk]:
    """Read the page, whose encoding it says itself."""
    return read_whole(stream, lambda content: decoded(content, None), text, tally, selection)
