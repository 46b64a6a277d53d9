"""Check the folder for an export, and read the table of an earlier export in it."""

import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED
from zyda_flows.tasks.errors import BadInput, Denied
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.sources.register import REGISTER
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record

TABLE = "exported.parquet"
OPTIONS = b"zyda.export"  # the key of the options of the export in the metadata of the schema
CORPUS_MARKS = (f"{PUBLISHED}/{MANIFEST}", REGISTER)  # files of the folder of a corpus
EXPORTED = pa.schema(
    [("path", pa.string()), ("source", pa.string()), ("rows", pa.int64()), ("not_selected", pa.int64()),
     ("size", pa.int64()), ("sha256", pa.string())]
)  # fmt: skip


class ExportOf(Record):
    """The options of an export that decide its content.

    columns, sources: empty means all. where: SQL condition of exported rows, or None for all.
    """

    corpus: str
    format: str
    columns: tuple[str, ...]
    as_strings: tuple[str, ...] = ()
    sources: tuple[str, ...]
    where: str | None = None

    def __str__(self) -> str:
        chosen = [", ".join(names) for names in (self.sources, self.columns) if names]
        condition = f" where {self.where}" if self.where else ""
        return " of ".join([f"{self.corpus} as {self.format}", *chosen]) + condition

    def keeps(self, before: "ExportOf") -> bool:
        """Return whether this export has all rows and columns of an earlier export."""
        is_same = before.model_copy(update={"sources": self.sources}) == self
        has_all = not self.sources or (bool(before.sources) and {*before.sources} <= {*self.sources})
        return is_same and has_all


class ExportedFile(Record):
    """A file of an export. not_selected: rows that do not meet the condition of the export. size: in bytes."""

    path: str
    source: str
    rows: int
    not_selected: int
    size: int
    sha256: str


def expect_elsewhere(recipe: Recipe, to: Folder) -> None:
    """Raise BadInput for a folder in the folder of the corpus, and for a folder that a source reads."""
    folder = recipe.folder
    if f"{to.url}/".startswith(f"{folder.url}/") or f"{folder.url}/".startswith(f"{to.url}/"):
        raise BadInput(f"--to {to.url}: this is the folder of the corpus; choose another folder")
    for source in recipe.sources:
        for pattern in source.files:
            fixed = re.split(r"[*?\[]", pattern)[0]
            if fixed != pattern and f"{to.url}/".startswith(f"{fixed.rpartition('/')[0]}/"):
                raise BadInput(
                    f"--to {to.url}: source {source.name} reads {pattern}, which may match the exported files; "
                    "choose another folder"
                )


def expect_no_corpus(to: Folder, places: Iterable[str]) -> None:
    """Raise BadInput for folders in the folder of any corpus. places: folders of the export below `to`."""
    url = os.path.realpath(to.path("")) if to.is_local else to.url.rstrip("/")
    below = {f"{url}/{place}" for place in places}
    for folder in map(Folder, sorted({*below, *above(url)})):
        with suppress(Denied):  # a folder without permission to read is not checked
            if any(map(folder.exists, CORPUS_MARKS)):
                raise BadInput(
                    f"--to {to.url}: {folder.url} is the folder of a corpus; choose another folder"
                )


def above(url: str) -> Iterator[str]:
    """Yield a folder and all its parents, up to the root or the bucket."""
    scheme, mark, path = url.rpartition("://")
    parts = path.split("/")
    for count in range(len(parts), 0, -1):
        if parts[count - 1]:
            yield f"{scheme}{mark}{'/'.join(parts[:count])}"


def listed_before(to: Folder) -> tuple[list[ExportedFile], ExportOf | None]:
    """Return the files of an earlier export in a folder, and its options.

    Raises BadInput if the table in the folder is not of an export.
    """
    content = to.read_if_there(TABLE)
    if content is None:
        return [], None
    try:
        # pa.BufferReader instead of a Python file: if a thread of Arrow releases it at exit, the process aborts.
        rows = pq.read_table(pa.BufferReader(content), schema=EXPORTED).to_pylist()
        known = (pq.read_schema(io.BytesIO(content)).metadata or {}).get(OPTIONS)
        return [ExportedFile(**row) for row in rows], ExportOf.model_validate_json(known) if known else None
    except (pa.ArrowException, ValueError, OSError) as error:
        raise BadInput(
            f"{to.url}/{TABLE} is not a table of an export; choose another folder, or remove the file"
        ) from error
