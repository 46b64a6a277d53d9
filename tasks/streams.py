"""Bytes behind a URL: which format a name says, and the lines of a compressed stream."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import zstandard

from tasks.errors import bad_input
from tasks.storage import Stream, open_stream

DAMAGED = (pa.ArrowInvalid, OSError, EOFError, zlib.error, zstandard.ZstdError)
FORMATS = {
    ".parquet": "parquet", ".pq": "parquet",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",  # ".json.gz": how Dolma names JSON Lines
    ".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc",
}  # fmt: skip
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
COMPRESSED_BLOCK = 1 << 18
DECODERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "zstd": lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),
}


def format_of(source: str, url: str) -> tuple[str, str | None]:
    """Return the format and compression that a file's name says. Raises BadInput for others."""
    name = url.lower()
    compression = next((kind for end, kind in COMPRESSIONS.items() if name.endswith(end)), None)
    stem = name.rpartition(".")[0] if compression else name
    kind = next((kind for end, kind in FORMATS.items() if stem.endswith(end)), None)
    if kind is None or (compression and kind != "jsonl"):
        known = "parquet, jsonl, jsonl.gz, jsonl.zst, arrow"
        raise bad_input(source, f"the ending is none of {known}", file=url)
    return kind, compression


def open_input(url: str, kind: str) -> Stream:
    """Open an input file of a format: Parquet to be read here and there, the others from end to end."""
    return open_stream(url, at_random=kind == "parquet")


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def lines_of(stream: Stream, compression: str | None) -> Iterator[bytes]:
    """Yield the lines of a stream, without their ends, up to where it is damaged; then raise."""
    rest = b""
    for chunk in chunks_of(stream, compression):
        first, *others = chunk.split(b"\n")
        rest += first
        for line in others:
            yield rest
            rest = line
    if rest:
        yield rest


def chunks_of(stream: Stream, compression: str | None) -> Iterator[bytes]:
    """Yield what a stream holds, decompressed. Raises EOFError where its last frame is cut off."""
    decoder = None
    while block := stream.read(COMPRESSED_BLOCK):
        if compression is None:
            yield block
            continue
        while block:  # a file may hold several frames, one after another
            decoder = decoder or DECODERS[compression]()
            yield decoder.decompress(block)
            block = decoder.unused_data if decoder.eof else b""
            decoder = None if decoder.eof else decoder
    if decoder is not None:
        raise EOFError(f"it ends in the middle of its {compression} data")
