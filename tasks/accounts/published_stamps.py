"""Whether published files are as they were: what storage said of each when it was published, and says now."""

import hashlib
from collections.abc import Iterable, Mapping

from tasks.accounts.published import MANIFEST, PUBLISHED, STAMPS, File, FileStamps, Published, saved_stamps
from tasks.storage.folder import Folder
from tasks.storage.records import write_record


def current_stamps(folder: Folder) -> dict[str, str]:
    """List the published files, with what storage says of each without reading it."""
    return {path.removeprefix(f"{PUBLISHED}/"): stamp for path, stamp in folder.stamps(PUBLISHED).items()}


def save_stamps(
    folder: Folder, files: Iterable[File], manifest: bytes, seen: dict[str, str], checked: Mapping[str, str]
) -> None:
    """Remember what storage says of the published files, and when each was last compared with its digest.

    seen: what it said before they were read. Of those it is remembered and not what it says now: somebody
    may have changed a file since.
    """
    names = {file.path for file in files} | {MANIFEST}
    stamps = {path: stamp for path, stamp in (current_stamps(folder) | seen).items() if path in names}
    times = {path: time for path, time in checked.items() if path in names}
    write_record(folder, STAMPS, FileStamps(stamps=stamps, checked=times, manifests=(of_manifest(manifest),)))


def expect_manifest(folder: Folder, manifest: bytes) -> None:
    """Let whoever reads the manifest from now on find this one instead of the one that was expected."""
    kept = saved_stamps(folder)
    if kept.manifests:
        manifests = (*kept.manifests[-1:], of_manifest(manifest))
        write_record(folder, STAMPS, kept.model_copy(update={"manifests": manifests}))


def keep_checked(folder: Folder, before: FileStamps, paths: Iterable[str], when: str) -> None:
    """Remember when published files were compared, unless others have been published since `before`."""
    if before.manifests and saved_stamps(folder) == before:
        checked = before.checked | dict.fromkeys(paths, when)
        write_record(folder, STAMPS, before.model_copy(update={"checked": checked}))


def of_manifest(content: bytes) -> File:
    return File(path=MANIFEST, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def possibly_changed(
    folder: Folder, manifest: Published, now: dict[str, str]
) -> tuple[list[File], list[File]]:
    """Return the published files that are gone, and those that may not be as they were.

    Of these storage does not say what it said when they were published: it takes reading them to know.
    now: what storage says of the files that are there.
    """
    before = saved_stamps(folder)
    files = [*manifest.everything, *before.manifests[-1:]]
    files_there = [file for file in files if file.path in now]
    changed = [file for file in files_there if before.stamps.get(file.path) != now[file.path]]
    return [file for file in files if file.path not in now], changed


def difference(folder: Folder, file: File) -> str | None:
    """Read a published file and say how it differs from what the manifest says of it, if it does."""
    return folder.difference(f"{PUBLISHED}/{file.path}", file.size, file.sha256)
