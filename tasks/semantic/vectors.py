"""The vectors of the cheap model for the remaining documents of a shard, in 8 bits, and their band keys.

Vectors are centred by the mean of the model, because a common part of all vectors would make most signs equal. Rows
of vectors: `doc_id`, `vector`, sorted by doc_id. A document whose vector is zero has no row: it has no pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.similarity_models import SimilarityModel, load_similarity, mean_of
from zyda_flows.tasks.semantic.bands import sign_keys
from zyda_flows.tasks.semantic.groups import TextShard
from zyda_flows.tasks.signatures.bands import WIDE_ROWS, write_band_rows
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.stage.verdicts import ShardHistory, removed_ids
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, write_artifact

VERSION = 1
STAGE = "propose"
LARGEST = 127  # number of a vector


def vector_schema(dims: int) -> pa.Schema:
    """Return the schema of a file of vectors of 8-bit numbers."""
    return pa.schema([("doc_id", pa.uint64()), ("vector", pa.binary(dims))])


def as_binary(vectors: NDArray[Any]) -> pa.Array:
    """Return vectors, (n, dims), as a column of their bytes."""
    width = vectors.shape[1] * vectors.itemsize
    data = pa.py_buffer(np.ascontiguousarray(vectors))
    return pa.Array.from_buffers(pa.binary(width), len(vectors), [None, data])


def as_vectors(column: pa.ChunkedArray, kind: type[np.generic]) -> NDArray[Any]:
    """Return a column of bytes as vectors: (n, dims) of a kind. Null is any vector."""
    whole = column.combine_chunks()
    array = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    width = column.type.byte_width
    data = array.buffers()[1]
    numbers = np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8)
    start = array.offset * width
    numbers = numbers[start : start + len(array) * width].view(kind)
    return numbers.reshape(len(array), width // np.dtype(kind).itemsize)


def small_numbers(vectors: NDArray[np.int32], mean: NDArray[np.int32]) -> NDArray[np.int8]:
    """Subtract the mean, and scale each vector so that its largest number is LARGEST: (n, dims)."""
    centred = (vectors - mean).astype(np.float64)
    centred[~vectors.any(axis=1)] = 0  # without a token
    largest = np.abs(centred).max(axis=1, initial=0, keepdims=True)
    return np.rint(centred * LARGEST / np.maximum(largest, 1)).astype(np.int8)


@dataclass(frozen=True)
class CheapVectorsOfShard(ArtifactJob):
    """The vectors of the remaining documents of a shard."""

    stage, version = STAGE, VERSION

    texts: TextShard
    history: Annotated[ShardHistory, NotInKey("the shard and its removed documents are in the key")]
    model: SimilarityModel
    device: Annotated[str | None, NotInKey("its precision is in the key")]

    @property
    def name(self) -> str:
        return f"vectors-{self.texts.name}"

    @cached_property
    def dropped_ids(self) -> Ids:
        return removed_ids(self.folder, self.history)

    @property
    def also_in_key(self) -> list[str]:
        dropped = sha256(self.dropped_ids.tobytes()).hexdigest()
        return [dropped, self.model.precision(self.device)]

    def make(self) -> Artifact:
        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, vector_schema(self.model.dims), compression="none") as writer:
                for table in self.vectors():
                    writer.write_table(table)

        return write_artifact(self.folder, self.path, self.name, fill)

    def vectors(self) -> Iterator[pa.Table]:
        compute, mean = load_similarity(self.model, self.device), mean_of(self.model)
        for table in self.texts.tables(["text"]):
            table = table.filter(pc.invert(pc.field("doc_id").isin(pa.array(self.dropped_ids))))
            numbers = small_numbers(compute(table.column("text")).vectors, mean)
            has_vector = numbers.any(axis=1)
            ids = table.column("doc_id").to_numpy()[has_vector]
            columns = [pa.array(ids), as_binary(numbers[has_vector])]
            yield pa.table(columns, schema=vector_schema(self.model.dims))


@dataclass(frozen=True)
class KeysOfVectors(ArtifactJob):
    """The band keys of a file of vectors, as of `tasks.signatures.bands`."""

    stage, version = STAGE, VERSION

    vectors: Artifact
    bands: int

    @property
    def name(self) -> str:
        # `tasks.signatures.merging` reads the numbers in the name.
        return self.vectors.name.removeprefix("vectors-")

    def make(self) -> Artifact:
        ids, vectors = read_vectors(self.folder, [self.vectors])
        keys = sign_keys(vectors, self.bands)

        def fill(scratch: Path) -> None:
            write_band_rows(scratch, ((band, keys[:, band], ids) for band in range(self.bands)), WIDE_ROWS)

        return write_artifact(self.folder, self.path, self.name, fill)


def read_vectors(
    folder: Folder, files: Sequence[Artifact], kind: type[np.generic] = np.int8
) -> tuple[Ids, NDArray[Any]]:
    """Read files of vectors: the documents, ascending, and their vectors, (n,) and (n, dims)."""
    table = pa.concat_tables(read_table(folder, file, ["doc_id", "vector"]) for file in files)
    return table.column("doc_id").to_numpy(), as_vectors(table.column("vector"), kind)
