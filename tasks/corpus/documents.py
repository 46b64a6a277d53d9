"""Read rows of a published corpus by a value, such as the row and the text of a document by its id."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zyda_flows.tasks.accounts.published import TableFile
from zyda_flows.tasks.corpus.published_corpus import READERS, PublishedCorpus


def published_row(corpus: PublishedCorpus, doc_id: int) -> pa.Table:
    """Return the published row of a document; an empty table if it is not published."""
    files = [file for file, _ in corpus.files_with([doc_id])]
    return rows_with(corpus, files, "doc_id", [doc_id])


def removal_row(corpus: PublishedCorpus, doc_id: int) -> pa.Table:
    """Return the row of a removed document in `removed/`; an empty table if it was not removed."""
    files = [file for file, _ in corpus.files_with([doc_id], "removed/")]
    return rows_with(corpus, files, "doc_id", [doc_id])


def published_texts(corpus: PublishedCorpus, doc_ids: Iterable[int]) -> dict[int, str]:
    """Read the texts of published documents, by id. Documents that are not published are left out."""

    def read(some: tuple[TableFile, list[int]]) -> list[dict[str, Any]]:
        file, ids = some
        return rows_with(corpus, [file], "doc_id", ids, ["doc_id", "text"]).to_pylist()

    with ThreadPoolExecutor(READERS) as readers:
        found = readers.map(read, corpus.files_with(doc_ids))
        return {row["doc_id"]: row["text"] for rows in found for row in rows}


def rows_with(
    corpus: PublishedCorpus,
    files: Iterable[TableFile],
    column: str,
    values: Sequence[int],
    columns: list[str] | None = None,
) -> pa.Table:
    """Return the rows of files with a value of `values` in a uint64 column; an empty table if there are none."""
    tables, condition = [], pc.field(column).isin(pa.array(values, pa.uint64()))
    for file in files:
        with corpus.open(file) as parquet:
            tables += [table.filter(condition) for table in groups_with(parquet, column, values, columns)]
    tables = [table for table in tables if len(table)]
    return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})


def groups_with(
    parquet: pq.ParquetFile, column: str, values: Sequence[int], columns: list[str] | None
) -> Iterator[pa.Table]:
    """Read the row groups of a file whose statistics allow a value of `values` in a column."""
    place = parquet.schema_arrow.get_field_index(column)
    for group in range(parquet.num_row_groups):
        statistics = parquet.metadata.row_group(group).column(place).statistics
        if (
            statistics is None
            or not statistics.has_min_max
            or any(statistics.min <= value <= statistics.max for value in values)
        ):
            yield parquet.read_row_group(group, columns)
