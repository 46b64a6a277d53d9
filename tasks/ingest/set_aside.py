"""The rows of a piece that are set aside, written while the others are read: nobody knows how many they will be."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.sources.rows import BadRow
from tasks.storage.artifacts import Artifact, Counts
from tasks.storage.folder import Folder
from tasks.storage.tables import parquet_writer, write_artifact

HELD_ROWS = 1 << 16
HELD_BYTES = 32 << 20
SET_ASIDE = pa.schema(
    [
        ("source", pa.string()),
        ("file", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("content", pa.binary()),
    ]
)


class SetAside:
    """The rows of a file that are set aside, for the artifact at a path. Those beyond a number wait in a file."""

    def __init__(self, folder: Folder, path: str, name: str, source: str, file: str) -> None:
        self.folder, self.path, self.name = folder, path, name
        self.source, self.file = source, file
        self.rows = list[BadRow]()
        self.size = self.count = 0
        self.waiting: tuple[IO[bytes], pq.ParquetWriter] | None = None

    def add(self, rows: Iterable[BadRow]) -> None:
        for row in rows:
            self.rows.append(row)
            self.count += 1
            self.size += len(row.content)
            if len(self.rows) >= HELD_ROWS or self.size >= HELD_BYTES:
                self.put_in_file()

    def put_in_file(self) -> None:
        if self.waiting is None:
            file = TemporaryFile()  # noqa: SIM115 (closed once it is copied, or with this object)
            self.waiting = file, parquet_writer(file, SET_ASIDE)
        self.waiting[1].write_table(self.table())
        self.rows, self.size = [], 0

    def table(self) -> pa.Table:
        """Return the rows that are in memory."""
        columns = {
            "source": [self.source] * len(self.rows),
            "file": [self.file] * len(self.rows),
            **{name: [getattr(row, name) for row in self.rows] for name in ("row", "reason", "content")},
        }
        return pa.table(columns, schema=SET_ASIDE)

    def written(self) -> tuple[Artifact, ...]:
        """Write the artifact of all rows, if there are any."""
        if not self.count:
            return ()
        return (
            write_artifact(self.folder, self.path, self.name, self.fill, counts=Counts(documents=self.count)),
        )

    def fill(self, scratch: Path) -> None:
        if self.waiting is None:
            with parquet_writer(scratch, SET_ASIDE) as writer:
                writer.write_table(self.table())
            return
        self.put_in_file()
        file, waiting = self.waiting
        waiting.close()
        file.seek(0)
        with file, scratch.open("wb") as copy:
            shutil.copyfileobj(file, copy)
