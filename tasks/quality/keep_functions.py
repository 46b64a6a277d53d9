"""The functions and types that a `keep` can use, and their forms in DuckDB.

A form with braces is a template for the arguments; other forms are names of DuckDB's functions. The result of a
function depends only on its arguments. A result that is not a real number, such as the root of -1, is null.
"""

FINITE = "CASE WHEN isfinite(CAST({0} AS DOUBLE)) THEN {name}({0}) END"
LOGARITHM = "CASE WHEN {0} > 0 THEN {name}({0}) WHEN {0} = 0 THEN CAST('-inf' AS DOUBLE) END"
ARC = "CASE WHEN abs({0}) <= 1 THEN {name}({0}) END"
SAME = [
    "abs", "array_contains", "array_reverse", "atan", "atan2", "bit_count", "bit_length", "cbrt", "ceil", "ceiling",
    "coalesce", "concat", "concat_ws", "day", "degrees", "ends_with", "exp", "floor", "greatest", "hour", "initcap",
    "least", "left", "length", "lower", "lpad", "ltrim", "minute", "month", "pi", "pow", "power", "quarter",
    "radians", "regexp_replace", "replace", "reverse", "right", "round", "rpad", "rtrim", "second", "sign",
    "starts_with", "strftime", "string_to_array", "strpos", "strptime", "substr", "trunc", "upper", "week", "year",
]  # fmt: skip
FUNCTIONS: dict[str, str] = {
    **{name: name for name in SAME},
    **{name: FINITE.replace("{name}", name) for name in ("sin", "cos", "tan", "cot")},
    **{f"{name}d": f"{name}(radians({{0}}))" for name in ("sin", "cos", "tan", "cot")},
    **{name: LOGARITHM.replace("{name}", name) for name in ("ln", "log2", "log10")},
    **{name: ARC.replace("{name}", name) for name in ("acos", "asin")},
    **{f"{name}d": f"degrees({ARC.replace('{name}', name)})" for name in ("acos", "asin")},
    "atand": "degrees(atan({0}))",
    "atan2d": "degrees(atan2({0}, {1}))",
    "log": "CASE WHEN {0} > 0 AND {1} > 0 THEN log({1}, {0}) END",  # of a number, to a base
    "log1p": "CASE WHEN {0} > -1 THEN ln(1 + {0}) END",
    "sqrt": "CASE WHEN {0} >= 0 THEN sqrt({0}) END",
    # DuckDB implements these three as macros that repeat an argument, so nested calls would grow without a bound.
    "nullif": "CASE WHEN {0} = {1} THEN NULL ELSE {0} END",
    "split_part": (
        "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL AND {2} IS NOT NULL "
        "THEN COALESCE(string_split({0}, {1})[{2}], '') END"
    ),
    "array_to_string": (
        "CASE WHEN len({0}) = 0 THEN '' ELSE list_aggr(CAST({0} AS VARCHAR[]), 'string_agg', {1}) END"
    ),
    "truncate": "trunc",
    "bit_not": "(~{0})",
    "char_length": "length",
    "character_length": "length",
    "octet_length": "strlen",
    "regexp_like": "regexp_matches",
    "ifnull": "coalesce",
    "date": "CAST({0} AS DATE)",
    "timestamp": "CAST({0} AS TIMESTAMP)",
    "datetime": "CAST({0} AS TIMESTAMP)",
    "array_get": "{0}[{1}]",
    "array_length": "len",
    "array_lower": "list_min",
    "array_upper": "list_max",
    "array_mean": "list_avg",
    "array_sum": "list_sum",
    "array_unique": "list_sort(list_distinct({0}))",
}
OPERATORS = {
    "mod": "Mod", "div": "IntDiv", "bit_and": "BitwiseAnd", "bit_or": "BitwiseOr", "bit_xor": "Xor", "xor": "Xor",
}  # fmt: skip
WITH_FORMAT = {"date": "CAST(strptime({0}, {1}) AS DATE)", "timestamp": "strptime", "datetime": "strptime"}
WRITTEN_OUT = {"strftime": 1, "strptime": 1, "date": 1, "timestamp": 1, "datetime": 1}
ROUNDING = {"ceil", "ceiling", "floor", "trunc", "truncate", "round"}  # an integer stays as it is
CHOOSING = {"coalesce", "ifnull", "greatest", "least", "nullif"}  # NaN is null, types are made one
FAILING = {"strptime", "date", "timestamp", "datetime"}
PARTS_OF_TIME = {
    "year", "years", "month", "months", "day", "days", "hour", "hours", "minute", "minutes", "second", "seconds",
    "millisecond", "milliseconds", "microsecond", "microseconds", "quarter", "week", "weeks", "isoyear", "isodow",
    "dow", "dayofweek", "doy", "dayofyear", "century", "decade", "millennium", "epoch", "timezone", "timezone_hour",
    "timezone_minute",
}  # fmt: skip
NANOSECONDS = {"nanosecond", "nanoseconds"}

INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
            "UHUGEINT"}  # fmt: skip
WIDER = {
    **dict.fromkeys(INTEGERS - {"BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"}, "BIGINT"),
    "UBIGINT": "HUGEINT",
    "UHUGEINT": "HUGEINT",
    "TIMESTAMP_S": "TIMESTAMP",
    "TIMESTAMP_MS": "TIMESTAMP",
}
MICROSECONDS = {
    "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMPTZ_NS": "TIMESTAMP WITH TIME ZONE",
    "TIME_NS": "TIME",
}
FAMILIES = {
    **dict.fromkeys({*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL"}, "number"),
    **dict.fromkeys(["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"], "date"),
    **dict.fromkeys(["TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"], "time with a zone"),
    **dict.fromkeys(["TIME", "TIME_NS"], "time of day"),
    **dict.fromkeys(["VARCHAR", "UUID", "JSON"], "text"),
    "BLOB": "binary",
    "BOOLEAN": "boolean",
    "INTERVAL": "interval",
    '"NULL"': "null",
}
CASTS = {
    "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INTEGER", "BIGINT": "BIGINT", "INT128": "HUGEINT",
    "UTINYINT": "UTINYINT", "USMALLINT": "USMALLINT", "UINT": "UINTEGER", "UBIGINT": "UBIGINT", "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE", "DECIMAL": "DECIMAL", "BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP", "DATETIME": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMPTZ", "TIME": "TIME",
    "INTERVAL": "INTERVAL", "CHAR": "VARCHAR",
    "VARCHAR": "VARCHAR", "TEXT": "VARCHAR", "VARBINARY": "BLOB", "BLOB": "BLOB", "BINARY": "BLOB", "UUID": "UUID",
}  # fmt: skip
CAST_NAMES = {  # types that the parser takes for a user's own
    "UINT8": "UTINYINT", "UINT16": "USMALLINT", "UINT32": "UINTEGER", "UINT64": "UBIGINT",
}  # fmt: skip


def family_of(kind: str) -> str:
    """Return the family of a DuckDB type: types of one family are compared with each other."""
    return "list" if kind.endswith("]") else FAMILIES.get(kind.partition("(")[0], kind)
