"""Translate a `keep` into DuckDB's SQL, part by part, with the semantics that docs/recipe.md states.

Integers of all widths become BIGINT, of 64 bits without sign HUGEINT. A NaN becomes null where it is compared or
chosen. AND, OR and CASE evaluate a part that can fail only on rows whose answer it decides.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import duckdb
from sqlglot import exp

from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality import keep_functions as names
from zyda_flows.tasks.quality.keep_functions import INTEGERS, family_of
from zyda_flows.tasks.quality.keep_parser import SHOWN_CHARACTERS, BadKeep, is_path, path_of, too_deep

ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%", exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
}  # fmt: skip
COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
PATTERNS: dict[type[exp.Expression], str] = {
    exp.Like: "{0} LIKE {1}", exp.ILike: "{0} ILIKE {1}", exp.RegexpLike: "regexp_matches({0}, {1})",
    exp.RegexpILike: "regexp_matches({0}, {1}, 'i')",
}  # fmt: skip
LARGEST_FLOAT = 3.4028234e38
CODE = re.compile(r" in expression .*|\. Use .*|\. You might .*| - an explicit cast .*|\bc\d+\b", re.DOTALL)


@dataclass(frozen=True)
class SqlPart:
    """A part of an expression in DuckDB's SQL, with its type."""

    sql: str
    kind: str
    is_constant: bool = False
    can_fail: bool = False
    is_literal: bool = False

    @property
    def family(self) -> str:
        return family_of(self.kind)

    def cast(self, kind: str) -> "SqlPart":
        return replace(self, sql=f"CAST({self.sql} AS {kind})", kind=kind, is_literal=False)


BLANK = SqlPart("' '", "VARCHAR", is_constant=True, is_literal=True)
NO_COLUMN = SqlPart("", "", is_constant=True)


class RowTable(NamedTuple):
    """The table `rows` of a connection, and the name of its column for each path."""

    connection: duckdb.DuckDBPyConnection
    columns: dict[tuple[str, ...], str]


def reason_of(error: BaseException) -> str:
    """Return the first line of an error of DuckDB, without its own names."""
    line = str(error).strip().partition("\n")[0].partition(" Error: ")
    text = CODE.sub("", line[2] or line[0])
    return text if len(text) <= 2 * SHOWN_CHARACTERS else f"{text[: 2 * SHOWN_CHARACTERS]}..."


class Translator:
    """Translate an expression over a source's columns."""

    def __init__(self, source: RowTable) -> None:
        self.source = source
        self.rules: dict[type[exp.Expression], Callable[[Any], SqlPart]] = {
            **dict.fromkeys(ARITHMETIC, self.arithmetic),
            **dict.fromkeys(COMPARISONS, self.comparison),
            **dict.fromkeys(PATTERNS, self.pattern),
            exp.Column: self.column, exp.Dot: self.column, exp.Paren: lambda node: self.part(node.this),
            exp.Literal: self.literal, exp.RawString: self.literal, exp.HexString: self.binary,
            exp.Boolean: lambda node: SqlPart(str(node.this).upper(), "BOOLEAN", is_constant=True),
            exp.Null: lambda node: SqlPart("NULL", '"NULL"', is_constant=True),
            exp.And: self.connector, exp.Or: self.connector, exp.Not: self.negation, exp.Xor: self.xor,
            exp.Is: self.is_value, exp.In: self.membership, exp.Between: self.between, exp.Neg: self.minus,
            exp.DPipe: self.joined, exp.Case: self.case, exp.Cast: self.cast,
            exp.TryCast: self.cast, exp.Interval: self.interval, exp.Bracket: self.element, exp.Array: self.array,
            exp.Extract: self.extract, exp.Normalize: self.normal_form, exp.Trim: self.trim,
            exp.Anonymous: self.function,
            exp.StartsWith: lambda node: self.call("starts_with", node.this, node.expression),
            exp.StrPosition: lambda node: self.call("strpos", node.this, node.args["substr"]),
            exp.Substring: lambda node: self.call("substr", *node.iter_expressions()),
        }  # fmt: skip

    def part(self, node: exp.Expression) -> SqlPart:
        """Translate a node. Raises BadKeep if the node is not allowed or its types do not fit."""
        if rule := self.rules.get(type(node)):
            return rule(node)
        raise BadKeep(f"{node.key} is not allowed: an expression is over the columns of one row")

    def made(self, sql: str, *given: SqlPart, kind: str | None = None, can_fail: bool = False) -> SqlPart:
        """Return a part that is made of others, with integers widened."""
        if len(sql) > limits().expression_sql:
            raise BadKeep(too_deep())
        is_constant = all(part.is_constant for part in given)
        fails = (can_fail and not is_constant) or any(part.can_fail for part in given)
        made = SqlPart(sql, kind or self.kind_of(sql, is_constant), is_constant, fails)
        wider = names.WIDER.get(made.kind)
        return made.cast(wider) if wider else made

    def kind_of(self, sql: str, is_constant: bool) -> str:
        """Look up the type of some SQL. Raises BadKeep if DuckDB refuses it."""
        try:
            query = f"SELECT {sql} AS answer{'' if is_constant else ' FROM rows'}"  # noqa: S608 (translated)
            relation = self.source.connection.sql(query)
            relation.fetchall()  # of no rows, unless it is a constant
        except duckdb.Error as error:
            raise BadKeep(reason_of(error)) from error
        return str(relation.types[0])

    def column(self, node: exp.Expression) -> SqlPart:
        if not is_path(node):
            raise BadKeep("a field is named by its column and fields: meta.a")
        name = self.source.columns[path_of(node)]
        return self.made(name, SqlPart(name, ""))

    def literal(self, node: exp.Expression) -> SqlPart:
        if not isinstance(node, exp.Literal) or node.is_string:
            return SqlPart(quoted(node.name), "VARCHAR", is_constant=True, is_literal=True)
        is_whole = node.name.isdigit()
        kind = "INTEGER" if is_whole and int(node.name) < 1 << 63 else "DOUBLE"
        if not is_whole or kind == "DOUBLE":
            kind = self.kind_of(node.name, is_constant=True)
        return SqlPart(node.name, kind, is_constant=True, is_literal=True)

    def binary(self, node: exp.HexString) -> SqlPart:
        return self.made(f"from_hex('{node.name}')", NO_COLUMN)

    def aligned(self, *given: SqlPart) -> list[SqlPart]:
        """Return parts that can be compared or added: numbers as one type, NaN as null. Raises BadKeep."""
        if any(part.family == "binary" for part in given):
            given = tuple(binary_text(part) for part in given)
        families = {part.family for part in given} - {"null"}
        if len(families) > 1 and families != {"number", "boolean"}:
            first, second = sorted(families)[:2]
            raise BadKeep(f"it compares or joins {first} and {second}; cast one of them to the other's type")
        real = type_of_reals([part for part in given if not part.is_literal])
        return [self.prepared(part, real) for part in given]

    def compared(self, *given: SqlPart) -> list[SqlPart]:
        """Return parts that can be compared. If a time has nanoseconds, all times become counts of nanoseconds."""
        parts = self.aligned(*given)
        if not {part.kind for part in given} & {*names.MICROSECONDS}:
            return parts
        return [self.nanoseconds(part) if part.family != "null" else part for part in given]

    def nanoseconds(self, part: SqlPart) -> SqlPart:
        """Return a time, date or time of day as a number of nanoseconds, wide enough for all years."""
        if part.kind in names.MICROSECONDS:
            return self.made(f"CAST(epoch_ns({part.sql}) AS HUGEINT)", part, kind="HUGEINT")
        time = part.cast("TIMESTAMP") if part.kind == "DATE" else part
        return self.made(f"(CAST(epoch_us({time.sql}) AS HUGEINT) * 1000)", time, kind="HUGEINT")

    def prepared(self, part: SqlPart, real: str | None) -> SqlPart:
        """Return a part with the type that its operation needs. real: the type of real operands, or None."""
        if part.kind in names.MICROSECONDS:
            return part.cast(names.MICROSECONDS[part.kind])
        if part.is_literal and real and part.family == "number":
            is_small = abs(float(part.sql.strip("()"))) <= LARGEST_FLOAT
            text = part.sql.strip("()")
            return replace(part, sql=f"CAST('{text}' AS {real if is_small else 'DOUBLE'})", kind=real)
        if part.kind == "FLOAT" and real == "DOUBLE":
            return self.without_nan(part).cast("DOUBLE")
        return self.without_nan(part)

    def without_nan(self, part: SqlPart) -> SqlPart:
        """Return a part that is null where it is NaN. Columns have no NaN: `keep.column_at` replaces it."""
        is_column = part.sql in self.source.columns.values()
        if part.kind not in {"FLOAT", "DOUBLE"} or part.is_literal or is_column:
            return part
        return self.made(f"CASE WHEN isnan({part.sql}) THEN NULL ELSE {part.sql} END", part, kind=part.kind)

    def number(self, part: SqlPart) -> SqlPart:
        """Return an operand of arithmetic as a wide number. Raises BadKeep if it is a text."""
        if part.family in {"text", "binary"}:
            raise BadKeep(f"arithmetic on {part.family}; cast it to a number")
        narrow = part.kind in names.WIDER or part.family == "boolean"
        return part.cast("BIGINT") if narrow else part

    def arithmetic(self, node: exp.Binary) -> SqlPart:
        left, right = self.part(node.left), self.part(node.right)
        if isinstance(node, exp.Add) and left.family == right.family == "text":
            return self.made(f"({left.sql} || {right.sql})", left, right, kind="VARCHAR")
        if isinstance(node, exp.Sub) and left.kind == right.kind == "DATE":
            left, right = left.cast("TIMESTAMP"), right.cast("TIMESTAMP")
        if {left.family, right.family} <= {"number", "boolean", "null"}:
            left, right = self.aligned(
                *(part if part.is_literal else self.number(part) for part in (left, right))
            )
        left, right = self.number(left), self.number(right)
        sql = f"({left.sql} {ARITHMETIC[type(node)]} {right.sql})"
        if isinstance(node, exp.IntDiv) and not {left.kind, right.kind} <= {*INTEGERS, '"NULL"'}:
            sql = f"trunc({left.sql} / {right.sql})"
        return self.made(sql, left, right, can_fail=True)

    def minus(self, node: exp.Neg) -> SqlPart:
        part = self.part(node.this)
        if part.is_literal and part.family == "number" and part.sql[0] != "(":
            return replace(part, sql=f"(-{part.sql})")
        part = self.number(part)
        return self.made(f"(-{part.sql})", part, can_fail=True)

    def comparison(self, node: exp.Binary) -> SqlPart:
        left, right = node.left, node.right
        if isinstance(right, exp.Any) and isinstance(node, exp.EQ):
            value, values = self.part(left), self.part(right.this)
            return self.made(f"({value.sql} = ANY({values.sql}))", value, values)
        parts = self.compared(self.part(left), self.part(right))
        sql = f"({parts[0].sql} {COMPARISONS[type(node)]} {parts[1].sql})"
        return self.made(sql, *parts)

    def pattern(self, node: exp.Binary) -> SqlPart:
        text, written = self.part(node.this), self.part(node.expression)
        if not written.is_literal or {text.family, written.family} - {"null"} != {"text"}:
            raise BadKeep("a pattern is a text in single quotes, and is sought in a text")
        sql = PATTERNS[type(node)].format(text.sql, written.sql)
        return self.made(f"({'NOT ' * bool(node.args.get('negate'))}{sql})", text)

    def connector(self, node: exp.Connector) -> SqlPart:
        """Translate a chain of AND or OR. A part that can fail is evaluated only if the parts before it need it."""
        parts = [self.condition(below) for below in node.flatten()]
        word, ends, answer = ("AND", "NOT ", "FALSE") if isinstance(node, exp.And) else ("OR", "", "TRUE")
        sql, fails = parts[-1].sql, parts[-1].can_fail
        for part in reversed(parts[:-1]):
            sql = f"({part.sql} {word} {sql})"
            if fails:
                sql = f"CASE WHEN {ends}{part.sql} THEN {answer} ELSE {sql} END"
            fails |= part.can_fail
            if len(sql) > limits().expression_sql:
                raise BadKeep(too_deep())
        return self.made(sql, *parts, kind="BOOLEAN")

    def condition(self, node: exp.Expression) -> SqlPart:
        part = self.part(node)
        if part.family not in {"boolean", "null"}:
            raise BadKeep(f"a condition gives {part.kind}, expected Boolean, as a comparison does (n > 3)")
        return part

    def negation(self, node: exp.Not) -> SqlPart:
        part = self.part(node.this)
        return self.made(f"(NOT {part.sql})", part)

    def xor(self, node: exp.Xor) -> SqlPart:
        return self.either(self.part(node.this), self.part(node.expression))

    def either(self, left: SqlPart, right: SqlPart) -> SqlPart:
        if "boolean" in {left.family, right.family}:
            return self.made(f"({left.sql} <> {right.sql})", left, right)
        left, right = self.number(left), self.number(right)
        return self.made(f"xor({left.sql}, {right.sql})", left, right)

    def is_value(self, node: exp.Is) -> SqlPart:
        part = self.without_nan(self.part(node.this))
        if not isinstance(node.expression, (exp.Boolean, exp.Null)):
            raise BadKeep("IS is followed by NULL, TRUE or FALSE")
        return self.made(f"({part.sql} IS {self.part(node.expression).sql})", part)

    def membership(self, node: exp.In) -> SqlPart:
        if any(node.args.get(name) for name in ("query", "unnest", "field")):
            raise BadKeep("IN is followed by values in brackets: a in (1, 2)")
        value, *values = self.compared(self.part(node.this), *map(self.part, node.expressions))
        return self.made(f"({value.sql} IN ({', '.join(part.sql for part in values)}))", value, *values)

    def between(self, node: exp.Between) -> SqlPart:
        if node.args.get("symmetric"):
            raise BadKeep("BETWEEN SYMMETRIC is not allowed")
        parts = self.compared(*(self.part(node.args[name]) for name in ("this", "low", "high")))
        return self.made("({} BETWEEN {} AND {})".format(*(part.sql for part in parts)), *parts)

    def joined(self, node: exp.DPipe) -> SqlPart:
        parts = [as_text(self.part(below)) for below in (node.this, node.expression)]
        return self.made(f"({parts[0].sql} || {parts[1].sql})", *parts, kind="VARCHAR")

    def case(self, node: exp.Case) -> SqlPart:
        whens = node.args["ifs"]
        subject = node.args.get("this")
        conditions = [
            self.comparison(exp.EQ(this=subject.copy(), expression=when.this.copy())) if subject
            else self.condition(when.this) for when in whens
        ]  # fmt: skip
        other = node.args.get("default") or exp.Null()
        return self.chosen(conditions, [when.args["true"] for when in whens] + [other])

    def chosen(self, conditions: list[SqlPart], values: list[exp.Expression]) -> SqlPart:
        parts = unified([self.part(value) for value in values])
        whens = " ".join(
            f"WHEN {when.sql} THEN {part.sql}" for when, part in zip(conditions, parts, strict=False)
        )
        return self.made(f"(CASE {whens} ELSE {parts[-1].sql} END)", *conditions, *parts)

    def cast(self, node: exp.Cast) -> SqlPart:
        part, kind = self.without_nan(self.part(node.this)), type_name(node.args["to"])
        word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
        sql = f"{word}({part.sql} AS {kind})"
        for is_given, is_wanted, form in SPECIAL_CASTS:
            if is_given(part) and is_wanted(kind):
                sql = form.format(part.sql, kind)
                break
        return self.made(sql, part, can_fail=word == "CAST")

    def interval(self, node: exp.Interval) -> SqlPart:
        if not isinstance(node.this, exp.Literal):
            raise BadKeep("an interval is written out: interval '1 day'")
        unit = node.args.get("unit")
        return self.made(f"INTERVAL {quoted(f'{node.this.name} {unit.name if unit else str()}')}", NO_COLUMN)

    def element(self, node: exp.Bracket) -> SqlPart:
        values = self.part(node.this)
        if values.family != "list" or len(node.expressions) != 1:
            raise BadKeep(f"[ ] takes one element of a list, and is beside {values.kind}")
        place = self.part(node.expressions[0])
        return self.made(f"{values.sql}[{place.sql}]", values, place)

    def array(self, node: exp.Array) -> SqlPart:
        parts = unified([self.part(value) for value in node.expressions])
        return self.made(f"[{', '.join(part.sql for part in parts)}]", *parts, NO_COLUMN)

    def extract(self, node: exp.Extract) -> SqlPart:
        return self.part_of_time(node.name.lower(), self.part(node.expression))

    def part_of_time(self, name: str, time: SqlPart) -> SqlPart:
        if name in names.NANOSECONDS:
            return self.made(f"nanosecond({time.sql})", time)
        if name not in names.PARTS_OF_TIME:
            raise BadKeep(f"{name} is no part of a time")
        return self.made(f"date_part('{name}', {time.sql})", time)

    def trim(self, node: exp.Trim) -> SqlPart:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position") or "", "trim")
        parts = [self.part(below) for below in (node.this, node.args.get("expression")) if below]
        return self.made(f"{name}({', '.join(part.sql for part in parts)})", *parts)

    def function(self, node: exp.Anonymous) -> SqlPart:
        return self.call(node.name.lower(), *node.expressions)

    def call(self, name: str, *given: exp.Expression) -> SqlPart:
        """Translate a call of a function that is in the table of functions."""
        if name in names.OPERATORS:
            return self.operator(name, *given)
        if name == "if" and len(given) == 3:
            return self.chosen([self.condition(given[0])], [*given[1:]])
        if name == "date_part" and len(given) == 2:
            return self.part_of_time(given[0].name.lower(), self.part(given[1]))
        form = form_of_call(name, given)
        parts = self.arguments(name, given)
        if name in names.ROUNDING and [part.kind in INTEGERS for part in parts] == [True]:
            return parts[0]
        return self.filled(form, parts, can_fail=name in names.FAILING)

    def operator(self, name: str, *given: exp.Expression) -> SqlPart:
        """Translate a call of a function that is an operator, such as `mod`."""
        if len(given) != 2:
            raise BadKeep(f"{name} takes two arguments")
        left, right = (value.copy() for value in given)
        return self.part(getattr(exp, names.OPERATORS[name])(this=left, expression=right))

    def arguments(self, name: str, given: tuple[exp.Expression, ...]) -> list[SqlPart]:
        """Translate the arguments of a call to the types that the function needs."""
        parts = [self.part(value) for value in given]
        if name in {"lpad", "rpad"} and len(parts) == 2:
            parts.append(BLANK)
        if name in names.CHOOSING:
            parts = unified([self.without_nan(part) for part in parts])
        if name == "nullif" and not {part.kind for part in parts} & {*names.MICROSECONDS}:
            parts = self.aligned(*parts)
        return parts

    def filled(self, form: str, parts: list[SqlPart], can_fail: bool) -> SqlPart:
        texts = [part.sql for part in parts]
        if "{" not in form:
            return self.made(f"{form}({', '.join(texts)})", *parts, can_fail=can_fail)
        if len(texts) != sum(f"{{{place}}}" in form for place in range(3)):
            raise BadKeep("a function is given too few or too many arguments")
        return self.made(f"({form.format(*texts)})", *parts, can_fail=can_fail)

    def normal_form(self, node: exp.Normalize) -> SqlPart:
        part, form = self.part(node.this), node.args.get("form")
        name = form.name.upper() if form else "NFC"
        if name not in {"NFC", "NFD", "NFKC", "NFKD"}:
            raise BadKeep("the form of normalize is NFC, NFD, NFKC or NFKD")
        return self.made(f"normalize({part.sql}, '{name}')", part)


def type_of_reals(parts: list[SqlPart]) -> str | None:
    """Return the type to which numbers are cast if a part is FLOAT or DOUBLE, or None."""
    kinds = {part.kind for part in parts if part.family == "number"}
    if not kinds & {"FLOAT", "DOUBLE"}:
        return None
    return "FLOAT" if kinds == {"FLOAT"} else "DOUBLE"


def form_of_call(name: str, given: tuple[exp.Expression, ...]) -> str:
    """Return DuckDB's form of a function. Raises BadKeep if it is unknown or its format is not a literal."""
    form = names.FUNCTIONS.get(name)
    if form is None:
        raise BadKeep(f"function {name[:SHOWN_CHARACTERS]!r} is unknown, or does not look at a row by itself")
    place = names.WRITTEN_OUT.get(name, len(given))
    if place >= len(given):
        return form
    if not isinstance(given[place], exp.Literal):
        raise BadKeep(f"the format of {name} has to be written out")
    return names.WITH_FORMAT.get(name, form)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def as_text(part: SqlPart) -> SqlPart:
    return part if part.family in {"text", "null"} else part.cast("VARCHAR")


def binary_text(part: SqlPart) -> SqlPart:
    """Return a text as its bytes, for comparison with bytes."""
    is_written = part.family == "text" and part.is_literal
    return replace(part, sql=f"encode({part.sql})", kind="BLOB") if is_written else part


def unified(parts: list[SqlPart]) -> list[SqlPart]:
    """Return parts as text if a text and something else are among them."""
    families = {part.family for part in parts} - {"null"}
    return [as_text(part) for part in parts] if "text" in families and len(families) > 1 else parts


def type_name(node: exp.DataType) -> str:
    """Return DuckDB's name of a type. Raises BadKeep if the type is not allowed."""
    name = getattr(node.this, "name", str(node.this))
    kind = names.CASTS.get(name) or names.CAST_NAMES.get(node.sql().upper())
    if kind is None:
        raise BadKeep(f"a cast to {node.sql()[:SHOWN_CHARACTERS]} is not allowed")
    if kind == "DECIMAL":
        return str(node.sql(dialect="duckdb"))
    return kind


def is_integer(part: SqlPart) -> bool:
    return part.kind in INTEGERS


def is_timestamp(part: SqlPart) -> bool:
    return part.family in {"date", "time with a zone"} and part.kind != "DATE"


NUMBER_TYPES = {*INTEGERS, "DOUBLE"}
SPECIAL_CASTS: list[tuple[Callable[[SqlPart], bool], Callable[[str], bool], str]] = [
    (lambda part: part.kind == "BLOB", lambda kind: kind == "VARCHAR", "decode({0})"),
    (lambda part: part.family == "text", lambda kind: kind == "BLOB", "encode({0})"),
    (is_integer, lambda kind: kind == "TIMESTAMP", "make_timestamp(CAST({0} AS BIGINT))"),
    (is_integer, lambda kind: kind == "DATE", "(DATE '1970-01-01' + CAST({0} AS INTEGER))"),
    (is_timestamp, lambda kind: kind in NUMBER_TYPES, "CAST(epoch_us({0}) AS {1})"),
    (
        lambda part: part.kind == "DATE",
        lambda kind: kind in NUMBER_TYPES,
        "CAST({0} - DATE '1970-01-01' AS {1})",
    ),
]
