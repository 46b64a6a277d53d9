"""Requests to stores: translate final and temporary failures, retry, and read streams that remember failures."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from zyda_flows.tasks.errors import Denied, Unavailable, ZydaError
from zyda_flows.tasks.log import log_wait
from zyda_flows.tasks.spent import METER
from zyda_flows.tasks.storage.failures import advice_about, code_of, is_final, is_storage_failure, unavailable

Answer = TypeVar("Answer")
# Replaces time.sleep before a retry, so that a user can interrupt the wait.
PAUSE: ContextVar[Callable[[float], object] | None] = ContextVar("pause", default=None)
SECONDS_BEFORE_ASKING_AGAIN = (0.5, 2.0, 5.0)  # afterwards, a stage has its own retries
DENIED = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
LEAST_WAIT, LONGEST_WAIT = 1.0, 6 * 3600.0  # seconds, if a host limits requests
# These stores check stored and sent data with their own checksums.
STORES_WITH_CHECKSUMS = {"s3", "s3a", "gs", "gcs"}


@contextmanager
def explain_errors(url: str) -> Iterator[None]:
    """Raise Denied (final) or Unavailable (a retry may help) in place of the errors of a storage back end."""
    try:
        yield
    except ZydaError:
        raise
    except DENIED as error:
        raise Denied(f"{url}: {type(error).__name__}: {error}") from error
    except ImportError as error:
        raise Denied(f"{url}: no reader for this kind of URL is installed: {error}") from error
    except Exception as error:
        if not is_storage_failure(error):
            raise
        sentence = f"{url}: {type(error).__name__}: {error}{advice_about(error)}"
        raise (Denied(sentence) if is_final(error) else unavailable(sentence, error)) from error


def create_in_store(fs: fsspec.AbstractFileSystem, path: str, content: bytes) -> bool:
    """Write a file unless it exists; return False if it exists."""
    try:
        fs.pipe_file(path, content, mode="create")
    except (OSError, NotImplementedError) as error:
        code = code_of(error.__cause__)
        if isinstance(error, FileExistsError) or code == "PreconditionFailed":
            return False
        if not isinstance(error, NotImplementedError) and code != "NotImplemented":
            raise
        if fs.exists(path):
            return False
        fs.pipe_file(path, content)
    return True


def ask_again(
    ask: Callable[[], Answer],
    prepare: Callable[[Unavailable], object] | None = None,
    waits: Iterable[float] | None = None,
) -> Answer:
    """Return a store's answer; retry after some seconds if it is unavailable.

    If a store states a wait, the wait is respected, up to LONGEST_WAIT in total. prepare: called before a retry
    with the last failure. waits: seconds before each retry if the store states no wait.
    """
    remaining = iter(SECONDS_BEFORE_ASKING_AGAIN if waits is None else waits)
    until = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            return ask()
        except Unavailable as error:
            if error.seconds is None or time.monotonic() + error.seconds > until:
                seconds = next(remaining, None)
                if seconds is None:
                    raise
            else:
                seconds = max(error.seconds, LEAST_WAIT)
                log_wait(error.host, seconds)
            pause = PAUSE.get()
            pause(seconds) if pause else time.sleep(seconds)
            if prepare:
                prepare(error)


class Stream:
    """A file that is open for reading, and remembers failures of its store.

    A decoder of the content raises errors of many types, including OSError. So the type of an error does not tell
    damaged content from a failure of the store during the read. `failure` does: it is the Denied or Unavailable
    with which a read ended, if any.
    """

    mode = "rb"

    def __init__(self, url: str, stream: Any) -> None:
        self.url = url
        self.stream = stream
        self.failure: ZydaError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def explained(self) -> AbstractContextManager[None]:
        """Translate errors of the store to errors of this project."""
        return explain_errors(self.url)

    def read(self, size: int = -1) -> bytes:
        try:
            with self.explained():
                content = bytes(self.stream.read(size))
                self.count(len(content))
                return content
        except ZydaError as error:
            self.failure = error
            raise
        except Exception as error:  # the content is not decoded here, so any error is a failure of the store
            self.failure = Unavailable(f"{self.url}: {type(error).__name__}: {error}")
            raise self.failure from error

    def count(self, size: int) -> None:
        """Count a request to the store, and the bytes that it sent."""
        METER.add(requests=1, read=size)

    def seek(self, place: int, whence: int = 0) -> int:
        return int(self.stream.seek(place, whence))

    def tell(self) -> int:
        return int(self.stream.tell())

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return bool(self.stream.seekable())

    @property
    def closed(self) -> bool:
        return bool(self.stream.closed)

    def close(self) -> None:
        self.stream.close()

    def flush(self) -> None:
        """Do nothing: the stream is read-only."""

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Raise the store's failure, if there is one, instead of the error of a decoder."""
        try:
            yield
        except Exception:
            self.raise_failure()
            raise

    def raise_failure(self) -> None:
        """Raise the store's failure, if there is one, with its own cause.

        It is not raised from a decoder's error: pyarrow raises the same object again, or an error caused by it. An
        exception among its own causes makes Dask follow the causes forever.
        """
        if self.failure is not None:
            raise self.failure


def open_stream(url: str, *, at_random: bool) -> Stream:
    """Open a file by URL, for random or sequential reads.

    With `at_random`, only the requested bytes are read from a store, without read-ahead.
    """
    with explain_errors(url):
        fs, path = url_to_fs(url)
        return Stream(url, open_file(fs, path, at_random=at_random))


def open_file(fs: fsspec.AbstractFileSystem, path: str, *, at_random: bool) -> Any:
    nothing_ahead = at_random and not isinstance(fs, LocalFileSystem)
    return fs.open(path, "rb", **({"cache_type": "none"} if nothing_ahead else {}))
