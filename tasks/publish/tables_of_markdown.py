"""Tables in Markdown."""

from collections.abc import Sequence


def as_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are right-aligned, except for the first column."""
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
