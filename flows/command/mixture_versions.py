"""List and remove versions of a mixture, for `zyda mix` and `zyda status`."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zyda_flows.flows.command.terminal import as_size, as_time, confirm, say
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.versions import MixtureVersion
    from zyda_flows.tasks.storage.folder import Folder


def version_lines(folder: "Folder") -> Iterator[str]:
    """Yield a line for the mixture and for each of its versions."""
    from zyda_flows.tasks.mixing.versions import versions_of  # late

    yield f"mixture {folder.url}"
    versions = versions_of(folder)
    yield from map(version_line, versions)
    if not versions:
        yield "it has no version yet; zyda mix mixes it"


def version_line(version: "MixtureVersion") -> str:
    """Return the state, the age and the size of a version."""
    size = f"{counted(version.files, 'file')}, {as_size(version.size)}"
    if version.written_at is None:
        return f"version {version.place}, unfinished: {size}; zyda mix finishes it, zyda clean removes it"
    ago = as_time((datetime.now(UTC) - version.written_at).total_seconds())
    tokens = counted(version.tokens or 0, "token")
    return f"version {version.place}, {version.state}: mixed {ago} ago, {tokens}, {size}"


def print_versions(folder: "Folder", *, as_json: bool) -> None:
    """Print the versions of a mixture as lines or as JSON."""
    from zyda_flows.tasks.mixing.versions import versions_of  # late

    if as_json:
        say(json.dumps([version.model_dump(mode="json") for version in versions_of(folder)], indent=1))
        return
    for line in version_lines(folder):
        say(line)


def remove_one_version(folder: "Folder", place: str, *, yes: bool) -> None:
    """Remove a version after confirmation. Raises Denied for the current version without `yes`."""
    from zyda_flows.tasks.mixing.versions import find_version, remove_version  # late

    version = find_version(folder, place)
    if version.state == "current" and not yes:
        raise Denied(f"{folder.url}: version {place} is the current version; add --yes to remove it")
    confirm(f"remove {version_line(version)}?", is_sure=yes)
    remove_version(folder, version)
    say(f"removed: {counted(version.files, 'file')}, {as_size(version.size)}, of version {place}")
