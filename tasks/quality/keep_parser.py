"""Parse the SQL of a `keep` or `where` into sqlglot's tree, and reject expressions beyond the limits."""

import re
from collections.abc import Iterator
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from zyda_flows.tasks.limits import limits

CLOCKS = re.compile(
    r"\b(now|today|current_?(date|time|timestamp)|local_?(time|timestamp)|getdate)\b", re.IGNORECASE
)
QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
SHORTEN_ADVICE = "make it shorter; `column in (...)` takes any number of values"
# Functions with words among their arguments.
SYNTAX = {"CAST", "SAFE_CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "TRIM", "NORMALIZE"}
WRITTEN = {"replace": 2, "regexp_replace": 2, "array_to_string": 1}  # the argument that is put into a text
SHOWN_CHARACTERS = 80  # characters of a value or reason in a message


class BadKeep(ValueError):
    """An expression cannot be evaluated. row: the first row on which it fails, or None."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class RowDialect(DuckDB):
    """The dialect of DuckDB, in which functions are plain calls that `keep_functions` translates."""

    INDEX_OFFSET = 0

    class Tokenizer(DuckDB.Tokenizer):
        """Names can be in backticks, bytes are x'ff', DIV and TRUNCATE are functions."""

        IDENTIFIERS = ['"', "`"]
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]
        KEYWORDS = {
            name: kind for name, kind in DuckDB.Tokenizer.KEYWORDS.items() if name not in {"DIV", "TRUNCATE"}
        }

    class Parser(DuckDB.Parser):
        """Only functions with words among their arguments have special nodes."""

        FUNCTIONS: dict[str, Any] = {}
        FUNCTION_PARSERS = {
            name: parse for name, parse in DuckDB.Parser.FUNCTION_PARSERS.items() if name in SYNTAX
        }
        NO_PAREN_FUNCTION_PARSERS = {
            name: DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE")
        }
        DISJUNCTION = {**DuckDB.Parser.DISJUNCTION, TokenType.XOR: exp.Xor}


def parse(expression: str) -> exp.Expression:
    """Parse an expression. Raises BadKeep if it cannot be parsed or is beyond a bound."""
    bound = limits().expression_characters
    if len(expression) > bound:
        raise BadKeep(f"it has {len(expression):,} characters, expected at most {bound:,}: {SHORTEN_ADVICE}")
    if ";" in QUOTED.sub("''", expression):
        raise BadKeep("unable to parse it: there is a ;")
    try:
        tree = parse_one(expression, dialect=RowDialect, into=exp.Condition)
    except ParseError as error:
        raise BadKeep(f"unable to parse it: {place_of(error)}") from error
    except SqlglotError as error:
        raise BadKeep(f"unable to parse it: {str(error).partition(chr(10))[0][:SHOWN_CHARACTERS]}") from error
    except RecursionError as error:
        raise BadKeep(too_deep()) from error
    except (AttributeError, TypeError, ValueError, LookupError) as error:  # a defect of the parser
        raise BadKeep("unable to parse it") from error
    check_size(tree)
    return tree


def too_deep() -> str:
    return f"it has more than {limits().expression_levels} parts in each other or in a row: {SHORTEN_ADVICE}"


def place_of(error: ParseError) -> str:
    """Return the description and the place of the parser's first error."""
    if not error.errors:
        return str(error).partition("\n")[0][:SHOWN_CHARACTERS]
    first = error.errors[0]
    missing = "part missing" if "missing" in first["description"] else first["description"]
    return f"{missing}, at character {first['col']}, by {first['highlight'][:SHOWN_CHARACTERS]!r}"


def path_of(node: exp.Expression) -> tuple[str, ...]:
    """Return the names of a column and of the fields below it: `meta.a` is ('meta', 'a')."""
    if isinstance(node, exp.Dot):
        return (*path_of(node.this), node.expression.name)
    return tuple(part.name for part in node.parts)


def paths_in(tree: exp.Expression) -> list[tuple[str, ...]]:
    """Return the path of each column and field that an expression reads, sorted."""
    nodes = tree.find_all(exp.Column, exp.Dot)
    return sorted({path_of(node) for node in nodes if is_path(node) and not isinstance(node.parent, exp.Dot)})


def is_path(node: exp.Expression) -> bool:
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        node = node.this
    return isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)


def check_size(tree: exp.Expression) -> None:
    """Raise BadKeep if a tree is too deep, or could return far more data than a row has."""
    growth, joined = 1, 0
    for node, level in levels(tree):
        if level > limits().expression_levels:
            raise BadKeep(too_deep())
        joined += isinstance(node, (exp.Add, exp.DPipe))
        if isinstance(node, exp.Array):
            joined += sum(not isinstance(item, exp.Literal) for item in node.expressions)
        if isinstance(node, exp.Anonymous):
            joined += len(node.expressions) * (node.name.lower() in {"concat", "concat_ws"})
            growth *= growth_by(node)
    if growth > limits().expression_growth:
        raise BadKeep(
            f"what is put into a text makes it up to {growth:,} times as long, "
            f"expected at most {limits().expression_growth}"
        )
    if joined > limits().expression_joined:
        raise BadKeep(f"it joins more than {limits().expression_joined} texts or numbers")


def levels(tree: exp.Expression) -> Iterator[tuple[exp.Expression, int]]:
    """Yield each node of a tree with its level, without recursion."""
    pending = [(tree, 1)]
    while pending:
        node, level = pending.pop()
        yield node, level
        pending += [(below, level + (not isinstance(below, exp.Paren))) for below in node.iter_expressions()]


def growth_by(call: exp.Anonymous) -> int:
    """Return how many times longer a function can make a text. Raises BadKeep if the bound is unknown."""
    name, arguments = call.name.lower(), call.expressions
    if name in {"lpad", "rpad"} and len(arguments) > 1:
        length = arguments[1]
        bound = limits().expression_padding
        if not (length.is_int and int(length.name) <= bound):
            raise BadKeep(f"a text is padded to a written number of at most {bound:,} characters")
    place = WRITTEN.get(name)
    if place is None or len(arguments) <= place:
        return 1
    if not isinstance(arguments[place], (exp.Literal, exp.RawString)):
        raise BadKeep("what is put into a text has to be written out")
    return max(1, len(arguments[place].name))
