"""The columns of a source's files that are published in a corpus."""

from collections.abc import Iterable

from zyda_flows.tasks.storage.records import Record


class Selection(Record):
    """The selected columns: `only` these, or all except `without`. The text column is always selected."""

    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()

    def __contains__(self, name: object) -> bool:
        return (self.only is None or name in self.only) and name not in self.without

    def of(self, names: Iterable[str], text: str) -> list[str]:
        """Return the selected names, in their order."""
        return [name for name in names if name == text or name in self]

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the selection; the source should have each of them."""
        return (*(self.only or ()), *self.without)


ALL = Selection()
