"""Where an export may lie, and what an export before has left there."""

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
OF = b"zyda.export"  # in the metadata of its schema: what the export is of
CORPUS_MARKS = (f"{PUBLISHED}/{MANIFEST}", REGISTER)  # by which a folder is known to be a corpus's
EXPORTED = pa.schema(
    [("path", pa.string()), ("source", pa.string()), ("rows", pa.int64()), ("size", pa.int64()),
     ("sha256", pa.string())]
)  # fmt: skip


class ExportOf(Record):
    """What an export has, however it is cut into files. columns, sources: all where there are none."""

    corpus: str
    format: str
    columns: tuple[str, ...]
    as_strings: tuple[str, ...] = ()
    sources: tuple[str, ...]

    def __str__(self) -> str:
        chosen = [", ".join(names) for names in (self.sources, self.columns) if names]
        return " of ".join([f"{self.corpus} as {self.format}", *chosen])

    def keeps(self, before: "ExportOf") -> bool:
        """Return whether this export has all that another had, as far as the corpus still has it."""
        is_same = before.model_copy(update={"sources": self.sources}) == self
        has_all = not self.sources or (bool(before.sources) and {*before.sources} <= {*self.sources})
        return is_same and has_all


class ExportedFile(Record):
    """A file that was written: where, its rows, its bytes and their SHA-256."""

    path: str
    source: str
    rows: int
    size: int
    sha256: str


def expect_elsewhere(recipe: Recipe, to: Folder) -> None:
    """Raise BadInput where an export would lie in the corpus itself, or where a source would read it."""
    folder = recipe.folder
    if f"{to.url}/".startswith(f"{folder.url}/") or f"{folder.url}/".startswith(f"{to.url}/"):
        raise BadInput(f"--to {to.url}: that is where the corpus itself is; choose another folder")
    for source in recipe.sources:
        for pattern in source.files:
            fixed = re.split(r"[*?\[]", pattern)[0]
            if fixed != pattern and f"{to.url}/".startswith(f"{fixed.rpartition('/')[0]}/"):
                raise BadInput(
                    f"--to {to.url}: source {source.name} reads {pattern}, which may take what is exported for its "
                    "own; choose another folder"
                )


def expect_no_corpus(to: Folder, places: Iterable[str]) -> None:
    """Raise BadInput where files would lie in the folder of a corpus, of whichever recipe. places: below `to`."""
    url = os.path.realpath(to.path("")) if to.is_local else to.url.rstrip("/")
    below = {f"{url}/{place}" for place in places}
    for folder in map(Folder, sorted({*below, *above(url)})):
        with suppress(Denied):  # who may not look there cannot have chosen it
            if any(map(folder.exists, CORPUS_MARKS)):
                raise BadInput(
                    f"--to {to.url}: {folder.url} is the folder of a corpus; choose another folder"
                )


def above(url: str) -> Iterator[str]:
    """Yield a folder, and each that it lies in, up to the root or the bucket."""
    scheme, mark, path = url.rpartition("://")
    parts = path.split("/")
    for count in range(len(parts), 0, -1):
        if parts[count - 1]:
            yield f"{scheme}{mark}{'/'.join(parts[:count])}"


def listed_before(to: Folder) -> tuple[list[ExportedFile], ExportOf | None]:
    """Return what an export before wrote to the same place, and of what.

    Raises BadInput where the table there is no export's.
    """
    content = to.read_if_there(TABLE)
    if content is None:
        return [], None
    try:
        # Not from a file of Python: a thread of Arrow may release it while the process ends, which aborts it.
        rows = pq.read_table(pa.BufferReader(content), schema=EXPORTED).to_pylist()
        known = (pq.read_schema(io.BytesIO(content)).metadata or {}).get(OF)
        return [ExportedFile(**row) for row in rows], ExportOf.model_validate_json(known) if known else None
    except (pa.ArrowException, ValueError, OSError) as error:
        raise BadInput(
            f"{to.url}/{TABLE} is not what an export writes; choose another folder, or remove it"
        ) from error
