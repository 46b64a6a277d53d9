"""The texts of matched documents of other corpora: each file is read once, and the texts are stored by shard.

Each shard of this corpus that needs texts has a separate part (see `tasks.storage.parts`). A text that several
shards need is stored several times, and a shard reads only its own part.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.dedup.contested import first_and_last
from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.parts import write_parts
from zyda_flows.tasks.storage.tables import Section, parquet_writer, rows_between, tables_of, write_artifact

VERSION = 1
READ_BYTES = 128 << 20  # the largest total size of the files or sections of an artifact, about 300 MB of text
GROUP_ROWS = 1 << 16
WANTED = pa.schema([("doc_id", pa.uint64()), ("part", pa.uint32())])
TEXTS = pa.schema(
    [("part", pa.uint32()), ("corpus", pa.uint8()), ("doc_id", pa.uint64()), ("text", pa.large_string())]
)
FileSection = tuple[Artifact, Section]


@dataclass(frozen=True)
class TextsByPart(ArtifactJob):
    """The wanted texts in files of another corpus: TEXTS, sorted by part, then doc_id.

    wanted: the wanted documents and the parts that need them: WANTED, sorted by doc_id.
    """

    stage, version = "matches", VERSION

    source: str
    other: Annotated[PublishedCorpus, NotInKey("only `files` are read")]
    corpus: int
    files: tuple[FileSection, ...]
    wanted: Artifact

    @property
    def name(self) -> str:
        return f"texts-{self.files[0][0].name}"

    def make(self) -> Artifact:
        tables = [TEXTS.empty_table()]
        with self.other.reading():
            for file, section in self.files:
                tables += self.texts_in(file, section)
        rows = pa.concat_tables(tables).sort_by([("part", "ascending"), ("doc_id", "ascending")])

        def fill(scratch: Path) -> None:
            write_parts(scratch, rows, use_dictionary=["part", "corpus"])

        return write_artifact(self.folder, self.path, self.name, fill)

    def texts_in(self, file: Artifact, section: Section) -> Iterator[pa.Table]:
        """Yield the wanted texts of a section of a file in batches of some MiB: TEXTS."""
        folder = self.other.folder
        wanted = rows_between(self.folder, [self.wanted], *first_and_last(folder, file))
        ids, parts = wanted.column("doc_id").to_numpy(), wanted.column("part").to_numpy()
        if not len(ids):
            return
        for table in tables_of(folder, file, ["doc_id", "text"], section):
            doc_ids = table.column("doc_id").to_numpy()
            asking = np.flatnonzero(np.isin(ids, doc_ids))
            if len(asking):
                places = np.searchsorted(doc_ids, ids[asking])
                columns = [
                    pa.array(parts[asking]),
                    pa.array(np.full(len(asking), self.corpus, np.uint8)),
                    pa.array(ids[asking]),
                    table.column("text").cast(pa.large_string()).take(pa.array(places)),
                ]
                yield pa.table(columns, schema=TEXTS)


def in_groups(files: Sequence[Artifact]) -> Iterator[tuple[FileSection, ...]]:
    """Yield groups of neighbouring files of up to READ_BYTES together; larger files are cut into sections."""
    group, size = list[FileSection](), 0.0
    for file in files:
        sections = max(1, ceil(file.size / READ_BYTES))
        for number in range(sections):
            if group and size + file.size / sections > READ_BYTES:
                yield tuple(group)
                group, size = [], 0.0
            group.append((file, (number, sections)))
            size += file.size / sections
    if group:
        yield tuple(group)


def write_wanted(folder: Folder, source: str, ids: Ids, parts: NDArray[np.uint32]) -> Artifact:
    """Write the wanted documents, (n,), and the parts that need them, (n,): WANTED, sorted by doc_id."""
    rows = pa.table([pa.array(ids), pa.array(parts)], schema=WANTED).take(np.lexsort((parts, ids)))
    content = sha256(b"".join(column.to_numpy().tobytes() for column in rows.columns)).hexdigest()
    path = artifact_path("matches", source, "wanted", stage_key("matches", VERSION, "wanted", content))

    def fill(scratch: Path) -> None:
        with parquet_writer(scratch, WANTED) as writer:
            writer.write_table(rows, row_group_size=GROUP_ROWS)

    return finished_artifact(folder, path) or write_artifact(folder, path, "wanted", fill)
