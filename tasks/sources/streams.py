"""Bytes behind a URL: opened so that damage is told from a store that fails, and the lines in them."""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NoReturn, TypeVar

import fsspec
import pyarrow as pa
import zstandard
from fsspec.implementations.http import HTTPFileSystem

from tasks.errors import Denied, Unavailable, ZydaError, bad_input, first_line
from tasks.sources.file_systems import file_system_of, is_passing, is_version
from tasks.sources.web_files import opened_on_web
from tasks.storage.stores import Stream, explained, open_file

Answer = TypeVar("Answer")
Info = Mapping[str, Any]

UNREADABLE = (OSError, EOFError, zlib.error, zstandard.ZstdError)  # from bytes to lines
DAMAGED = (*UNREADABLE, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, ValueError)
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
# Compressed bytes: so much is lost before a damaged place, and not a whole block. Of gzip's a thousandfold, and of
# Zstandard's thirty thousandfold may come out at once.
DECODED_AT_ONCE = {"gzip": 1 << 14, "zstd": 1 << 12}
SPLIT_AT_ONCE = 1 << 20
COMPRESSED_BLOCK = 1 << 18
DECODERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),  # the largest window, 15, and 16: with gzip's head
    "zstd": lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj(),  # --long=31
}
MAX_LINE = 1 << 30
MAX_CONTENT = 1 << 20  # of a bad row, so much is kept beside its reason
SECONDS_BEFORE_READING_AGAIN = (0.5, 2.0, 5.0)  # then the stage's own retries begin


def compression_of(url: str) -> str | None:
    """Return how a file is compressed, by its name."""
    return next((kind for end, kind in COMPRESSIONS.items() if url.lower().endswith(end)), None)


class Input(Stream):
    """An input file: what its store fails to give is asked for again, and it ends where the listing says.

    So whoever decodes it is told of damage only where the file itself is damaged. `version` is that of the
    listing, or nothing; `look` returns what the store says of the file now.
    """

    def __init__(
        self, source: str, url: str, stream: Any, size: int, version: str, look: Callable[[], Info]
    ) -> None:
        super().__init__(url, stream)
        self.source = source
        self.expected = size
        self.version = version
        self.look = look
        self.expect_size(getattr(stream, "size", None))

    def expect_size(self, size: int | None) -> None:
        """Raise BadInput where the file is not as large as it was listed."""
        if size is not None and size != self.expected:
            self.changed(f"it was {self.expected:,} bytes when it was listed and is {size:,} now")

    def expect_unchanged(self) -> None:
        """Raise BadInput where the file is not, or no longer, what was listed."""
        self.expect_version(asked_again(self.look, lambda error: None))

    def expect_version(self, info: Info) -> None:
        self.expect_size(info.get("size"))
        if self.version and not is_version({**info, "size": self.expected}, self.version):
            self.changed(
                "what its store says of it (ETag, checksum or time) is not what it said when it was listed"
            )

    def changed(self, found: str) -> NoReturn:
        self.failure = bad_input(
            self.source, f"it changed while it was read: {found}; build again", file=self.url
        )
        raise self.failure

    @property
    def comes_in_parts(self) -> bool:
        """Say whether its store gives any part of it by itself."""
        return getattr(self.stream, "whole", None) is None

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, or to the end; fewer only at the end. Raises Unavailable, BadInput."""
        place = self.tell()
        return asked_again(partial(self.read_once, place, size), partial(self.go_back, place))

    def go_back(self, place: int, error: Unavailable) -> None:
        """Prepare to read once more from a place. Raises BadInput where the file is another one now."""
        with suppress(Unavailable, Denied):
            self.expect_version(self.look())
        try:
            self.seek(place)
        except (ValueError, OSError):  # a server that gives its files from end to end alone
            raise error from None
        self.failure = None

    def read_once(self, place: int, size: int) -> bytes:
        remaining = max(0, self.expected - place)
        wanted = remaining if size < 0 else min(size, remaining)
        parts = [super().read(size)]
        while 0 < (received := sum(map(len, parts))) < wanted and parts[-1]:
            parts.append(super().read(wanted - received))
        if received < wanted:
            ended = f"it ended after {place + received:,} of {self.expected:,} bytes"
            self.failure = Unavailable(f"source {self.source}, file {self.url}: {ended}")
            raise self.failure
        if received > wanted:
            self.expect_size(place + received)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def asked_again(ask: Callable[[], Answer], prepare: Callable[[Unavailable], None]) -> Answer:
    """Return a store's answer, which is asked for again after some seconds where there was none."""
    for seconds in SECONDS_BEFORE_READING_AGAIN:
        try:
            return ask()
        except Unavailable as error:
            time.sleep(seconds)
            prepare(error)
    return ask()


def open_input(source: str, url: str, size: int, version: str = "", *, at_random: bool) -> Input:
    """Open an input file, to be read here and there or from end to end.

    version: the file's version in the listing; without, any that is as large will do.
    """
    fs, path = file_system_of(url)
    look = partial(info_now, source, url, fs, path)
    with explained_input(source, url):
        if isinstance(fs, HTTPFileSystem):
            info: Info = {"size": size, **look()}
            stream = opened_on_web(fs, path, info, at_random=at_random)
        else:
            fs.invalidate_cache(path)
            stream = open_file(fs, path, at_random=at_random)
            info = getattr(stream, "details", None) or look()
    opened = Input(source, url, stream, size, version, look)
    opened.expect_version(info)
    return opened


def info_now(source: str, url: str, fs: fsspec.AbstractFileSystem, path: str) -> Info:
    """Return what a store says of a file now. Raises Denied, Unavailable."""
    with explained_input(source, url):
        fs.invalidate_cache(path)
        info = dict(fs.info(path))
        return {name: known for name, known in info.items() if known is not None}


@contextmanager
def explained_input(source: str, url: str) -> Iterator[None]:
    """Turn what the store of an input raises into Denied (final) or Unavailable (worth retrying)."""
    try:
        with explained(url):
            yield
    except Denied as error:
        if is_passing(error):
            raise Unavailable(f"source {source}: {error}") from error
        raise


def damage(stream: Stream, error: BaseException) -> str:
    """Say what is wrong with a file's content. Raises what its store did, where that was the cause."""
    if stream.failure is not None:
        raise stream.failure from error
    if isinstance(error, ZydaError):
        raise error
    return first_line(error)


@dataclass(frozen=True)
class LongLine:
    """A line that is too long to be held: its first bytes."""

    start: bytes


class Lines:
    """The lines of a stream, without their ends, up to where it is damaged; then it raises.

    `ends` counts the ends of lines as they pass, apart from the lines that are given out; `is_open` is
    true where the last line has no end.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.chunks = chunks_of(stream, compression_of(stream.url))
        self.ends = 0
        self.is_open = False

    def start(self) -> bytes:
        """Return some of the first bytes, without taking them away from the lines."""
        first = next((chunk for chunk in self.chunks if chunk), b"")
        self.chunks = chain([first], self.chunks)
        return first

    def __iter__(self) -> Iterator[bytes | LongLine]:
        parts, held = list[bytes](), 0
        for chunk in slices_of(self.chunks):
            self.ends += chunk.count(b"\n")
            first, *following = chunk.split(b"\n")
            parts.append(first)
            held += len(first)
            if held > MAX_LINE:
                parts = [b"".join(parts)[:MAX_CONTENT]]
            if following:
                yield whole_line(parts, held)
                yield from following[:-1]
                parts, held = [following[-1]], len(following[-1])
        if held:
            self.is_open = True
            yield whole_line(parts, held)


def slices_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut what came out of a decoder at once, so that the lines of no more than that are held."""
    for chunk in chunks:
        yield from (chunk[start : start + SPLIT_AT_ONCE] for start in range(0, len(chunk), SPLIT_AT_ONCE))


def whole_line(parts: list[bytes], held: int) -> bytes | LongLine:
    if held > MAX_LINE:
        return LongLine(b"".join(parts)[:MAX_CONTENT])
    return parts[0] if len(parts) == 1 else b"".join(parts)


def chunks_of(stream: Stream, compression: str | None) -> Iterator[bytes]:
    """Yield what a stream holds, decompressed. Raises EOFError where its last frame is cut off.

    Zeros after the last frame are padding, as gzip itself takes them.
    """
    decoder = None
    is_padding, is_empty = False, compression is not None
    at_once = DECODED_AT_ONCE.get(compression or "", 0)
    while block := stream.read(COMPRESSED_BLOCK):
        is_empty = False
        if compression is None:
            yield block
            continue
        while block:  # a file may hold several frames, one after another
            if decoder is None and (is_padding or block[:1] == b"\0"):
                is_padding = True
                expect_padding(block, compression)
                break
            decoder = decoder or DECODERS[compression]()
            yield decoder.decompress(block[:at_once])
            block = (decoder.unused_data if decoder.eof else b"") + block[at_once:]
            decoder = None if decoder.eof else decoder
    if is_empty:
        raise EOFError(f"it has no bytes, where {compression} data has at least a head")
    if decoder is not None:
        raise EOFError(f"it ends in the middle of its {compression} data")


def expect_padding(block: bytes, compression: str) -> None:
    if block.strip(b"\0"):
        raise EOFError(f"something that is not {compression} data follows its {compression} data")
