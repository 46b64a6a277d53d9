"""What stores do when they are asked: their failures, final or passing, and streams that remember them."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from zyda_flows.tasks.errors import Denied, Unavailable, ZydaError
from zyda_flows.tasks.log import say_wait
from zyda_flows.tasks.spent import METER
from zyda_flows.tasks.storage.failures import advice_about, code_of, is_final, is_storage_failure, unavailable

Answer = TypeVar("Answer")
# How time passes before a store is asked again, where somebody wants to end it.
PAUSE: ContextVar[Callable[[float], object] | None] = ContextVar("pause", default=None)
SECONDS_BEFORE_ASKING_AGAIN = (0.5, 2.0, 5.0)  # then the stage's own retries begin, where there is a stage
DENIED = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
LEAST_WAIT, LONGEST_WAIT = 1.0, 6 * 3600.0  # seconds, where a host limits its requests
# They compare what they hold, and what they give, with checksums of their own.
STORES_WITH_CHECKSUMS = {"s3", "s3a", "gs", "gcs"}


@contextmanager
def explain_errors(url: str) -> Iterator[None]:
    """Turn what a storage back end raises into Denied (final) or Unavailable (worth retrying)."""
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
    """Write a file that is not there; return False where it is there."""
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
    """Return a store's answer, which is asked for again after some seconds where there was none.

    A store that says how long to wait is waited for, for hours if it must be. prepare: called before it is asked
    again, with what it failed with. waits: seconds before it is asked again where it says nothing.
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
                say_wait(error.host, seconds)
            pause = PAUSE.get()
            pause(seconds) if pause else time.sleep(seconds)
            if prepare:
                prepare(error)


class Stream:
    """A file that is open for reading, and remembers what its store did.

    Whoever decodes what it gives raises errors of its own, OSErrors among them, so that the type of an
    error cannot tell damaged content from a store that failed in the middle. `failure` can: it is the
    Denied or Unavailable that a read ended with, if one did.
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
        """Turn what its store raises into errors of ours."""
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
        except Exception as error:  # whatever it is, nobody has decoded anything yet
            self.failure = Unavailable(f"{self.url}: {type(error).__name__}: {error}")
            raise self.failure from error

    def count(self, size: int) -> None:
        """Count a request to its store, and the bytes that came."""
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
        """Do nothing, as for any stream that is only read."""

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Raise what the store did instead of what a decoder made of it."""
        try:
            yield
        except Exception:
            self.raise_failure()
            raise

    def raise_failure(self) -> None:
        """Raise what the store did, if it did, with its own cause.

        Not from what a decoder made of it: pyarrow raises the same object again, or one whose cause it is, and an
        exception that is among its own causes has Dask follow them without end.
        """
        if self.failure is not None:
            raise self.failure


def open_stream(url: str, *, at_random: bool) -> Stream:
    """Open a file by URL: to be read here and there, or from end to end.

    At random, a store is asked for what is read and for nothing ahead of it.
    """
    with explain_errors(url):
        fs, path = url_to_fs(url)
        return Stream(url, open_file(fs, path, at_random=at_random))


def open_file(fs: fsspec.AbstractFileSystem, path: str, *, at_random: bool) -> Any:
    nothing_ahead = at_random and not isinstance(fs, LocalFileSystem)
    return fs.open(path, "rb", **({"cache_type": "none"} if nothing_ahead else {}))
