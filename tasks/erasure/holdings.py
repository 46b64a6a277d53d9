"""Find documents outside published corpora: in exports, copies of sources, and work folders."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.erasure.in_shards import Spread
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.ids import Ids, split
from zyda_flows.tasks.publish.export_places import ExportedFile, listed_before
from zyda_flows.tasks.sources.copies import FetchedFile, read_fetched
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder

LINES_AT_ONCE = 1 << 20  # bytes of lines that are decoded at once
INGESTED = f"{WORK}/ingest"
MIXTURE_STAGES = ("tokens", "segments")  # stages of a mixture whose files hold documents
WORK_PLACE = re.compile(rf"(?:(.*)/)?{WORK}/({'|'.join((*MIXTURE_STAGES, 'ingest'))})/.")

UNREADABLE = (
    pa.ArrowException,
    zstandard.ZstdError,
    OSError,
    ValueError,
    AttributeError,
    TypeError,
    OverflowError,
)


def is_export_of(folder: Folder, corpus: PublishedCorpus) -> bool:
    """Return whether an export is of a corpus, by the name of the corpus."""
    _, options = listed_before(folder)
    return options is not None and options.corpus.rstrip("/").rpartition("/")[2] == corpus.label


def exported_ids(
    folder: Folder, corpus: PublishedCorpus, ids: Ids, spread: Spread
) -> tuple[int, Sequence[str]]:
    """Count the documents of `ids` in the files of an export, and list its sources without doc_ids."""
    wanted = sources_of(corpus, ids)
    files = [file for file in listed_before(folder)[0] if file.source in wanted]
    found = spread(partial(ids_in_export, folder, ids), files)
    parts = [ids[:0], *(exported for exported in found if exported is not None)]
    unknown = [file.source for file, exported in zip(files, found, strict=True) if exported is None]
    return len(np.unique(np.concatenate(parts))), [*dict.fromkeys(unknown)]


def ids_in_export(folder: Folder, ids: Ids, file: ExportedFile) -> Ids | None:
    """Return the documents of `ids` in a file of an export; none if it was deleted, None if it has no ids."""
    if (size := folder.size_of(file.path)) is None:
        return ids[:0]
    if size != file.size:
        raise Damaged(f"{folder.url}/{file.path} has {size:,} bytes, expected {file.size:,}")
    exported = ids_in_exported(folder, file)
    return None if exported is None else exported[np.isin(exported, ids)]


def ids_in_exported(folder: Folder, file: ExportedFile) -> Ids | None:
    """Read the ids of a file's documents; return None if it has no column of ids. Raises Damaged."""
    try:
        if file.path.endswith(".parquet"):
            return ids_of_table(folder, file.path)
        ids = [orjson.loads(line).get("doc_id") for line in lines_of(folder, file.path)]
        return None if None in ids else np.array([*map(int, ids)], np.uint64)
    except UNREADABLE as error:
        raise Damaged(f"{folder.url}/{file.path} cannot be read: it is cut or changed") from error


def ids_of_table(folder: Folder, path: str) -> Ids | None:
    """Read the ids of a table's documents; return None if it has no column of ids."""
    with folder.open(path) as stream, pq.ParquetFile(stream) as parquet:
        if "doc_id" not in parquet.schema_arrow.names:
            return None
        return parquet.read(["doc_id"]).column("doc_id").to_numpy()


def lines_of(folder: Folder, path: str) -> Iterator[bytes]:
    """Yield the lines of a file, decompressed if its name ends with zst."""
    with folder.open(path) as stream:
        raw = (
            zstandard.ZstdDecompressor().stream_reader(stream, closefd=False)  # type: ignore[arg-type]
            if path.endswith("zst")
            else stream
        )
        rest = b""
        while block := raw.read(LINES_AT_ONCE):
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
        yield from [rest] if rest else []


def copied_files(folder: Folder, corpus: PublishedCorpus, ids: Ids) -> tuple[int, Sequence[FetchedFile]]:
    """Count the documents whose source files were copied to a folder, and list these copies."""
    counts = dict[tuple[int, int], int]()
    for doc_id in ids.tolist():
        counts[split(doc_id)[:2]] = counts.get(split(doc_id)[:2], 0) + 1
    copies = {identity(copy.url, copy.version, copy.size): copy for copy in read_fetched(folder) if copy.path}
    matches = dict[str, tuple[FetchedFile, int]]()
    for row in corpus.source_files().to_pylist():
        count = counts.get((row["source_number"], row["file_number"]), 0)
        copy = copies.get(identity(row["file"], row["version"], row["size"]))
        if count and copy is not None:
            matches[copy.path] = copy, count
    return sum(count for _, count in matches.values()), [copy for copy, _ in matches.values()]


def identity(file: str, version: str, size: int) -> tuple[str, str, int]:
    """Return the identity of a source file: its name without folders, its version and its size."""
    return file.rpartition("/")[2], version, size


def ids_below(folder: Folder, place: str, ids: Ids, spread: Spread) -> Ids:
    """Return the documents of `ids` in the Parquet files below a path: (n,) uint64, ascending."""
    tables = [path for path in folder.files(place) if path.endswith(".parquet")]
    parts = spread(partial(ids_in_table, folder, ids), tables)
    return np.unique(np.concatenate([np.empty(0, np.uint64), *parts]))


def ids_in_table(folder: Folder, ids: Ids, path: str) -> Ids:
    """Return the documents of `ids` in a table. Raises Damaged if it cannot be read."""
    try:
        table_ids = ids_of_table(folder, path)
    except UNREADABLE as error:
        raise Damaged(f"{folder.url}/{path} cannot be read: it is cut or changed") from error
    return ids[:0] if table_ids is None else table_ids[np.isin(table_ids, ids)]


def sources_of(corpus: PublishedCorpus, ids: Ids) -> list[str]:
    """Return the sources of documents."""
    names = corpus.source_names
    return [names[number] for number in sorted({split(doc_id)[0] for doc_id in ids.tolist()})]


def ids_in_mixture_work(root: Folder, corpus: PublishedCorpus, ids: Ids, spread: Spread) -> Ids:
    """Return the documents of `ids` whose token ids or texts are in a mixture's work folder."""
    places = [
        f"{WORK}/{stage}/{corpus.label}/{source}"
        for stage in MIXTURE_STAGES
        for source in sources_of(corpus, ids)
    ]
    return np.unique(np.concatenate([ids[:0], *(ids_below(root, place, ids, spread) for place in places)]))


def work_places(paths: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the folders with work files of mixtures, and the folders with work files of corpora."""
    places = {match.groups() for path in paths if (match := WORK_PLACE.match(path))}
    mixtures = {place or "" for place, stage in places if stage in MIXTURE_STAGES}
    return mixtures, {place or "" for place, stage in places if stage == "ingest"}
