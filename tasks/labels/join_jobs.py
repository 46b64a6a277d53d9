"""The jobs of a join: labels and documents are divided by the hash of their key, and joined part by part.

1. Each file of labels writes its rows by part, each key of a few MiB of rows once.
2. Each shard writes the keys of its documents by part.
3. Each part finds the labels of its documents, and writes them by shard.
4. Each shard reads its rows of all parts.

A task holds some MiB of labels: the labels of a large part are read in ranges.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.document_names import Naming
from zyda_flows.tasks.dedup.exchange import Choose, Files, RowsByPart
from zyda_flows.tasks.dedup.part_tables import PART, PLACE
from zyda_flows.tasks.errors import BadInput, bad_input
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.labels.label_jobs import (
    KEY,
    LABELS,
    STAGE,
    VERSION,
    JoinJob,
    TypesOfFile,
    columns_to_take,
    each_key_once,
    part_writer,
    sorted_by_part,
)
from zyda_flows.tasks.labels.label_tables import LabelColumns, keys_of
from zyda_flows.tasks.quality.document_filter import remaining_documents
from zyda_flows.tasks.recipe.joins import Many, On
from zyda_flows.tasks.sources.input_files import InputFile, load_listing
from zyda_flows.tasks.sources.register import file_and_row_of
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdict_jobs import VerdictJob
from zyda_flows.tasks.stage.verdicts import ShardHistory, with_columns
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.parts import bytes_of_part, row_groups, rows_of_part
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import write_artifact

RANGE_BYTES = 128 << 20  # of labels that are compared at once, about
DOCUMENTS = pa.schema([*KEY, ("doc_id", pa.uint64())])
JOINED = pa.schema([PART, ("doc_id", pa.uint64()), ("rows", pa.int64())])


@dataclass(frozen=True, kw_only=True)
class KeysOfDocuments(JoinJob, RowsByPart):
    """The keys of a shard's documents by part: DOCUMENTS. path: of the column with the key."""

    history: ShardHistory
    on: On
    column: str
    table_schema: pa.Schema
    part: Annotated[int, NotInKey("the output does not contain it")]

    @property
    def name(self) -> str:
        return f"keys-{self.history.shard.name}"

    def rows(self) -> pa.Table:
        tables = [DOCUMENTS.empty_table()]
        for documents in remaining_documents(self.folder, self.history, self.table_schema):
            keys = keys_of(documents, self.on, self.column, is_hashed=self.on == "sha256")
            rows = documents.select(["doc_id"]).filter(keys.is_valid())
            tables.append(sorted_by_part(self.naming, keys.drop_null(), rows))
        documents = pa.concat_tables(tables)
        return documents.take(np.argsort(documents.column(PART.name).to_numpy(), kind="stable"))


class JoinedPart(Record):
    """The documents of a part with labels, by shard, and their counts as in `JoinAccount`.

    used: the number of labels with a document.
    """

    joined: Artifact
    matched: int
    matched_often: int
    used: int


@dataclass(frozen=True, kw_only=True)
class JoinOfPart(JoinJob, RecordJob[JoinedPart]):
    """The labels of the documents in a part, by shard: JOINED, and the columns to take.

    shared_files: the keys of the documents. labels: the labels. listing: of the files of labels.
    """

    kind = JoinedPart

    labels: Files
    many: Many
    table_schema: pa.Schema
    reader: Annotated[str, NotInKey("for messages")]
    listing: Annotated[str, NotInKey("for messages")]
    columns: Annotated[LabelColumns, NotInKey("for messages")]

    def make(self) -> JoinedPart:
        counts = Counter[str]()
        joined = write_artifact(self.folder, self.path, self.name, lambda scratch: self.fill(scratch, counts))
        names = ("matched", "matched_often", "used")
        return self.recorded(JoinedPart(joined=joined, **{name: counts[name] for name in names}))

    def fill(self, scratch: Path, counts: Counter[str]) -> None:
        size = sum(bytes_of_part(self.folder, artifact, self.part) for artifact in self.labels.artifacts)
        bits = (size // RANGE_BYTES).bit_length()
        schema = pa.schema([*JOINED, *self.table_schema])
        with part_writer(scratch, schema) as writer:
            for number in range(1 << bits):
                choose = self.range_of(number, bits)
                for joined in self.joined(choose, counts):
                    for group in row_groups(joined.cast(schema), self.shift):
                        writer.write_table(group)

    def range_of(self, number: int, bits: int) -> Choose:
        """Return a function that chooses the rows of one of 2**bits ranges of the part."""
        naming = Naming(self.naming.number, self.naming.bits + bits)

        def choose(table: pa.Table) -> pa.Table:
            parts = naming.parts(table.column("high").to_numpy())
            return table.filter(pa.array(parts == (self.part << bits) + number)) if bits else table

        return choose

    def joined(self, choose: Choose, counts: Counter[str]) -> Iterator[pa.Table]:
        """Yield the labels of the documents in a range, some documents at a time, and count them."""
        labels = self.labels_in(choose)
        high, low, rows = (labels.column(name).to_numpy() for name in ("high", "low", "rows"))
        is_used = np.zeros(len(labels), np.bool_)
        for documents in self.documents(choose):
            wanted = [documents.column(name).to_numpy() for name in ("high", "low")]
            places, is_found = places_of_keys(high, low, *wanted)
            places = places[is_found]
            is_used[places] = True
            documents = documents.filter(pa.array(is_found))
            often = np.flatnonzero(rows[places] > 1)
            if self.many == "error" and len(often):
                label = labels.slice(places[often[0]], 1).to_pylist()[0]
                raise self.several(documents.column("doc_id")[often[0]].as_py(), label)
            counts.update(matched=len(places), matched_often=len(often))
            columns = ["rows", *columns_to_take(labels.schema)]
            joined = documents.select([PLACE.name, "doc_id"]).rename_columns([PART.name, "doc_id"])
            for column in columns:
                joined = joined.append_column(column, labels.column(column).take(pa.array(places)))
            yield joined.take(np.argsort(joined.column(PART.name).to_numpy(), kind="stable"))
        counts.update(used=int(rows[is_used].sum()))

    def labels_in(self, choose: Choose) -> pa.Table:
        """Return the labels of a range, each key once, sorted by key."""
        tables, places = self.labels.part(self.part, choose)
        empty = pa.schema([*LABELS, *self.table_schema]).empty_table()
        labels = pa.concat_tables([empty, *tables]).append_column(PLACE, pa.array(places, PLACE.type))
        order = np.lexsort([labels.column(name).to_numpy() for name in ("row", PLACE.name, "low", "high")])
        return each_key_once(labels.take(pa.array(order)), self.many)

    def documents(self, choose: Choose) -> Iterator[pa.Table]:
        """Yield the documents of a range: DOCUMENTS, and the place of their shard."""
        assert self.shared_files
        for place, artifact in enumerate(self.shared_files.artifacts):
            for table in rows_of_part(self.folder, [artifact], self.part):
                if PLACE.name not in table.column_names:
                    table = table.append_column(PLACE, pa.array(np.full(len(table), place, np.uint32)))
                yield choose(table)

    def several(self, doc_id: int, label: dict[str, Any]) -> BadInput:
        """Return the error for a document with several labels. label: the first of them."""
        url, row = file_and_row_of(self.folder, self.reader, doc_id)
        first = self.file_of(label[PLACE.name]).url
        fault = f"join: {label['rows']:,} labels have its key, the first is row {label['row']:,} of {first}"
        return bad_input(self.reader, f"{fault}; choose with `many: first` or `many: max`", file=url, row=row)

    def file_of(self, place: int) -> InputFile:
        """Return the file of labels from a piece of which LabelsOfFile made a file. place: of that file."""
        files = [file for file in load_listing(self.folder, self.listing) if file.size]
        types = [TypesOfFile(self.folder, self.source, file, self.columns, self.reader)() for file in files]
        ends = list(accumulate(len(each.pieces) for each in types))
        return files[bisect_right(ends, place)]


def places_of_keys(
    high: Ids, low: Ids, wanted_high: Ids, wanted_low: Ids
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the place of each wanted key among ascending keys, and whether it is there: (n,) twice."""
    places = np.searchsorted(high, wanted_high)
    while True:
        at = np.minimum(places, max(0, len(high) - 1))
        is_near = (
            (places < len(high)) & (high[at] == wanted_high) if len(high) else np.zeros(len(places), np.bool_)
        )
        is_before = is_near & (low[at] < wanted_low) if len(high) else is_near
        if not is_before.any():
            return places, is_near & (low[at] == wanted_low) if len(high) else is_near
        places[is_before] += 1


@dataclass(frozen=True)
class LabelsOfShard(VerdictJob):
    """The labels of a shard's documents. joined: the rows of each join. number: of the shard.

    table_schema: `doc_id` and the columns to take of all joins. taken: of each join, the names of its columns.
    """

    stage, version = STAGE, VERSION

    joined: tuple[Files, ...]
    number: int
    table_schema: pa.Schema
    taken: tuple[tuple[str, ...], ...]

    @property
    def schema(self) -> pa.Schema:
        return self.table_schema

    @property
    def added_columns(self) -> tuple[str, ...]:
        return tuple(name for names in self.taken for name in names)

    def verdicts(self, remaining: pa.Table) -> pa.Table:
        tables = list[pa.Table]()
        for files, names in zip(self.joined, self.taken, strict=True):
            fields = [self.table_schema.field(name) for name in names]
            empty = pa.schema(
                [*JOINED, *(field.with_name(str(n)) for n, field in enumerate(fields))]
            ).empty_table()
            rows = pa.concat_tables([empty, *files.part(self.number)[0]]).sort_by("doc_id")
            rows = rows.drop_columns([PART.name, "rows"])
            tables.append(rows.rename_columns(["doc_id", *names]))
        ids = np.unique(np.concatenate([table.column("doc_id").to_numpy() for table in tables]))
        labels = pa.table({"doc_id": ids})
        for table in tables:
            labels = with_columns(labels, table)
        return labels
