"""The vectors of the strong model for the documents of a shard that are in a proposed pair."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.similarity_models import SimilarityModel, load_similarity
from zyda_flows.tasks.semantic.groups import TextShard
from zyda_flows.tasks.semantic.vectors import as_binary
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.parts import text_sizes
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import parquet_writer, rows_between, write_artifact

VERSION = 5
STAGE = "confirm"


class StrongVectors(Record):
    """The vectors of a shard. bytes: of the texts. windows_left_out: parts of long texts that were not read."""

    artifact: Artifact
    bytes: int
    windows_left_out: int


@dataclass(frozen=True)
class StrongVectorsOfShard(RecordJob[StrongVectors]):
    """The vectors of the documents of a shard that are in a proposed pair. proposed: the pairs of its group."""

    stage, version, kind = STAGE, VERSION, StrongVectors

    texts: TextShard
    proposed: Annotated[Artifact, NotInKey("only the documents of this shard count, which `also_in_key` has")]
    model: SimilarityModel
    device: Annotated[str | None, NotInKey("its precision is in the key")]

    @property
    def name(self) -> str:
        return f"vectors-{self.texts.name}"

    @cached_property
    def doc_ids(self) -> Ids:
        """The documents of the shard that are in a pair: (n,), ascending."""
        pairs = rows_between(self.folder, [self.proposed], *self.texts.first_and_last())
        return np.unique(pairs.column("doc_id").to_numpy())

    @property
    def also_in_key(self) -> list[str]:
        return [sha256(self.doc_ids.tobytes()).hexdigest(), self.model.precision(self.device)]

    def make(self) -> StrongVectors:
        counts = list[tuple[int, int]]()
        path = artifact_path(self.stage, self.source, self.name, self.key)
        artifact = write_artifact(
            self.folder, path, self.name, lambda scratch: counts.extend(self.fill(scratch))
        )
        size, left_out = (sum(numbers) for numbers in zip((0, 0), *counts, strict=True))
        return self.recorded(StrongVectors(artifact=artifact, bytes=size, windows_left_out=left_out))

    def fill(self, scratch: Path) -> Iterator[tuple[int, int]]:
        """Write the vectors; yield bytes of texts, and numbers of windows that were left out."""
        schema = pa.schema([("doc_id", pa.uint64()), ("vector", pa.binary(4 * self.model.dims))])
        with parquet_writer(scratch, schema, compression="none") as writer:
            if not len(self.doc_ids):
                return
            compute = load_similarity(self.model, self.device)
            for table in self.texts.tables(["text"]):
                table = table.filter(pc.field("doc_id").isin(pa.array(self.doc_ids)))
                if len(table):
                    made = compute(table.column("text"))
                    vectors = as_binary(made.vectors.astype(np.int32))
                    writer.write_table(pa.table([table.column("doc_id"), vectors], schema=schema))
                    size = int(text_sizes(table.column("text")).sum())
                    yield size, int(made.windows_left_out.sum())
