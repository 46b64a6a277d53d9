"""Which parts of polars' tree of an expression look at one row alone."""

from collections.abc import Iterator
from typing import Any

OF_ONE_ROW = {"Column", "Literal", "BinaryExpr", "Cast", "Ternary", "Function", "Alias", "Eval"}
KINDS_OF_FUNCTIONS = {
    "StringExpr", "BinaryExpr", "TemporalExpr", "ListExpr", "ArrayExpr", "StructExpr", "Boolean",
    "Trigonometry", "Sql", "Bitwise", "Pow", "PowExpr", "CategoricalExpr", "ExtensionExpr",
}  # fmt: skip
FUNCTIONS = {
    "Abs", "Negate", "Sign", "Round", "RoundSF", "Floor", "Ceil", "Truncate", "Clip", "Log", "Log1p", "Exp", "Sqrt",
    "Cbrt", "Coalesce", "MaxHorizontal", "MinHorizontal", "SumHorizontal", "MeanHorizontal", "NullIf", "FillNull",
    "FillNan", "Mod", "DropNans", "Atan2", "Pow", "NullCount", "AsStruct", "ConcatExpr", "Replace", "ReplaceStrict",
}  # fmt: skip
BEYOND = {
    "Any", "All", "IsUnique", "IsDuplicated", "IsFirstDistinct", "IsLastDistinct", "DropNans", "NullCount",
    "ConcatVertical", "ConcatExpr", "Offset",
}  # fmt: skip


def beyond(node: Any) -> Iterator[str]:
    """Yield the names of the nodes of polars' tree that are not known to look at one row alone."""
    if isinstance(node, str):
        if node not in OF_ONE_ROW:
            yield node.lower()
        return
    for kind, content in node.items():
        if kind not in OF_ONE_ROW:
            yield next(iter(content)).lower() if kind == "Agg" and isinstance(content, dict) else kind.lower()
        elif kind == "Function":
            yield from beyond_function(content["function"])
            yield from (part for given in content["input"] for part in beyond(given))
        elif kind == "BinaryExpr":
            yield from (part for side in ("left", "right") for part in beyond(content[side]))
        elif kind == "Ternary":
            yield from (part for side in ("predicate", "truthy", "falsy") for part in beyond(content[side]))
        elif kind in {"Cast", "Eval"}:  # Eval is of the elements of a list
            yield from beyond(content["expr"])
        elif kind == "Alias":
            yield from beyond(content[0])


def beyond_function(function: Any) -> Iterator[str]:
    """Yield the name of a function that is not known to look at one row alone."""
    kind = function if isinstance(function, str) else next(iter(function))
    inner = function[kind] if isinstance(function, dict) else None
    name = (
        inner if isinstance(inner, str) else next(iter(inner)) if isinstance(inner, dict) and inner else kind
    )
    if kind not in KINDS_OF_FUNCTIONS | FUNCTIONS or (kind in KINDS_OF_FUNCTIONS and name in BEYOND):
        yield (name if kind in KINDS_OF_FUNCTIONS else kind).lower()
