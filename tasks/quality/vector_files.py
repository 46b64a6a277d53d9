"""The files of published vectors: a judge's vectors of the documents of some shards, in 8 bits."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.stored_vectors import STAGE, StoredVectors
from zyda_flows.tasks.quality.vector_body import VectorBody
from zyda_flows.tasks.quality.vector_forms import quantised
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import ShardHistory, load_remaining
from zyda_flows.tasks.storage.artifacts import Artifact, artifact_path
from zyda_flows.tasks.storage.documents import ROW_GROUP_BYTES, row_groups
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, write_artifact

VERSION = 3


class VectorsOfJudge(Record):
    """The vectors of a judge in a published file.

    largest: relative error. errors: the sum of all relative errors.
    """

    source: str
    judge: str
    artifact: Artifact
    dims: int
    largest: float
    errors: float


@dataclass(frozen=True)
class VectorsOfFile(RecordJob[VectorsOfJudge]):
    """The vectors of a judge for the kept documents of the shards that share a published file.

    histories: of the shards, ascending by their documents. classify: the name of the judge's stage.
    """

    stage, version, kind = STAGE, VERSION, VectorsOfJudge

    source: str
    histories: tuple[ShardHistory, ...]
    judge: str
    classify: str
    model: Annotated[Model, NotInKey("the digest of the body is in the key")]
    body: VectorBody
    max_tokens: Annotated[int, NotInKey("in the digest of the body, if texts are cut")]
    device: Annotated[str | None, NotInKey("its precision is in the key")]

    @property
    def name(self) -> str:
        return f"{self.judge}/{self.source}/{self.histories[0].shard.name}"

    @property
    def stored(self) -> list[StoredVectors]:
        """The stored vectors of each shard."""
        return [
            StoredVectors(
                self.folder, self.source, history.shard, self.model, self.body, self.max_tokens, self.device
            )
            for history in self.histories
        ]

    @property
    def also_in_key(self) -> str:
        return self.model.precision(self.device)

    @property
    def path(self) -> str:
        """A path outside the folders of stored vectors: it has no key of a shard, so a replaced file is cleaned."""
        return artifact_path(
            self.stage, self.source, f"{self.judge}-{self.histories[0].shard.name}", self.key
        )

    def make(self) -> VectorsOfJudge:
        errors = [np.empty(0)]
        artifact = write_artifact(
            self.folder, self.path, self.name, lambda scratch: self.fill(scratch, errors)
        )
        all_errors = np.concatenate(errors).tolist()
        return self.recorded(
            VectorsOfJudge(
                source=self.source,
                judge=self.judge,
                artifact=artifact,
                dims=self.body.dims,
                largest=max(all_errors, default=0),
                errors=fsum(all_errors),
            )
        )

    def fill(self, scratch: Path, errors: list[NDArray[np.float64]]) -> None:
        """Write the vectors; append their relative errors."""
        vector = pa.list_(pa.int8(), self.body.dims)
        schema = pa.schema([("doc_id", pa.uint64()), ("scale", pa.float32()), ("vector", vector)])
        with parquet_writer(scratch, schema) as writer:
            for table in row_groups(self.tables(schema, errors), ROW_GROUP_BYTES):
                writer.write_table(table)

    def tables(self, schema: pa.Schema, errors: list[NDArray[np.float64]]) -> Iterator[pa.Table]:
        """Yield some MiB of vectors; append their relative errors."""
        for history, stored in zip(self.histories, self.stored, strict=True):
            for ids, exact in stored.batches(self.kept_and_judged(history)):
                scales, numbers, errors_of_batch = quantised(exact, self.body.unit)
                lists = pa.FixedSizeListArray.from_arrays(
                    pa.array(numbers.reshape(-1)), type=schema.field("vector").type
                )
                errors.append(errors_of_batch)
                yield pa.table([pa.array(ids), pa.array(scales), lists], schema=schema)

    def kept_and_judged(self, history: ShardHistory) -> Ids:
        """Return the documents of a shard that are kept and have an answer of the judge: (n,), ascending."""
        kept = load_remaining(self.folder, history).column("doc_id").to_numpy()
        answers = next(output for output in history.outputs if output.stage == self.classify)
        judged = read_table(self.folder, answers.artifact, ["doc_id"]).column("doc_id").to_numpy()
        return kept[np.isin(kept, judged, assume_unique=True)]
