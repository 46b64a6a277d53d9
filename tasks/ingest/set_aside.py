"""The rows of a piece that are set aside, written while the others are read: nobody knows how many they will be."""

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
from zyda_flows.tasks.storage.artifacts import Artifact, Counts
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import parquet_writer, write_artifact

HELD_ROWS = 1 << 16
HELD_BYTES = 32 << 20
PLACES = pa.schema(
    [("source", pa.string()), ("file", pa.string()), ("row", pa.int64()), ("reason", pa.string())]
)


class SetAside:
    """The rows of a file that are set aside, for the artifact at a path. Those beyond a number wait in a file.

    with_content: their content is stored, too.
    """

    def __init__(
        self, folder: Folder, path: str, name: str, source: str, file: str, *, with_content: bool
    ) -> None:
        self.folder, self.path, self.name = folder, path, name
        self.schema = pa.schema([*PLACES, *(CONTENTS if with_content else ())])
        self.source, self.file = source, file
        self.rows = list[BadRow]()
        self.size = self.count = 0
        self.waiting: tuple[IO[bytes], pq.ParquetWriter] | None = None

    def add(self, rows: Iterable[BadRow]) -> None:
        for row in rows:
            self.rows.append(row)
            self.count += 1
            self.size += len(row.content) + len(row.columns or "")
            if len(self.rows) >= HELD_ROWS or self.size >= HELD_BYTES:
                self.put_in_file()

    def put_in_file(self) -> None:
        if self.waiting is None:
            file = TemporaryFile()  # noqa: SIM115 (closed once it is copied, or with this object)
            self.waiting = file, parquet_writer(file, self.schema)
        self.waiting[1].write_table(self.table())
        self.rows, self.size = [], 0

    def table(self) -> pa.Table:
        """Return the rows that are in memory."""
        columns = {
            "source": [self.source] * len(self.rows),
            "file": [self.file] * len(self.rows),
            **{name: [getattr(row, name) for row in self.rows] for name in self.schema.names[2:]},
        }
        return pa.table(columns, schema=self.schema)

    def written(self) -> tuple[Artifact, ...]:
        """Write the artifact of all rows, if there are any."""
        if not self.count:
            return ()
        return (
            write_artifact(self.folder, self.path, self.name, self.fill, counts=Counts(documents=self.count)),
        )

    def fill(self, scratch: Path) -> None:
        if self.waiting is None:
            with parquet_writer(scratch, self.schema) as writer:
                writer.write_table(self.table())
            return
        self.put_in_file()
        file, waiting = self.waiting
        waiting.close()
        file.seek(0)
        with file, scratch.open("wb") as copy:
            shutil.copyfileobj(file, copy)


def rows_with_columns(rows: Sequence[BadRow], columns: pa.Table) -> list[BadRow]:
    """Return bad rows with their columns, (n,), as JSON. A row with more than a limit loses its content, too.

    Deny lists could not judge the content of such a row.
    """
    values = {name: readable_values(as_one_array(columns.column(name))) for name in columns.column_names}
    found = list[BadRow]()
    for place, row in enumerate(rows):
        text = dump({name: of_column[place] for name, of_column in values.items()})
        is_short = len(text.encode()) <= limits().bad_row_bytes
        found.append(replace(row, columns=text) if is_short else row.without_content())
    return found


def readable_values(array: pa.Array) -> list[Any]:
    """Return values as JSON has them, null where those of a column cannot be read."""
    try:
        return plain_values(array)
    except (ValueError, OverflowError, pa.ArrowException):
        return [None] * len(array)
