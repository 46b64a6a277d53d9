"""The changes in the sources since the last build, from their listings only."""

from collections.abc import Mapping

from zyda_flows.tasks.storage.records import Record

Versions = Mapping[str, dict[str, str]]


class Change(Record):
    """The changed files of a source or of a corpus in `against`, compared with the last build, by URL."""

    source: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def changes_between(before: Versions, now: Versions) -> tuple[Change, ...]:
    """Compare the versions of files, by source and URL, from `tasks.planning.last_build`."""
    names = [*now, *(name for name in before if name not in now)]
    changes = (change_of(name, before.get(name, {}), now.get(name, {})) for name in names)
    return tuple(change for change in changes if change)


def change_of(source: str, before: dict[str, str], now: dict[str, str]) -> Change:
    return Change(
        source=source,
        added=tuple(url for url in now if url not in before),
        changed=tuple(url for url in now if url in before and now[url] != before[url]),
        removed=tuple(url for url in before if url not in now),
    )
