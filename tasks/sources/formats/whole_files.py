"""Files that hold a single document: HTML, plain text and Markdown.

Pages in a column of another format do not need this module: `extract` reads any text.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from zyda_flows.tasks.errors import first_line
from zyda_flows.tasks.extraction.decoding import decode_page
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.byte_lines import UNREADABLE
from zyda_flows.tasks.sources.compression import chunks_of
from zyda_flows.tasks.sources.decoders import COMPRESSIONS, compression_of
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally, checked_columns
from zyda_flows.tasks.sources.input_files import FilePiece
from zyda_flows.tasks.sources.outcomes import BadRecord, Outcome, chunks_of_outcomes, first_documents
from zyda_flows.tasks.sources.selection import ALL, Selection
from zyda_flows.tasks.sources.streams import Input, damage

# For a local file only its name is published, because its path is private.
SCHEMA = pa.schema([("text", pa.large_string()), ("url", pa.string()), ("file", pa.string())])
Decode = Callable[[bytes], str]  # raises ValueError


@dataclass(frozen=True)
class WholeFiles:
    """A format of files that hold a single document. decode: converts the bytes to text."""

    NAME: str
    ENDINGS: tuple[str, ...]
    decode: Decode
    AT_RANDOM: bool = False
    VERSION: int = 1

    def inspect(
        self, stream: Input, text: str, shard_bytes: int, *, may_be_bad: bool
    ) -> tuple[pa.Schema | None, tuple[FilePiece, ...]]:
        """Return the columns of all files."""
        return checked_columns(stream, text, SCHEMA), (FilePiece(),)

    def first_rows(self, stream: Input, count: int) -> Chunk:
        """Return the only row of a file."""
        return first_documents([document_in(stream, self.decode)], SCHEMA, count)

    def read(
        self, stream: Input, piece: FilePiece, text: str, tally: RowTally, selection: Selection = ALL
    ) -> Iterator[Chunk]:
        """Read a file as a single row."""
        yield from chunks_of_outcomes([document_in(stream, self.decode)], SCHEMA, text, tally, selection)
        tally.rows += 1


def compressed(*endings: str) -> tuple[str, ...]:
    """Return endings, plain and followed by the endings of compressions."""
    return tuple(f"{ending}{end}" for ending in endings for end in ("", *COMPRESSIONS))


def document_in(stream: Input, decode: Decode) -> Outcome:
    content = bytearray()
    try:
        for chunk in chunks_of(stream, compression_of(stream.url)):
            content += chunk
            if len(content) > limits().file_bytes:
                return BadRecord(f"it has more than {limits().file_bytes:,} bytes, the most for one document")
        url = stream.url if "://" in stream.url else None
        return {"text": decode(bytes(content)), "url": url, "file": stream.url.rpartition("/")[2]}
    except UnicodeDecodeError as error:
        return BadRecord(f"invalid UTF-8 at byte {error.start}: {error.reason}", bytes(content))
    except UNREADABLE as error:
        return BadRecord(f"the file is damaged: {damage(stream, error)}", bytes(content))
    except ValueError as error:
        return BadRecord(first_line(error), bytes(content))


# A page states its encoding. Windows programs begin a text with a byte order mark, which is removed.
HTML = WholeFiles("html", compressed(".html", ".htm", ".xhtml"), lambda content: decode_page(content, None))
TEXT = WholeFiles("txt", compressed(".txt", ".md"), lambda content: content.decode("utf-8-sig"))
