"""Decoders of gzip, Zstandard, LZ4 and bzip2 for one member of a compressed file, with one set of errors."""

import bz2
from collections.abc import Callable, Iterator
from typing import Any, cast

import lz4.frame
import zstandard
from isal import isal_zlib

from zyda_flows.tasks.sources.zstd_dictionaries import BadDictionary

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4", ".bz2": "bzip2"}
MARKS = {
    "gzip": b"\x1f\x8b\x08",
    "zstd": b"\x28\xb5\x2f\xfd",
    "lz4": b"\x04\x22\x4d\x18",
    "bzip2": b"BZh",
}
SKIPPABLE = b"\x2a\x4d\x18"  # of Zstandard and LZ4: the second to fourth byte of a frame that holds no data
OUTPUT_BYTES = 1 << 22  # the most that a decoder with a limit returns at a time

GzipError = cast(type[Exception], isal_zlib.error)  # its stubs declare it as an instance


class Bzip2Error(Exception):
    """An OSError of bz2; elsewhere an OSError is a failure of a store."""


class Lz4Error(Exception):
    """A RuntimeError of lz4."""


class DecompressedTooLarge(Exception):
    """The decompressed size exceeds the limit for files of this kind."""


DAMAGED_MEMBER: tuple[type[Exception], ...] = (
    EOFError,
    GzipError,
    zstandard.ZstdError,
    Bzip2Error,
    Lz4Error,
    BadDictionary,
    DecompressedTooLarge,
)


def zstd_engine(dictionary: zstandard.ZstdCompressionDict | None = None) -> Any:
    return zstandard.ZstdDecompressor(dictionary, max_window_size=1 << 31).decompressobj()  # --long=31


ENGINES: dict[str, Callable[[], Any]] = {
    "gzip": lambda: isal_zlib.decompressobj(wbits=31),  # the largest window, 15, and 16 for a gzip header
    "zstd": zstd_engine,
    "lz4": lz4.frame.LZ4FrameDecompressor,
    "bzip2": bz2.BZ2Decompressor,
}


class Decoder:
    """A decoder of one member. Feed it until `end` is true; `left` counts the bytes after the member."""

    def __init__(self, kind: str, dictionary: zstandard.ZstdCompressionDict | None = None) -> None:
        self.kind = kind
        self.engine = ENGINES[kind]() if dictionary is None else zstd_engine(dictionary)

    @property
    def end(self) -> bool:
        return bool(self.engine.eof)

    @property
    def left(self) -> int:
        """The number of bytes that were fed and lie after the end of the member."""
        return len(self.engine.unused_data or b"")

    def feed(self, content: bytes) -> Iterator[bytes]:
        """Decompress, at most OUTPUT_BYTES at a time if a library has a limit. Raises DAMAGED_MEMBER."""
        try:
            yield from self.decompress(content)
        except OSError as error:
            raise Bzip2Error(str(error)) from error
        except RuntimeError as error:
            raise Lz4Error(str(error)) from error
        except MemoryError as error:
            raise DecompressedTooLarge("it needs more memory than is available") from error

    def decompress(self, content: bytes) -> Iterator[bytes]:
        if self.kind == "zstd":
            yield self.engine.decompress(content)
            return
        yield self.engine.decompress(content, OUTPUT_BYTES)
        if self.kind == "gzip":
            while self.engine.unconsumed_tail:
                yield self.engine.decompress(self.engine.unconsumed_tail, OUTPUT_BYTES)
            return
        while not (self.engine.eof or self.engine.needs_input):
            yield self.engine.decompress(b"", OUTPUT_BYTES)


def compression_of(url: str) -> str | None:
    """Return the compression of a file, by the ending of its name."""
    return next((kind for end, kind in COMPRESSIONS.items() if url.lower().endswith(end)), None)


def compression_in(first: bytes) -> str | None:
    """Return the compression of content, by its first bytes."""
    kinds = (kind for kind, mark in MARKS.items() if first.startswith(mark))
    return next(kinds, "zstd" if first[1:4] == SKIPPABLE and first[0] >> 4 == 5 else None)
