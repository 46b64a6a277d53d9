"""What published code says of the documents in ../shared, which is not part of the project."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.recipe.source import Source
from tasks.sources.listing import list_files
from tasks.sources.reading import inspect, read


class Judged(NamedTuple):
    folder: Path
    rows: list
    texts: pa.LargeStringArray


@pytest.fixture(scope="session")
def judged(shared):
    """The documents of the shared corpora, and what the published code of Zyda-1 says of each."""
    if not (shared / "oracles/zyda1.parquet").is_file():
        pytest.skip("needs ../shared/oracles, which is not part of the project")
    said = pq.read_table(shared / "oracles/zyda1.parquet").to_pylist()
    texts = dict[tuple[str, str, int], str]()
    for name in sorted({row["source"] for row in said}):
        files = tuple(str(path) for path in (shared / "corpora" / name).glob("part-*"))
        for file in list_files(Source(name=name, files=files)):
            for piece in inspect(name, file, "text", 1 << 30, may_be_bad=True).file.pieces:
                for chunk in read(name, file, piece, "text"):
                    found = zip(chunk.rows.tolist(), chunk.table.column("text").to_pylist(), strict=True)
                    texts |= {(name, file.url.rpartition("/")[2], row): text for row, text in found}
    of_rows = [texts[row["source"], row["file"], row["row"]] for row in said]
    return Judged(shared / "oracles", said, pa.array(of_rows, pa.large_string()))
