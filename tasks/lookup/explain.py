"""Explain: everything that is known about one document."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.accounts.published import PUBLISHED, corpus_with_ids
from tasks.dedup.reference.corpora import corpora_of
from tasks.errors import BadInput, Damaged, Denied, ZydaError
from tasks.ids import parse, split
from tasks.lookup.nearest import texts_of
from tasks.planning.last_build import whole_register
from tasks.publish.differences import diff
from tasks.publish.published_columns import REMOVED
from tasks.recipe.fields import Recipe
from tasks.sources.listing import InputFile
from tasks.sources.reading import read
from tasks.sources.register import Register
from tasks.storage.records import Record
from tasks.storage.tables import open_table

READERS = 8  # files that are read at once
MOST_MEMBERS = 100  # of a cluster, which may have millions


class Place(Record):
    """Where a document came from."""

    doc_id: int
    source: str
    file: str
    row: int


class Explanation(Record):
    """A document's place, its cluster, and what was decided about it.

    members: of its cluster, the first MOST_MEMBERS of `cluster_size`.
    sentence: what its reason means. evidence: what the stage that let it go found. kept_went_by: the stage by which
    the one that was kept for it went itself, if it did. diff: to the one kept for it, or to that of another corpus.
    text: of one that a rule let go, as its source has it.
    """

    place: Place
    is_published: bool
    stage: str | None = None
    reason: str | None = None
    cluster_id: int | None = None
    cluster_size: int = 0
    sentence: str = ""
    evidence: dict[str, Any] = {}
    members: tuple[Place, ...] = ()
    kept: Place | None = None
    kept_went_by: str | None = None
    diff: tuple[str, ...] = ()
    text: str = ""


class Corpus:
    """A published corpus, to look documents up in."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder, self.manifest = corpus_with_ids(recipe)
        self.files = {file.path: file for file in self.manifest.files}
        self.register: Register = whole_register(self.folder)

    def rows(self, place: str, column: str, value: int, columns: list[str] | None = None) -> pa.Table:
        """Return the rows with a value in a column, from the files of a folder of the corpus."""
        tables = []
        for path in self.files:
            if path.startswith(f"{place}/"):
                condition = pc.field(column) == pa.scalar(value, pa.uint64())
                with self.opened(path) as parquet:
                    tables += [
                        table.filter(condition) for table in groups_with(parquet, column, value, columns)
                    ]
        tables = [table for table in tables if len(table)]
        return pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})

    def tables(self, place: str, columns: list[str]) -> Iterator[pa.Table]:
        """Read the files of a folder of the corpus, some at once, with those of the columns that they have."""
        paths = [path for path in self.files if path.startswith(f"{place}/")]

        def read_columns(path: str) -> pa.Table:
            with self.opened(path) as parquet:
                return parquet.read([name for name in columns if name in parquet.schema_arrow.names])

        with ThreadPoolExecutor(READERS) as readers:
            for start in range(0, len(paths), READERS):
                yield from readers.map(read_columns, paths[start : start + READERS])

    def blocks(self, place: str, columns: list[str]) -> Iterator[pa.Table]:
        """Read a folder of the corpus by row group, with those of the columns that its files have."""
        for path in self.files:
            if path.startswith(f"{place}/"):
                with self.opened(path) as parquet:
                    names = [name for name in columns if name in parquet.schema_arrow.names]
                    for group in range(parquet.num_row_groups):
                        if parquet.metadata.row_group(group).num_rows:
                            yield parquet.read_row_group(group, names)

    @contextmanager
    def opened(self, path: str) -> Iterator[pq.ParquetFile]:
        """Open a published file. Raises Denied where it is damaged."""
        shard = self.files[path].to_read(f"{PUBLISHED}/")
        if shard is None:
            raise Denied(f"{self.folder.url}: it was published by an older version; build the corpus again")
        try:
            with open_table(self.folder, shard) as parquet:
                yield parquet
        except Damaged as error:
            raise Denied(f"{error}; zyda verify --repair mends it") from error

    def file_of(self, doc_id: int) -> tuple[str, InputFile, int]:
        """Return the source, file and row of a document. Raises BadInput where there is none."""
        source, number, row = split(doc_id)
        name = next((name for name, n in self.register.sources.items() if n == source), None)
        files = self.register.files.get(name, ()) if name else ()
        if name is None or number >= len(files):
            raise BadInput(f"{doc_id}: no document of this corpus has this id")
        return name, files[number], row

    def place(self, doc_id: int) -> Place:
        source, file, row = self.file_of(doc_id)
        return Place(doc_id=doc_id, source=source, file=file.url, row=row)

    def text(self, doc_id: int) -> str:
        """Read a document's text from its source. Raises BadInput where it is not there any more."""
        source, file, row = self.file_of(doc_id)
        column = next((one.text for one in self.recipe.sources if one.name == source), None)
        if column is None:
            raise BadInput(f"the recipe has no source {source} any more")
        for piece in file.pieces:
            for chunk in read(source, file, piece, column):
                places = (chunk.rows == row).nonzero()[0]
                if len(places):
                    return str(chunk.table.column(column)[int(places[0])].as_py())
        raise BadInput(f"source {source}, file {file.url}, row {row}: there is no such document")


def groups_with(
    parquet: pq.ParquetFile, column: str, value: int, columns: list[str] | None
) -> Iterator[pa.Table]:
    """Read the row groups of a file that may hold a value in a column, by their statistics."""
    place = parquet.schema_arrow.get_field_index(column)
    for i in range(parquet.num_row_groups):
        statistics = parquet.metadata.row_group(i).column(place).statistics
        if statistics is None or not statistics.has_min_max or statistics.min <= value <= statistics.max:
            yield parquet.read_row_group(i, columns)


def explain(recipe: Recipe, doc_id: str) -> Explanation:
    """Look a document up in the published corpus. Raises BadInput for an id that it never had."""
    wanted = parse(doc_id)
    if wanted is None:
        raise BadInput(f"{doc_id!r} is not a document id; expected a number, in decimals or as 0x...")
    corpus = Corpus(recipe)
    place = corpus.place(wanted)
    removed = corpus.rows("removed", "doc_id", wanted)
    published = corpus.rows(place.source, "doc_id", wanted)
    if not len(removed) and not len(published):
        raise BadInput(f"{wanted}: row {place.row} of {place.file} is no document of this corpus")
    removal = removed.to_pylist()[0] if len(removed) else {}
    place_of_clusters, cluster_id, size = cluster_of(corpus, wanted, removal)
    kept = corpus.place(removal["kept_doc_id"]) if removal.get("kept_doc_id") is not None else None
    return Explanation(
        place=place,
        is_published=bool(len(published)),
        stage=removal.get("stage"),
        reason=removal.get("reason"),
        sentence=corpus.manifest.reasons.get(str(removal.get("stage")), {}).get(
            str(removal.get("reason")), ""
        ),
        evidence={n: v for n, v in removal.items() if n not in REMOVED.names and v not in (None, [])},
        cluster_id=cluster_id,
        cluster_size=size,
        members=members(corpus, place_of_clusters, cluster_id, min(size, MOST_MEMBERS)),
        kept=kept,
        kept_went_by=went_by(corpus, kept),
        diff=difference(corpus, wanted, kept, removal),
        text=text_of(corpus, wanted) if removal.get("stage") == "rules" else "",
    )


def difference(corpus: Corpus, doc_id: int, kept: Place | None, removal: dict[str, Any]) -> Sequence[str]:
    """Compare a document with the one that it went for, of this corpus or of another one."""
    if kept:
        return diff(corpus.text(doc_id), corpus.text(kept.doc_id))
    if removal.get("matched_doc_id") is None:
        return ()
    named, matched_id = removal["matched_corpus"], int(removal["matched_doc_id"])
    digests = {other.name: other.sha256 for other in corpus.manifest.against}
    try:
        others = corpora_of(corpus.recipe).values()
        matched = next(other for other in others if other.digest == digests.get(named))
        texts = texts_of(matched.folder, matched.manifest, [matched_id])
    except (ZydaError, StopIteration):  # it is no part of this corpus: it may be gone, or published anew
        return (f"(the corpus {named} is not there any more as it was then)",)
    return diff(corpus.text(doc_id), texts[matched_id], kept=named) or ("(no difference)",)


def text_of(corpus: Corpus, doc_id: int) -> str:
    """Read a text that a rule let go, or say that it cannot be had any more."""
    try:
        return corpus.text(doc_id)
    except ZydaError as error:
        return f"({error})"


def went_by(corpus: Corpus, kept: Place | None) -> str | None:
    """Return the stage that let go a document which was kept for another, if one did."""
    rows = corpus.rows("removed", "doc_id", kept.doc_id).to_pylist() if kept else []
    return str(rows[0]["stage"]) if rows else None


def cluster_of(corpus: Corpus, doc_id: int, removal: dict[str, Any]) -> tuple[str, int | None, int]:
    """Return the cluster by which a document went, or the last that has it: its table's folder, id and size."""
    # As published: the recipe may have other rounds by now.
    places = sorted(
        {path.partition("/")[0] for path in corpus.files if path.startswith("clusters")}, reverse=True
    )
    if removal.get("kept_doc_id") is not None:
        places = [str(removal["stage"]).replace("removals", "clusters")]
    for place in places:
        rows = corpus.rows(place, "doc_id", doc_id).to_pylist()
        if rows:
            return place, int(rows[0]["cluster_id"]), int(rows[0]["cluster_size"])
    return "clusters", None, 0


def members(corpus: Corpus, place: str, cluster_id: int | None, count: int) -> tuple[Place, ...]:
    """Return the first documents of a cluster, as many as `count`; the table is read until they are found."""
    found = list[Place]()
    if cluster_id is None:
        return ()
    for table in corpus.blocks(place, ["doc_id", "cluster_id"]):
        ids = table.filter(pc.field("cluster_id") == pa.scalar(cluster_id, pa.uint64())).column("doc_id")
        found += [corpus.place(doc_id) for doc_id in ids.slice(0, count - len(found)).to_pylist()]
        if len(found) >= count:
            break
    return tuple(found)
