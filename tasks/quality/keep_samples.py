"""Made-up rows of any schema, on which a `keep` is tried."""

import pyarrow as pa

SAMPLES = 8
STRINGS = ("", "a", "b", "a b", "10", "2020-01-02", "High", "%")


def samples(schema: pa.Schema) -> pa.Table:
    """Make up some rows of a schema, each unlike the others; null where a type is too odd."""
    return pa.table([sample_column(field.type, i) for i, field in enumerate(schema)], schema=schema)


def sample_column(kind: pa.DataType, turn: int) -> pa.Array:
    # An odd factor modulo a power of two: each column has every value once, in another order than the next.
    places = [(row * (2 * turn + 1) + turn) % SAMPLES for row in range(SAMPLES)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = sample_column(kind.value_type, turn).to_pylist()
        lists = [values[: place % 4] for place in places]
        return pa.array(lists, kind)
    if pa.types.is_struct(kind):
        fields = [sample_column(field.type, turn + i) for i, field in enumerate(kind)]
        return pa.StructArray.from_arrays(fields, fields=list(kind))
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    values = pa.array([STRINGS[p] for p in places] if is_text else [p - 1 for p in places])
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    try:
        return pa.array([p + 1 for p in places]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(SAMPLES, kind)
