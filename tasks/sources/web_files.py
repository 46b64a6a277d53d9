"""Files of web servers, of which every answer is compared with what was asked and with the file as it was opened.

A page in place of data, a part that was not asked for, or one of another version is never handed on: it counts as
no answer. A server that has no ranges sends the whole file, which is kept on disk as far as it was read.
"""

import io
import re
import tempfile
from collections.abc import Mapping
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from fsspec.asyn import sync
from fsspec.implementations.http import HTTPFileSystem

from zyda_flows.tasks.errors import Unavailable
from zyda_flows.tasks.workers.host_limits import place_at

AHEAD = 16 << 20  # bytes of one request for a file that is read from end to end
WHOLE, PART = 200, 206
NOTHING_THERE = 416  # where the range that is asked for lies beyond the end
PAGE = "text/html"
VALIDATORS = ("ETag", "Last-Modified")


class FileInParts(io.RawIOBase):
    """A file of so many bytes, read by asking its server for parts of it."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__()
        self.path, self.size, self.place = path, size, 0

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes from start to before stop, or fewer of them."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.place

    def seek(self, place: int, whence: int = 0) -> int:
        self.place = place + (0, self.place, self.size)[whence]
        return self.place

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as one answer goes. Raises Unavailable, and what the server's client raises."""
        content = self.part(self.place, min(self.place + len(buffer), self.size))
        buffer[: len(content)] = content
        self.place += len(content)
        return len(content)


class WebFile(FileInParts):
    """A file of a web server. `info` is what the server said of it when it was opened."""

    def __init__(self, fs: HTTPFileSystem, path: str, info: Mapping[str, Any]) -> None:
        super().__init__(path, int(info["size"]))
        self.fs, self.info = fs, info
        self.host = urlsplit(path).hostname or ""
        self.whole: Whole | None = None
        if info.get("mimetype") == PAGE and self.part(0, min(self.size, 512)).lstrip().startswith(b"<"):
            raise Unavailable(f"{path}: its server answers with a web page, where a file is expected")

    def close(self) -> None:
        self.forget_whole()
        super().close()

    def part(self, start: int, stop: int) -> bytes:
        """Return the bytes from start to before stop, or fewer of them."""
        if start >= stop:
            return b""
        if self.whole is None:
            with place_at(self.host):
                content = sync(self.fs.loop, self.ask, start, stop)
            if self.whole is None:
                return bytes(content)
        try:
            return self.whole.part(start, stop)
        except BaseException:
            self.forget_whole()
            raise

    async def ask(self, start: int, stop: int) -> bytes:
        """Ask for a part, and return it; nothing where the whole file comes instead."""
        session = await self.fs.set_session()
        options = dict(self.fs.kwargs)
        asked = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        options["headers"] = {**options.get("headers", {}), **asked}
        response = await session.get(self.fs.encode_url(self.path), **options)
        try:
            if response.status != NOTHING_THERE:
                response.raise_for_status()
            if fault := self.fault_of(response, start, stop):
                raise Unavailable(f"{self.path}: its server answered with {fault}")
            if response.status == PART:
                return bytes(await response.read())
            self.whole = Whole(self, response)
            return b""
        finally:
            if self.whole is None:
                response.close()

    def fault_of(self, response: Any, start: int, stop: int) -> str | None:
        """Say in what an answer is not what was asked for, or nothing."""
        if response.status == PART:
            fault = fault_of_part(response.headers, start, stop, self.size)
            return fault or self.other_version(response.headers)
        if response.status != WHOLE:
            return f"status {response.status}"
        size = response.headers.get("Content-Length")
        if size is not None and int(size) != self.size and "Content-Encoding" not in response.headers:
            return f"{int(size):,} bytes of {response.content_type}, where the file has {self.size:,} bytes"
        return self.other_version(response.headers)

    def other_version(self, headers: Mapping[str, str]) -> str | None:
        """Say in what an answer is of another version, or of another kind where it names no version."""
        both = [name for name in VALIDATORS if name in headers and self.info.get(name)]
        for name in both:
            before, now = self.info[name].removeprefix("W/"), headers[name].removeprefix("W/")
            if now != before:
                return f"another version of it: {name} {now}, where it was {before}"
        kind, before = headers.get("Content-Type", "").partition(";")[0], self.info.get("mimetype")
        return "a web page, where a file is expected" if not both and kind == PAGE != before else None

    def forget_whole(self) -> None:
        if self.whole is not None:
            self.whole.close()
            self.whole = None


def fault_of_part(headers: Mapping[str, str], start: int, stop: int, size: int) -> str | None:
    """Say in what the headers of an answer are not those of a part of a file of so many bytes, or nothing."""
    sent = headers.get("Content-Range", "")
    known = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", sent.strip())
    if known is None or int(known[1]) != start or not start <= int(known[2]) < stop:
        return f"{sent or 'no Content-Range'!r}, where bytes {start}-{stop - 1} were asked for"
    if known[3] not in ("*", str(size)):
        return f"a part of a file of {int(known[3]):,} bytes, where it says that it has {size:,}"
    return None


class Whole:
    """The one answer of a server without ranges, kept in a file without a name as far as it was read."""

    def __init__(self, file: WebFile, response: Any) -> None:
        self.file, self.response, self.held = file, response, 0
        self.kept: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115

    def part(self, start: int, stop: int) -> bytes:
        sync(self.file.fs.loop, self.keep, stop)
        self.kept.seek(start)
        return self.kept.read(stop - start)

    async def keep(self, stop: int) -> None:
        """Receive until `stop` is there. Raises Unavailable where the answer is shorter or longer than the file."""
        self.kept.seek(self.held)
        while self.held < stop and (content := await self.response.content.read(AHEAD)):
            self.kept.write(content)
            self.held += len(content)
        more = await self.response.content.read(1) if self.held == self.file.size else b""
        if more or self.held > self.file.size:
            raise Unavailable(
                f"{self.file.path}: its server sent more than the {self.file.size:,} bytes that it has"
            )
        if self.held < stop:
            raise Unavailable(f"{self.file.path}: it ended after {self.held:,} of {self.file.size:,} bytes")

    def close(self) -> None:
        self.response.close()
        self.kept.close()


def opened_on_web(fs: HTTPFileSystem, path: str, info: Mapping[str, Any], *, at_random: bool) -> Any:
    """Open a file of a web server: asked for what is read, or, from end to end, for some MiB ahead."""
    file = WebFile(fs, path, info)
    return file if at_random else io.BufferedReader(file, AHEAD)
