"""Claims: files in a corpus's folder that name the processes that read it for long, or remove documents from it.

Each process has its own claim, so that two claims never overwrite each other: a process writes its claim first,
and then looks for other claims. A claim ends with its process on this machine. On another machine it ends if it
was not renewed for LEASE_SECONDS, by the clock of the storage.
"""

import socket
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from pydantic import ValidationError

from zyda_flows.tasks.errors import Denied, ZydaError
from zyda_flows.tasks.storage.births import birth_of, is_process
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

CLAIMS = "claims"
FORGET, READ = "forget", "read"  # kinds of claims: readers do not exclude each other
RENEW_SECONDS = 20
LEASE_SECONDS = 90


class Claim(Record):
    """The work of a process on a corpus, and the identity of the process."""

    command: str
    host: str
    pid: int
    birth: str
    since: str

    def __str__(self) -> str:
        return f"{self.command} (process {self.pid} on {self.host}, since {self.since})"

    def is_over(self, age: float) -> bool:
        """Return whether its process has ended. age: seconds since the claim was renewed."""
        if self.host == socket.gethostname():
            return not is_process(self.pid, self.birth)
        return age > LEASE_SECONDS


def own_claim(command: str) -> Claim:
    me = psutil.Process()
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return Claim(command=command, host=socket.gethostname(), pid=me.pid, birth=birth_of(me), since=since)


@contextmanager
def forgetting(folder: Folder, command: str) -> Iterator[None]:
    """Claim a corpus for as long as the block removes documents from it.

    Raises Denied with the name of the process that removes documents already, or that reads the corpus.
    """
    with holding_claim(folder, FORGET, command, (FORGET, READ)):
        yield


@contextmanager
def reading(folders: Iterable[Folder], command: str) -> Iterator[None]:
    """Claim corpora for as long as the block reads them; a corpus that cannot be written to has no claim.

    Raises Denied with the name of the process that removes documents from a corpus.
    """
    with ExitStack() as stack:
        for folder in dict.fromkeys(folders):
            if can_be_claimed(folder):
                stack.enter_context(holding_claim(folder, READ, command, (FORGET,)))
            else:
                expect_free(folder, (FORGET,))
        yield


def can_be_claimed(folder: Folder) -> bool:
    try:
        folder.check_writable()
    except (ZydaError, NotImplementedError):
        return False
    return True


@contextmanager
def holding_claim(folder: Folder, kind: str, command: str, rivals: tuple[str, ...]) -> Iterator[None]:
    """Hold a claim of a kind for as long as the block runs. Raises Denied if a rival kind is claimed."""
    path, claim = f"{CLAIMS}/{kind}-{uuid.uuid4().hex[:16]}.json", own_claim(command)
    is_over = threading.Event()
    write_claim(folder, path, claim)
    try:
        expect_free(folder, rivals, path)
        renewing = threading.Thread(target=renew, args=(folder, path, claim, is_over), daemon=True)
        renewing.start()
        yield
        is_over.set()
        renewing.join()
    finally:
        is_over.set()
        remove_claim(folder, path)


def write_claim(folder: Folder, path: str, claim: Claim) -> None:
    folder.write(path, claim.model_dump_json().encode())


def remove_claim(folder: Folder, path: str) -> None:
    """Remove a claim; on a local disk, also the folder of claims if it is empty."""
    folder.remove(path)
    if folder.is_local:
        with suppress(OSError):
            Path(folder.path(CLAIMS)).rmdir()


def renew(folder: Folder, path: str, claim: Claim, is_over: threading.Event) -> None:
    """Write a claim repeatedly, so that other machines see that its process runs."""
    while not is_over.wait(RENEW_SECONDS):
        with suppress(ZydaError):
            write_claim(folder, path, claim)


def expect_free(folder: Folder, rivals: tuple[str, ...], own: str | None = None) -> None:
    """Raise Denied if a process holds a claim of these kinds; remove expired claims."""
    for path, written in claims_in(folder, rivals).items():
        claim = None if path == own else claim_at(folder, path)
        if claim is None:
            continue
        now = folder.written_at(own) if own else time.time()
        if not claim.is_over(now - written):
            raise Denied(f"{folder.url}: {claim} is at work there; start again when it has ended")
        with suppress(ZydaError):
            remove_claim(folder, path)


def is_claimed(folder: Folder, kinds: tuple[str, ...]) -> bool:
    """Return whether a process holds a claim of these kinds."""
    try:
        expect_free(folder, kinds)
    except Denied:
        return True
    return False


def claims_in(folder: Folder, kinds: tuple[str, ...]) -> dict[str, float]:
    """List the claims of some kinds, with the times of their last renewal; empty if the folder cannot be listed."""
    try:
        written_files = folder.written(CLAIMS)
    except (ZydaError, NotImplementedError):  # such as a web server
        return {}
    beginnings = tuple(f"{CLAIMS}/{kind}-" for kind in kinds)
    return {path: written for path, (_, written) in written_files.items() if path.startswith(beginnings)}


def claim_at(folder: Folder, path: str) -> Claim | None:
    """Read a claim; return None if it has been removed or is invalid."""
    content = folder.read_if_there(path)
    try:
        return Claim.model_validate_json(content) if content else None
    except ValidationError:
        return None
