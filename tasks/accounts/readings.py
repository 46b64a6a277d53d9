"""How long published files may go unread: rot changes neither their sizes nor the times that storage gives them.

What is published anew is always read first. What stays is read again when its age asks for it: each file has a
limit of its own between half of `reread_after` and the whole of it, so that those of one build do not all fall due
together. A store that keeps checksums itself has compared what it lists with the checksum that it had.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from tasks.accounts.published import File, FileStamps, Published
from tasks.storage.folder import Folder
from tasks.storage.stamps import has_checksum


def moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def times_checked(
    folder: Folder, manifest: Published, kept: FileStamps, seen: dict[str, str]
) -> dict[str, str]:
    """Return when each file was last compared, by its path, as far as that is known.

    seen: what storage says of each file now. A file of which a store gives the checksum that it gave when it was
    compared is compared now.
    """
    known = {file.path: file.checked_at for file in manifest.everything} | kept.checked
    now = moment() if folder.compares_itself else None
    return {
        path: now
        if now and has_checksum(seen.get(path, "")) and seen[path] == kept.stamps.get(path)
        else time
        for path, time in known.items()
        if time
    }


def due(files: Iterable[File], checked: dict[str, str], reread_after: timedelta) -> list[File]:
    """Return the files that a build which publishes reads again."""
    return [f for f in files if age(checked.get(f.path)) >= reread_after * (0.5 + 0.5 * share_of(f))]


def overdue(files: Iterable[File], checked: dict[str, str], reread_after: timedelta) -> list[File]:
    """Return the files for which a build has something to do, though nothing else has changed."""
    return [file for file in files if age(checked.get(file.path)) >= reread_after]


def age(checked_at: str | None) -> timedelta:
    return datetime.now(UTC) - datetime.fromisoformat(checked_at) if checked_at else timedelta.max


def share_of(file: File) -> float:
    """Return a number from 0 to 1 that is always the same for a file."""
    return int(file.sha256[:8], 16) / 2**32
