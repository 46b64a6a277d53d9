"""The part of a judge's `keep` that depends on the judge, without conditions on the columns of its `only_if`."""

from collections.abc import Collection

from sqlglot import exp

from zyda_flows.tasks.quality.keep import on_fresh_stack
from zyda_flows.tasks.quality.keep_parser import RowDialect, parse, paths_in

OPERATORS: dict[type[exp.Expression], str] = {exp.GTE: ">=", exp.GT: ">", exp.LTE: "<=", exp.LT: "<"}
SWAPPED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}  # with the number on the left


def alone(keep: str, others: Collection[str], own: Collection[str]) -> str | None:
    """Return the condition by which a judge alone decides; None if `keep` does not read the judge's columns.

    The operands of AND and OR in `keep` that read columns of `others`, the columns of `only_if`, and no
    column of the judge, are left out: `cheap >= 0.6 OR edu >= 2` with the `only_if` `cheap < 0.6` becomes `edu >=
    2`. If the rest still reads columns of `others`, the condition is the whole `keep`.
    """
    return on_fresh_stack(alone_here, keep, frozenset(others) - {*own}, frozenset(own))


def alone_here(keep: str, others: frozenset[str], own: frozenset[str]) -> str | None:
    tree = parse(keep)
    if not reads(tree, own):
        return None
    rest = without(tree, others, own)
    sql = rest.sql(dialect=RowDialect, normalize_functions=False)
    return keep if reads(rest, others) or parse(sql) != rest else sql


def reads(tree: exp.Expression, names: frozenset[str]) -> bool:
    return any(path[0] in names for path in paths_in(tree))


def without(node: exp.Expression, others: frozenset[str], own: frozenset[str]) -> exp.Expression:
    """Return a tree that reads a column of `own`, without operands that read only `others`."""
    if isinstance(node, (exp.Not, exp.Paren)):
        return type(node)(this=without(node.this, others, own))
    if not isinstance(node, (exp.And, exp.Or)):
        return node.copy()
    parts = [
        without(part, others, own) if reads(part, own) else part.copy()
        for part in (node.this, node.expression)
        if reads(part, own) or not reads(part, others)
    ]
    return type(node)(this=parts[0], expression=parts[1]) if len(parts) == 2 else parts[0]


def comparison_in(condition: str) -> tuple[str, str, str] | None:
    """Return the column, operator and number of a condition that compares a column with a number, or None.

    The column is on the left: `2 <= "a b"` is `a b`, `>=` and `2`.
    """
    return on_fresh_stack(comparison_here, condition)


def comparison_here(condition: str) -> tuple[str, str, str] | None:
    tree = parse(condition).unnest()
    if type(tree) not in OPERATORS:
        return None
    operator, left, right = OPERATORS[type(tree)], tree.this.unnest(), tree.expression.unnest()
    if left.is_number:
        operator, left, right = SWAPPED[operator], right, left
    is_comparison = isinstance(left, exp.Column) and not left.table and right.is_number
    return (left.name, operator, right.sql(dialect=RowDialect, comments=False)) if is_comparison else None
