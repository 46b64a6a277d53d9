"""Holdings: documents outside of published corpora: in exports, copies of sources and work folders."""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import Damaged
from zyda_flows.tasks.ids import Ids, split
from zyda_flows.tasks.publish.export_places import ExportedFile, listed_before
from zyda_flows.tasks.sources.copies import FetchedFile, read_fetched
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder

LINES_AT_ONCE = 1 << 20  # bytes of lines that are decoded at once
INGESTED = f"{WORK}/ingest"
OF_MIXTURE = ("tokens", "segments")  # stages of a mixture whose files hold documents
WORK_PLACE = re.compile(rf"(?:(.*)/)?{WORK}/({'|'.join((*OF_MIXTURE, 'ingest'))})/.")

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
    """Return whether an export is of a corpus: by its URL, or by its name where the corpus was moved."""
    _, of = listed_before(folder)
    return of is not None and of.corpus.rstrip("/").rpartition("/")[2] == corpus.label


def exported_ids(folder: Folder, corpus: PublishedCorpus, ids: Ids) -> tuple[int, Sequence[str]]:
    """Count the documents of a corpus in the files of an export, and list its sources that have no doc_ids."""
    found, unknown, wanted = [ids[:0]], dict[str, None](), sources_of(corpus, ids)
    for file in listed_before(folder)[0]:
        if file.source in wanted and (size := folder.size_of(file.path)) is not None:
            if size != file.size:
                raise Damaged(f"{folder.url}/{file.path} has {size:,} bytes, expected {file.size:,}")
            there = ids_in_exported(folder, file)
            if there is None:
                unknown[file.source] = None
            else:
                found.append(there[np.isin(there, ids)])
    return len(np.unique(np.concatenate(found))), list(unknown)


def ids_in_exported(folder: Folder, file: ExportedFile) -> Ids | None:
    """Read the ids of a file's documents; None where it has none."""
    try:
        if file.path.endswith(".parquet"):
            return ids_of_table(folder, file.path)
        found = [orjson.loads(line).get("doc_id") for line in lines_of(folder, file.path)]
        return None if None in found else np.array([*map(int, found)], np.uint64)
    except UNREADABLE as error:
        raise Damaged(f"{folder.url}/{file.path} cannot be read: it is cut or changed") from error


def ids_of_table(folder: Folder, path: str) -> Ids | None:
    """Read the ids of a table's documents; None where it has none."""
    with folder.open(path) as stream, pq.ParquetFile(stream) as parquet:
        if "doc_id" not in parquet.schema_arrow.names:
            return None
        return parquet.read(["doc_id"]).column("doc_id").to_numpy()


def lines_of(folder: Folder, path: str) -> Iterator[bytes]:
    """Yield the lines of a file, decompressed."""
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
    """Count the documents whose files were copied to a folder, and list these copies."""
    counts = dict[tuple[int, int], int]()
    for doc_id in ids.tolist():
        counts[split(doc_id)[:2]] = counts.get(split(doc_id)[:2], 0) + 1
    copies = {identity(one.url, one.version, one.size): one for one in read_fetched(folder) if one.path}
    found = dict[str, tuple[FetchedFile, int]]()
    for row in corpus.source_files().to_pylist():
        count = counts.get((row["source_number"], row["file_number"]), 0)
        copy = copies.get(identity(row["file"], row["version"], row["size"]))
        if count and copy is not None:
            found[copy.path] = copy, count
    return sum(count for _, count in found.values()), [copy for copy, _ in found.values()]


def identity(file: str, version: str, size: int) -> tuple[str, str, int]:
    """Return the identity of a source file in all tables: its name without folders, its version and its size."""
    return file.rpartition("/")[2], version, size


def ids_below(folder: Folder, place: str, ids: Ids) -> Ids:
    """Return the documents among some that files of Parquet below a path hold: (n,) uint64, ascending."""
    tables = [path for path in folder.files(place) if path.endswith(".parquet")]
    found = [ids_in_table(folder, path, ids) for path in tables]
    return np.unique(np.concatenate([np.empty(0, np.uint64), *found]))


def ids_in_table(folder: Folder, path: str, ids: Ids) -> Ids:
    """Return the documents among some that a table holds. Raises Damaged where it cannot be read."""
    try:
        there = ids_of_table(folder, path)
    except UNREADABLE as error:
        raise Damaged(f"{folder.url}/{path} cannot be read: it is cut or changed") from error
    return ids[:0] if there is None else there[np.isin(there, ids)]


def sources_of(corpus: PublishedCorpus, ids: Ids) -> list[str]:
    """Return the sources of a corpus that documents are of."""
    names = corpus.source_names
    return [names[number] for number in sorted({split(doc_id)[0] for doc_id in ids.tolist()})]


def ids_in_mixture_work(root: Folder, corpus: PublishedCorpus, ids: Ids) -> Ids:
    """Return the documents of a corpus of which a mixture's work folder holds token ids or texts."""
    places = [
        f"{WORK}/{stage}/{corpus.label}/{source}"
        for stage in OF_MIXTURE
        for source in sources_of(corpus, ids)
    ]
    return np.unique(np.concatenate([ids[:0], *(ids_below(root, place, ids) for place in places)]))


def work_places(paths: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the folders with work files of mixtures, and the folders with work files of corpora."""
    found = {match.groups() for path in paths if (match := WORK_PLACE.match(path))}
    mixtures = {place or "" for place, stage in found if stage in OF_MIXTURE}
    return mixtures, {place or "" for place, stage in found if stage == "ingest"}
