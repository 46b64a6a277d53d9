"""Measure the search for repeated passages: MB/s of each pass of one core, and bytes of work files.

With pydivsufsort, the marked windows are compared with those of a suffix array and its common prefixes, over the
same ASCII documents, and its speed is measured. Any two occurrences count, also in a document.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds
import typer
from numpy.typing import NDArray

from benchmarks.corpora import build_here, load_texts, megabytes_of, published, write_recipe, write_texts
from benchmarks.harness import DEMO, Row, Size, Table, TextsFolder, benchmark, timed
from zyda_flows.tasks.passages.search_jobs import STAGE
from zyda_flows.tasks.stage.jobs import Job

PASSES = {
    "FingerprintsOfShard": "1. fingerprints of all text",
    "RepeatedOfRange": "2. repeated fingerprints",
    "ContextsOfShard": "3. contexts of repeated fingerprints",
    "RunsOfRange": "4. comparison of windows",
    "PassagesOfShard": "5. marks in the text, and cuts",
}
EXCHANGE = "copies of rows between passes"
Lengths = Annotated[list[int], typer.Option("--length", help="Characters of the shortest passage.")]


def search(folder: Path, length: int) -> tuple[Counter[str], int]:
    """Build a corpus with passages of a length; return the seconds of each pass, and the peak of its work files."""
    seconds, largest = Counter[str](), 0
    work, make = folder / f"out/of-{length}/work" / STAGE, Job.counted

    def counted(job: Job[Any]) -> Any:
        nonlocal largest
        made, spent = timed(lambda: make(job), time.process_time)
        if job.stage == STAGE:
            seconds[PASSES.get(type(job).__name__, EXCHANGE)] += spent
            largest = max(largest, sum(path.stat().st_size for path in work.rglob("*") if path.is_file()))
        return made

    part = {"length": length, "within": True, "keep": "all"}
    recipe = write_recipe(
        folder, f"of-{length}", {"texts": "texts/*.parquet"}, dedup={"exact": "text"}, passages=[part],
        publish_bands=False,
    )  # fmt: skip
    with mock.patch.object(Job, "counted", counted):
        build_here(recipe)
    return seconds, largest


def marked_windows(corpus: Path, starts: dict[int, int], size: int, length: int) -> NDArray[np.bool_]:
    """Return the windows that the published passages cover, by the place of their first byte: (size,)."""
    change = np.zeros(size + 1, np.int64)
    if not (corpus / "passages").exists():  # none is repeated
        return change[1:] > 0
    rows = ds.dataset(corpus / "passages").to_table(columns=["doc_id", "start", "end"])
    places = np.array([starts[doc_id] for doc_id in rows["doc_id"].to_pylist()], np.int64)
    np.add.at(change, places + rows["start"].to_numpy(), 1)
    np.add.at(change, places + rows["end"].to_numpy() - length + 1, -1)
    return np.cumsum(change[:-1]) > 0


def windows_of_suffixes(data: NDArray[np.uint8], length: int) -> tuple[NDArray[np.bool_], float]:
    """Return the windows that occur twice, (n,), by a suffix array, and its seconds. 255 separates documents."""
    from pydivsufsort import divsufsort, kasai  # measured if it is installed

    began = time.process_time()
    suffixes = divsufsort(data)
    common = np.zeros(len(data) + 1, np.int64)
    common[1:] = kasai(data, suffixes)
    seconds = time.process_time() - began
    is_repeated = np.zeros(len(data), np.bool_)
    is_repeated[suffixes] = np.maximum(common[:-1], common[1:]) >= length
    ends = np.append(np.flatnonzero(data == 255), len(data))
    room = ends[np.searchsorted(ends, np.arange(len(data)))] - np.arange(len(data))
    return is_repeated & (room >= length), seconds


def beside_suffix_array(corpus: Path, length: int) -> Row:
    """Compare the marks of a corpus with those of a suffix array over its documents."""
    documents = ds.dataset(corpus / "texts").to_table(columns=["doc_id", "text"])
    starts, place = dict[int, int](), 0
    for doc_id, size in zip(
        documents["doc_id"].to_pylist(), pc.binary_length(documents["text"]).to_pylist(), strict=True
    ):
        starts[doc_id], place = place, place + size + 1
    joined = b"".join(text.encode() + b"\xff" for text in documents["text"].to_pylist())
    data = np.frombuffer(joined, np.uint8).copy()
    ours = marked_windows(corpus, starts, len(data), length)
    theirs, seconds = windows_of_suffixes(data, length)
    return {
        "length": length,
        "windows": float(theirs.sum()),
        "missed": float((theirs & ~ours).sum()),
        "false": float((ours & ~theirs).sum()),
        "suffix array and common prefixes, MB/s": len(data) / 1e6 / seconds,
    }


@benchmark("passages")
def measure(folder: TextsFolder = DEMO, megabytes: Size = 10, lengths: Lengths = [200]) -> Iterator[Table]:  # noqa: B006
    texts = load_texts(folder, megabytes)
    texts = texts.filter(pc.string_is_ascii(texts))
    size = megabytes_of(texts)
    passes, marks = dict[str, Row](), list[Row]()

    def add(name: str, length: int, value: float) -> None:
        passes.setdefault(name, {"length in characters": name})[f"{length}"] = value

    with tempfile.TemporaryDirectory() as scratch:
        write_texts(Path(scratch), [("texts", texts)])
        search(Path(scratch), lengths[0] + 1)  # compiles and loads
        for length in lengths:
            seconds, largest = search(Path(scratch), length)
            for name in (*PASSES.values(), EXCHANGE):
                add(f"{name}, MB/s", length, size / (seconds[name] or float("nan")))
            add("all of them, MB/s", length, size / sum(seconds.values()))
            add("work files at most, bytes for a byte of text", length, largest / 1e6 / size)
            with suppress(ImportError):
                marks.append(beside_suffix_array(published(Path(scratch), f"of-{length}"), length))
    yield Table(f"passages that documents share, {size:,.0f} MB, one core", [*passes.values()])
    if marks:
        yield Table("marks beside pydivsufsort", marks)


if __name__ == "__main__":
    measure.main()
