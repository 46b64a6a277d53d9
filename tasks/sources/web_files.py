"""Files of web servers. Each response is checked against its request and against the file as it was opened.

A web page in place of data, a part that was not requested and a part of another version are errors of the server.
If a server does not support ranges, the response with the whole file is kept on disk as far as it was read.
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

AHEAD = 16 << 20  # bytes of a request for a file that is read from start to end
WHOLE_STATUS, PART_STATUS = 200, 206
OUT_OF_RANGE = 416  # the requested range lies after the end
PAGE = "text/html"
VALIDATORS = ("ETag", "Last-Modified")


class FileInParts(io.RawIOBase):
    """A file of a known size that is read by requests for parts of it."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__()
        self.path, self.size, self.place = path, size, 0

    def part(self, start: int, stop: int) -> bytes:
        """Return bytes from start up to stop, exclusive; possibly fewer."""
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
        """Fill a buffer with the bytes of a response. Raises Unavailable and the errors of the client."""
        content = self.part(self.place, min(self.place + len(buffer), self.size))
        buffer[: len(content)] = content
        self.place += len(content)
        return len(content)


class WebFile(FileInParts):
    """A file of a web server. info: the entry of the file when it was opened."""

    def __init__(self, fs: HTTPFileSystem, path: str, info: Mapping[str, Any]) -> None:
        super().__init__(path, int(info["size"]))
        self.fs, self.info = fs, info
        self.host = urlsplit(path).hostname or ""
        self.whole: WholeResponse | None = None
        if info.get("mimetype") == PAGE and self.part(0, min(self.size, 512)).lstrip().startswith(b"<"):
            raise Unavailable(f"{path}: its server answers with a web page, where a file is expected")

    def close(self) -> None:
        self.forget_whole()
        super().close()

    def part(self, start: int, stop: int) -> bytes:
        """Return bytes from start up to stop, exclusive; possibly fewer."""
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
        """Request a part and return it; empty if the server sends the whole file, which is then kept."""
        session = await self.fs.set_session()
        options = dict(self.fs.kwargs)
        range_headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        options["headers"] = {**options.get("headers", {}), **range_headers}
        response = await session.get(self.fs.encode_url(self.path), **options)
        try:
            if response.status != OUT_OF_RANGE:
                response.raise_for_status()
            if fault := self.fault_of(response, start, stop):
                raise Unavailable(f"{self.path}: its server answered with {fault}")
            if response.status == PART_STATUS:
                return bytes(await response.read())
            self.whole = WholeResponse(self, response)
            return b""
        finally:
            if self.whole is None:
                response.close()

    def fault_of(self, response: Any, start: int, stop: int) -> str | None:
        """Return the fault of a response, or None."""
        if response.status == PART_STATUS:
            fault = fault_of_part(response.headers, start, stop, self.size)
            return fault or self.other_version(response.headers)
        if response.status != WHOLE_STATUS:
            return f"status {response.status}"
        size = response.headers.get("Content-Length")
        if size is not None and int(size) != self.size and "Content-Encoding" not in response.headers:
            return f"{int(size):,} bytes of {response.content_type}, where the file has {self.size:,} bytes"
        return self.other_version(response.headers)

    def other_version(self, headers: Mapping[str, str]) -> str | None:
        """Return a fault if a response has another version than the file, or another kind without a version."""
        shared = [name for name in VALIDATORS if name in headers and self.info.get(name)]
        for name in shared:
            before, now = self.info[name].removeprefix("W/"), headers[name].removeprefix("W/")
            if now != before:
                return f"another version: {name} {now}, expected {before}"
        kind, before = headers.get("Content-Type", "").partition(";")[0], self.info.get("mimetype")
        return "a web page, where a file is expected" if not shared and kind == PAGE != before else None

    def forget_whole(self) -> None:
        if self.whole is not None:
            self.whole.close()
            self.whole = None


def fault_of_part(headers: Mapping[str, str], start: int, stop: int, size: int) -> str | None:
    """Return the fault of a response with a part of a file of `size` bytes, or None."""
    sent = headers.get("Content-Range", "")
    known = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", sent.strip())
    if known is None or int(known[1]) != start or not start <= int(known[2]) < stop:
        return f"{sent or 'no Content-Range'!r}, expected bytes {start}-{stop - 1}"
    if known[3] not in ("*", str(size)):
        return f"a part of a file of {int(known[3]):,} bytes, expected {size:,}"
    return None


class WholeResponse:
    """The response of a server without ranges, kept in a temporary file as far as it was read."""

    def __init__(self, file: WebFile, response: Any) -> None:
        self.file, self.response, self.size_read = file, response, 0
        self.buffer: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115

    def part(self, start: int, stop: int) -> bytes:
        sync(self.file.fs.loop, self.read_up_to, stop)
        self.buffer.seek(start)
        return self.buffer.read(stop - start)

    async def read_up_to(self, stop: int) -> None:
        """Receive up to `stop`. Raises Unavailable if the response is shorter or longer than the file."""
        self.buffer.seek(self.size_read)
        while self.size_read < stop and (content := await self.response.content.read(AHEAD)):
            self.buffer.write(content)
            self.size_read += len(content)
        more = await self.response.content.read(1) if self.size_read == self.file.size else b""
        if more or self.size_read > self.file.size:
            raise Unavailable(
                f"{self.file.path}: its server sent more than the file's {self.file.size:,} bytes"
            )
        if self.size_read < stop:
            raise Unavailable(
                f"{self.file.path}: it ended after {self.size_read:,} of {self.file.size:,} bytes"
            )

    def close(self) -> None:
        self.response.close()
        self.buffer.close()


def opened_on_web(fs: HTTPFileSystem, path: str, info: Mapping[str, Any], *, at_random: bool) -> Any:
    """Open a file of a web server: at random with exact requests, from start to end with some MiB ahead."""
    file = WebFile(fs, path, info)
    return file if at_random else io.BufferedReader(file, AHEAD)
