"""Which columns of a source's files are carried into a corpus."""

from collections.abc import Iterable

from zyda_flows.tasks.storage.records import Record


class Selection(Record):
    """The columns to carry: `only` these, or all but those `without`; the text always is one of them."""

    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()

    def __contains__(self, name: object) -> bool:
        return (self.only is None or name in self.only) and name not in self.without

    def of(self, names: Iterable[str], text: str) -> list[str]:
        """Return those of some columns that are carried, in their order."""
        return [name for name in names if name == text or name in self]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it has, which a source ought to have, too."""
        return (*(self.only or ()), *self.without)


ALL = Selection()
