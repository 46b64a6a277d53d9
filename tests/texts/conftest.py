"""What published code says of documents: of 200 in tests/data, and of all in ../shared where that is."""

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import REPOSITORY, SHARED

from tasks.recipe.source import Source
from tasks.sources.listing import list_files
from tasks.sources.reading import inspect, read

PLACES = {"200": REPOSITORY / "tests/data/published", "all": SHARED}


class Judged(NamedTuple):
    """Documents, and what published code says of each. folder: what else it came with, such as lists of words."""

    folder: Path
    rows: list
    texts: pa.LargeStringArray


def judged_by(code, place):
    """Return the documents of a place in their order, with what some published code says of each."""
    oracle = place / f"oracles/{code}.parquet"
    if not oracle.is_file():
        pytest.skip("needs ../shared/oracles, which is not part of the project")
    said = pq.read_table(oracle).to_pylist()
    texts = dict[tuple[str, str, int], str]()
    for name in sorted({row["source"] for row in said}):
        files = tuple(str(path) for path in (place / "corpora" / name).glob("part-*"))
        for file in list_files(Source(name=name, files=files)):
            for piece in inspect(name, file, "text", 1 << 30, may_be_bad=True).file.pieces:
                for chunk in read(name, file, piece, "text"):
                    found = zip(chunk.rows.tolist(), chunk.table.column("text").to_pylist(), strict=True)
                    texts |= {(name, file.url.rpartition("/")[2], row): text for row, text in found}
    of_rows = [texts[row["source"], row["file"], row["row"]] for row in said]
    return Judged(place / "oracles", said, pa.array(of_rows, pa.large_string()))


@pytest.fixture(scope="session", params=PLACES)
def judged(request):
    """Give documents, and what the published code of Zyda-1 says of each."""
    return judged_by("zyda1", PLACES[request.param])


@pytest.fixture(scope="session", params=PLACES)
def judged_by_datatrove(request):
    """Give documents, and what datatrove says of each."""
    return judged_by("datatrove", PLACES[request.param])
