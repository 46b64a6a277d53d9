"""Not-a-number in a `keep`: it counts as nothing (null), of which no comparison is true.

polars takes it for the largest of all numbers, and for equal to itself.
"""

import io
import json
from typing import Any

import polars as pl
import polars.selectors as cs

from tasks.quality.keep_bounds import nodes_of

COMPARISONS = {"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "EqValidity", "NotEqValidity"}


def without_nan(frame: pl.DataFrame) -> pl.DataFrame:
    """Make null what is not a number in the columns of a frame."""
    return frame.with_columns(cs.float().fill_nan(None))


def comparing_numbers(tree: pl.Expr, empty: pl.DataFrame) -> pl.Expr:
    """Return an expression in which no side of a comparison is not a number. empty: a frame of its columns."""
    nodes = json.loads(tree.meta.serialize(format="json"))
    is_changed = False
    for node, _ in list(nodes_of(nodes)):
        if node.get("op") in COMPARISONS:
            sides = [number_or_null(node[side], empty) for side in ("left", "right")]
            is_changed |= sides != [node["left"], node["right"]]
            node["left"], node["right"] = sides
        elif is_in(node.get("function")):
            given = number_or_null(node["input"][0], empty)
            is_changed |= given != node["input"][0]
            node["input"][0] = given
    return join_node(nodes) if is_changed else tree


def join_node(node: Any) -> pl.Expr:
    """Read a tree back: rows of `and` and `or` part by part, as polars reads no more than sixty levels at once."""
    if "BinaryExpr" not in node or node["BinaryExpr"]["op"] not in {"And", "Or"}:
        return read(node)
    left, right = (join_node(node["BinaryExpr"][side]) for side in ("left", "right"))
    return left & right if node["BinaryExpr"]["op"] == "And" else left | right


def is_in(function: Any) -> bool:
    """Say whether a function compares what it is given with a list of values."""
    kind = next(iter(function.values()), None) if isinstance(function, dict) else None
    return isinstance(kind, dict) and bool({"IsIn", "IsBetween"} & kind.keys())


def number_or_null(node: Any, empty: pl.DataFrame) -> Any:
    """Return a node that is null where the given one is not a number; itself where it is of another type."""
    if not isinstance(node, dict) or "Literal" in node or "Column" in node:
        return node
    given = read(node)
    if not empty.lazy().select(given.alias("given")).collect_schema()["given"].is_float():
        return node
    return json.loads(given.fill_nan(None).meta.serialize(format="json"))


def read(nodes: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.BytesIO(json.dumps(nodes).encode()), format="json")
