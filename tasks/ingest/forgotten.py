"""Remove the content of documents on deny lists from the tables of ingest."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.documents.planning import STATISTICS
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.storage.documents import DOCUMENT_COUNTS


def without_content(documents: pa.Table, forgotten: Collection[int]) -> pa.Table:
    """Remove the content of forgotten documents: only ids, counts and numeric measures remain."""
    ids = documents.column("doc_id").to_numpy()
    mask = pa.array(np.isin(ids, np.array(sorted(forgotten), np.uint64)))
    fields, columns = list[pa.Field](), list[pa.ChunkedArray | pa.Array]()
    for named, column in zip(documents.schema, documents.columns, strict=True):
        if named.name == "text":
            column = pc.replace_with_mask(as_one_array(column), mask, pa.scalar("", named.type))
        elif named.name == STATISTICS:
            column = numbers_alone(column.combine_chunks(), mask)
        elif named.name not in DOCUMENT_COUNTS.names:
            named, column = named.with_nullable(True), nulls_where(column.combine_chunks(), mask)
        fields.append(named)
        columns.append(column)
    return pa.table(columns, schema=pa.schema(fields, documents.schema.metadata))


def numbers_alone(statistics: pa.StructArray, mask: pa.BooleanArray) -> pa.StructArray:
    """Set the measures of some documents to null, except numbers. mask: (n,)."""
    columns = [
        column if pa.types.is_primitive(named.type) else nulls_where(column, mask)
        for named, column in zip(statistics.type, statistics.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(statistics.type))


def nulls_where(column: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """Return a column with null where a mask, (n,), is true."""
    return column.take(pa.array(np.arange(len(column)), mask=mask.to_numpy(zero_copy_only=False)))
