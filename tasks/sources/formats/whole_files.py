"""Files that are one document each."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from tasks.errors import first_line
from tasks.sources.compression import chunks_of, compression_of
from tasks.sources.lines import UNREADABLE
from tasks.sources.outcomes import Bad, Outcome, chunks_of_outcomes
from tasks.sources.rows import Chunk, Tally, checked_columns
from tasks.sources.selection import Selection
from tasks.sources.streams import Input, damage

# Of a file on a disk only its name: where it lies is nobody's business who reads the corpus.
SCHEMA = pa.schema([("text", pa.large_string()), ("url", pa.string()), ("file", pa.string())])
MAX_FILE = 1 << 28
Decode = Callable[[bytes], str]  # raises ValueError


def columns(stream: Input, text: str) -> pa.Schema:
    """Return the columns of a file that is one document. Raises BadInput where the text is none of them."""
    return checked_columns(stream, text, SCHEMA)


def read_whole(
    stream: Input, decode: Decode, text: str, tally: Tally, selection: Selection
) -> Iterator[Chunk]:
    """Read a file as one row."""
    yield from chunks_of_outcomes([document_in(stream, decode)], SCHEMA, text, tally, selection)
    tally.rows += 1


def document_in(stream: Input, decode: Decode) -> Outcome:
    content = bytearray()
    try:
        for chunk in chunks_of(stream, compression_of(stream.url)):
            content += chunk
            if len(content) > MAX_FILE:
                return Bad(f"it has more than {MAX_FILE:,} bytes, which are too many for one document")
        url = stream.url if "://" in stream.url else None
        return {"text": decode(bytes(content)), "url": url, "file": stream.url.rpartition("/")[2]}
    except UnicodeDecodeError as error:
        return Bad(f"invalid UTF-8 at byte {error.start}: {error.reason}", bytes(content))
    except UNREADABLE as error:
        return Bad(f"the file is damaged: {damage(stream, error)}", bytes(content))
    except ValueError as error:
        return Bad(first_line(error), bytes(content))
