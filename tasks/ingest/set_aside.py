"""Write the set-aside rows of a piece while its other rows are read. Their number is not known in advance."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.documents.deny_rows import CONTENTS
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.sources.file_rows import BadRow
from zyda_flows.tasks.sources.json_text import dump, plain_values
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import parquet_writer, write_artifact

HELD_ROWS = 1 << 16
HELD_BYTES = 32 << 20
PLACE_COLUMNS = pa.schema(
    [("source", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("reason", pa.string())]
)


class SetAside:
    """The set-aside rows of a piece, for the artifact at `path`. Rows above HELD_ROWS are kept in a temporary file.

    with_content: whether their content is stored.
    """

    def __init__(
        self, folder: Folder, path: str, name: str, source: str, file: str, *, with_content: bool
    ) -> None:
        self.folder, self.path, self.name = folder, path, name
        self.schema = pa.schema([*PLACE_COLUMNS, *(CONTENTS if with_content else ())])
        self.source, self.file = source, file
        self.rows = list[BadRow]()
        self.size = self.count = 0
        self.overflow: tuple[IO[bytes], pq.ParquetWriter] | None = None

    def add(self, rows: Iterable[BadRow]) -> None:
        for row in rows:
            self.rows.append(row)
            self.count += 1
            self.size += len(row.content) + len(row.columns or "")
            if len(self.rows) >= HELD_ROWS or self.size >= HELD_BYTES:
                self.spill()

    def spill(self) -> None:
        if self.overflow is None:
            file = TemporaryFile()  # noqa: SIM115 (closed once it is copied, or with this object)
            self.overflow = file, parquet_writer(file, self.schema)
        self.overflow[1].write_table(self.table())
        self.rows, self.size = [], 0

    def table(self) -> pa.Table:
        """Return the rows in memory as a table."""
        columns = {
            "source": [self.source] * len(self.rows),
            "file": [self.file] * len(self.rows),
            **{name: [getattr(row, name) for row in self.rows] for name in self.schema.names[2:]},
        }
        return pa.table(columns, schema=self.schema)

    def written(self) -> tuple[Artifact, ...]:
        """Write the artifact with all rows, if there are any."""
        if not self.count:
            return ()
        return (
            write_artifact(self.folder, self.path, self.name, self.fill, counts=Counts(documents=self.count)),
        )

    def fill(self, scratch: Path) -> None:
        if self.overflow is None:
            with parquet_writer(scratch, self.schema) as writer:
                writer.write_table(self.table())
            return
        self.spill()
        file, writer = self.overflow
        writer.close()
        file.seek(0)
        with file, scratch.open("wb") as copy:
            shutil.copyfileobj(file, copy)


def rows_with_columns(rows: Sequence[BadRow], columns: pa.Table) -> list[BadRow]:
    """Return bad rows with their columns, (n,), as JSON. Rows with too many bytes of JSON lose their content too.

    Deny lists could not check the content of such a row.
    """
    values = {name: readable_values(as_one_array(columns.column(name))) for name in columns.column_names}
    complete = list[BadRow]()
    for place, row in enumerate(rows):
        text = dump({name: column[place] for name, column in values.items()})
        is_short = len(text.encode()) <= limits().bad_row_bytes
        complete.append(replace(row, columns=text) if is_short else row.without_content())
    return complete


def readable_values(array: pa.Array) -> list[Any]:
    """Return JSON values; all are null if the column cannot be read."""
    try:
        return plain_values(array)
    except (ValueError, OverflowError, pa.ArrowException):
        return [None] * len(array)
