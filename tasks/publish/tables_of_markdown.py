"""Tables as Markdown has them."""

from collections.abc import Sequence


def as_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table, whose columns but the first are of numbers."""
    lines = [names, ["---", *["---:"] * (len(names) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
