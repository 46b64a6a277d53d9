"""Input files of any store, opened so that damaged content is distinguished from a failing store."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Any, NoReturn, TypeVar

import fsspec
from fsspec.implementations.http import HTTPFileSystem
from fsspec.implementations.local import LocalFileSystem

from zyda_flows.tasks.errors import Denied, Unavailable, ZydaError, bad_input, first_line
from zyda_flows.tasks.recipe.values import has_commits
from zyda_flows.tasks.sources.file_systems import file_system_of, is_temporary, is_version
from zyda_flows.tasks.sources.hub import opened_on_hub
from zyda_flows.tasks.sources.web_files import AHEAD, opened_on_web
from zyda_flows.tasks.spent import METER
from zyda_flows.tasks.storage.failures import unavailable
from zyda_flows.tasks.storage.stores import Stream, ask_again, explain_errors, open_file

Answer = TypeVar("Answer")
Info = Mapping[str, Any]
# The advice for a file that has changed since it was listed.
REMEDY, COPY_REMEDY = "build again", "it is a copy: run zyda fetch again"


class Input(Stream):
    """An input file: failed reads are repeated, and the file ends at the size in the listing.

    So a decoder raises an error about damage only if the file itself is damaged. version: from the listing, or
    empty. look: returns the store's current entry for the file.
    """

    def __init__(
        self,
        source: str,
        url: str,
        stream: Any,
        size: int,
        version: str,
        look: Callable[[], Info],
        remedy: str = REMEDY,
    ) -> None:
        super().__init__(url, stream)
        self.source = source
        self.expected = size
        self.version = version
        self.look = look
        self.is_far, self.remedy = False, remedy
        self.block = 1  # bytes of a request, if the file is read from start to end
        self.ranges: list[range] = []
        self.watch: Callable[[int, bytes], None] | None = (
            None  # called with each part of the file that is read
        )
        self.held = (range(0), b"")
        self.expect_size(getattr(stream, "size", None))

    def explained(self) -> AbstractContextManager[None]:
        return explained_input(self.source, self.url)

    def count(self, size: int) -> None:
        end = self.tell()
        blocks = -(-end // self.block) - -(-(end - size) // self.block) if self.block > 1 else 1
        METER.add(input_requests=blocks, inputs=size)

    def expect_size(self, size: int | None) -> None:
        """Raise BadInput if the size of the file differs from the listing."""
        if size is not None and size != self.expected:
            self.changed(f"it was {self.expected:,} bytes when it was listed and is {size:,} now")

    def expect_unchanged(self) -> None:
        """Raise BadInput if the file differs from the listing."""
        self.expect_version(ask_again(self.look))

    def expect_version(self, info: Info) -> None:
        self.expect_size(info.get("size"))
        if self.version and not is_version({**info, "size": self.expected}, self.version):
            self.changed("its ETag, checksum or time in the store differs from the listing")

    def changed(self, change: str) -> NoReturn:
        self.failure = bad_input(
            self.source, f"it changed while it was read: {change}; {self.remedy}", file=self.url
        )
        raise self.failure

    @property
    def comes_in_parts(self) -> bool:
        """Whether the store can return any part of the file separately."""
        return getattr(self.stream, "whole", None) is None

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, or to the end; fewer only at the end. Raises Unavailable, BadInput."""
        place = self.tell()
        content = self.content_at(place, size)
        if self.watch is not None:
            self.watch(place, content)
        return content

    def content_at(self, place: int, size: int) -> bytes:
        if size > 0 and (known := self.range_of(place, place + size)):
            if self.held[0] != known:
                self.held = (range(0), b"")
                self.seek(known.start)
                self.held = (known, self.read_again(known.start, len(known)))
            self.seek(place + size)
            return self.held[1][place - known.start : place - known.start + size]
        return self.read_again(place, size)

    def expect_reads(self, ranges: list[range]) -> None:
        """Declare the ranges that will be read: each range of a remote file is requested at once.

        ranges: ordered, without overlaps. One range is kept in memory at a time.
        """
        self.ranges = ranges if self.is_far else []

    def range_of(self, start: int, stop: int) -> range | None:
        """Return the range that contains all bytes from start to stop, or None."""
        i = bisect_right(self.ranges, start, key=attrgetter("start")) - 1
        return self.ranges[i] if i >= 0 and stop <= self.ranges[i].stop else None

    def read_again(self, place: int, size: int) -> bytes:
        """Read from the current position, and retry if the store fails."""
        return ask_again(partial(self.read_once, place, size), partial(self.go_back, place))

    def go_back(self, place: int, error: Unavailable) -> None:
        """Prepare to retry a read from a position. Raises BadInput if the file has changed."""
        with suppress(Unavailable, Denied):
            self.expect_version(self.look())
        try:
            self.seek(place)
        except (ValueError, OSError):  # a server that sends files only from start to end
            raise error from None
        self.failure = None

    def read_once(self, place: int, size: int) -> bytes:
        remaining = max(0, self.expected - place)
        wanted = remaining if size < 0 else min(size, remaining)
        parts = [super().read(size)]
        received = len(parts[0])
        while 0 < received < wanted and parts[-1]:
            parts.append(super().read(wanted - received))
            received += len(parts[-1])
        if received < wanted:
            ended = f"it ended after {place + received:,} of {self.expected:,} bytes"
            self.failure = Unavailable(f"source {self.source}, file {self.url}: {ended}")
            raise self.failure
        if received > wanted:
            self.expect_size(place + received)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def open_input(
    source: str, url: str, size: int, version: str = "", location: str = "", *, at_random: bool
) -> Input:
    """Open an input file, for reads at random or from start to end.

    version: of the file in the listing; if empty, only the size is checked. location: the URL to read from, if it
    is not the file's own.
    """
    if location and has_commits(location):
        with explained_input(source, url):
            stream = opened_on_hub(location, size, at_random=at_random)
        pinned = Input(source, url, stream, size, "", lambda: {"size": size})  # a commit does not change
        pinned.is_far = True
        pinned.block = 1 if at_random else AHEAD
        return pinned
    url, remedy = (location, COPY_REMEDY) if location else (url, REMEDY)
    fs, path = file_system_of(url)
    look = partial(current_info, source, url, fs, path, remedy)
    with explained_input(source, url, remedy):
        if isinstance(fs, HTTPFileSystem):
            info: Info = {"size": size, **ask_again(look)}
            stream = ask_again(partial(opened_on_web, fs, path, info, at_random=at_random))
        else:
            fs.invalidate_cache(path)
            stream = open_file(fs, path, at_random=at_random)
            info = getattr(stream, "details", None) or look()
    opened = Input(
        source=source, url=url, stream=stream, size=size, version=version, look=look, remedy=remedy
    )
    opened.expect_version(info)
    opened.is_far = not isinstance(fs, LocalFileSystem)
    if opened.is_far and not at_random:
        opened.block = getattr(stream, "blocksize", None) or AHEAD
    return opened


def current_info(
    source: str, url: str, fs: fsspec.AbstractFileSystem, path: str, remedy: str = REMEDY
) -> Info:
    """Return a store's current entry for a file. Raises BadInput, Denied, Unavailable."""
    with explained_input(source, url, remedy):
        fs.invalidate_cache(path)
        info = dict(fs.info(path))
        return {name: value for name, value in info.items() if value is not None}


@contextmanager
def explained_input(source: str, url: str, remedy: str = REMEDY) -> Iterator[None]:
    """Convert the errors of an input's store to Denied or BadInput (final) or Unavailable (worth retrying)."""
    try:
        with explain_errors(f"source {source}, file {url}"):
            yield
    except Denied as error:
        if is_temporary(error):
            raise unavailable(str(error), error) from error
        if isinstance(error.__cause__, FileNotFoundError):
            fault = f"it is missing, although it existed when the sources were listed; {remedy}, with or without it"
            raise bad_input(source, fault, file=url) from error
        raise


def damage(stream: Stream, error: BaseException) -> str:
    """Return the fault of a file's content. Raises the error of its store if that was the cause."""
    stream.raise_failure()
    if isinstance(error, ZydaError):
        raise error
    return first_line(error)
