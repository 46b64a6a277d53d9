"""The progress of unfinished runs: small files that a run writes every few seconds, and others read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from pydantic import ValidationError

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

PROGRESS = "progress"
SECONDS = 3.0  # between two writes of a run, and between two looks at all runs


class RunProgress(Record):
    """An unfinished run: its finished steps, and its curve so far."""

    step: int
    curve: tuple[tuple[int, float], ...]


def write_progress(folder: Folder, key: str, progress: RunProgress) -> None:
    folder.write(f"{PROGRESS}/{key}.json", progress.model_dump_json().encode())


def remove_progress(folder: Folder, key: str) -> None:
    folder.delete(f"{PROGRESS}/{key}.json")


def read_progress(folder: Folder, key: str) -> RunProgress | None:
    """Return the progress of a run, or None if it has not begun or is finished."""
    content = folder.read_if_there(f"{PROGRESS}/{key}.json")
    with suppress(ValidationError):
        return RunProgress.model_validate_json(content) if content else None
    return None


@contextmanager
def watched(look: Callable[[], object]) -> Iterator[None]:
    """Call a function every SECONDS during the block, in a thread."""
    ended = Event()

    def watch() -> None:
        while not ended.wait(SECONDS):
            with suppress(ZydaError):  # the next look may succeed
                look()

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
