"""The `keep` of a source: SQL over its columns, evaluated by polars, which runs nothing else of SQL."""

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray


def fault(expression: str, schema: pa.Schema) -> str | None:
    """Say what is wrong with an expression over these columns, or None if it can be evaluated."""
    two_rows = pa.table([pa.nulls(2, field.type) for field in schema], schema=schema)
    try:
        answers = evaluated(expression, two_rows)
        names_a_column = bool(pl.sql_expr(expression).meta.root_names())
    except pl.exceptions.PolarsError as error:
        return str(error).partition("\n")[0]
    if len(answers) != 2 and names_a_column:
        return "it gives one answer for all rows together, expected one for each row"
    is_boolean = answers.dtype in (pl.Boolean, pl.Null)
    return None if is_boolean else f"it gives {answers.dtype}, expected Boolean"


def evaluated(expression: str, table: pa.Table) -> pl.Series:
    frame = pl.DataFrame(table)
    return frame.select(pl.sql_expr(expression).alias("keep")).get_column("keep")


def kept(expression: str, table: pa.Table) -> NDArray[np.bool_]:
    """Evaluate an expression on each row: (n,) bool; a row for which it is null is not kept."""
    answers = evaluated(expression, table).fill_null(value=False).to_numpy().astype(np.bool_)
    return np.broadcast_to(answers, len(table)) if len(answers) == 1 else answers
