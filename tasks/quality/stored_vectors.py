"""The vectors of documents, stored for each shard and body of a model: judges with other heads share them.

Rows of a file: VECTORS_OF_BODY, sorted by doc_id. The folder of a shard's files has a hash of the shard and of the
body in its name. Files of a folder may overlap: each has the vectors that were missing when it was written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.ids import Ids
from zyda_flows.tasks.quality.forms import Model
from zyda_flows.tasks.quality.vector_body import VectorBody
from zyda_flows.tasks.quality.vector_forms import load_vectors
from zyda_flows.tasks.storage.artifacts import WORK, Artifact, stage_key
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.storage.tables import read_table, tables_of, write_table

VERSION = 1
STAGE = "vectors"
BATCH_BYTES = 32 << 20  # of vectors in memory, which quantising takes eight times
NAME = re.compile(r"[0-9a-f]{20}\.parquet")


@dataclass(frozen=True)
class StoredVectors:
    """The vectors of the documents of a shard by the body of a model. max_tokens, device: to load the model."""

    folder: Folder
    source: str
    shard: Artifact
    model: Model
    body: VectorBody
    max_tokens: int
    device: str | None

    @property
    def path(self) -> str:
        """The folder of the files."""
        params = [self.body.model_dump(), self.model.precision(self.device)]
        key = stage_key(STAGE, VERSION, params, self.shard.digest)
        return f"{WORK}/{STAGE}/{self.source}/{self.shard.name.replace('/', '-')}-{key}"

    @property
    def schema(self) -> pa.Schema:
        """VECTORS_OF_BODY."""
        numbers = pa.list_(pa.type_for_alias(self.body.kind), self.body.dims)
        return pa.schema([("doc_id", pa.uint64()), ("vector", numbers)])

    def batches(self, doc_ids: Ids) -> Iterator[tuple[Ids, NDArray[Any]]]:
        """Yield some MiB of documents, (n,), and their vectors, (n, dims). At least one batch is yielded.

        Vectors that are not stored are computed and stored. doc_ids: uint64, (n,), ascending.
        """
        count = max(1, BATCH_BYTES // (self.body.dims * np.dtype(self.body.kind).itemsize))
        for start in range(0, max(1, len(doc_ids)), count):
            ids = doc_ids[start : start + count]
            yield ids, self.of(ids)

    def of(self, doc_ids: Ids) -> NDArray[Any]:
        """Return the vectors of documents, (n, dims); those that are not stored are computed and stored."""
        known_ids, known = self.stored(doc_ids)
        missing = doc_ids[~np.isin(doc_ids, known_ids, assume_unique=True)]
        if not len(missing):
            return known
        computed = load_vectors(self.model, self.max_tokens, self.device).vectors(self.texts(missing))
        path = f"{self.path}/{digest_of(missing.tolist())}.parquet"
        write_table(self.folder, path, self.shard.name, as_table(self.schema, missing, computed))
        ids = np.concatenate([known_ids, missing])
        return np.concatenate([known, computed])[np.argsort(ids, kind="stable")]

    def stored(self, doc_ids: Ids) -> tuple[Ids, NDArray[Any]]:
        """Return the stored vectors of documents of `doc_ids`, each once, ascending by id: (m,) and (m, dims)."""
        ids = [np.empty(0, np.uint64)]
        vectors = [np.empty((0, self.body.dims), self.body.kind)]
        for file in self.files():
            own = read_table(self.folder, file, ["doc_id"]).column("doc_id").to_numpy()
            is_wanted = np.isin(own, doc_ids) & ~np.isin(own, np.concatenate(ids))
            if is_wanted.any():
                ids.append(own[is_wanted])
                numbers = numbers_of(read_table(self.folder, file, ["vector"]).column("vector"))
                vectors.append(numbers[is_wanted])
        order = np.argsort(np.concatenate(ids), kind="stable")
        return np.concatenate(ids)[order], np.concatenate(vectors)[order]

    def files(self) -> Iterator[Artifact]:
        """Yield the files that earlier judges and builds have written."""
        for path in self.folder.files(self.path):
            if NAME.fullmatch(path.rpartition("/")[2]) and (made := finished_artifact(self.folder, path)):
                yield made

    def texts(self, doc_ids: Ids) -> pa.ChunkedArray:
        tables = tables_of(self.folder, self.shard, ["doc_id", "text"])
        parts = [table.filter(pc.field("doc_id").isin(doc_ids)) for table in tables]
        return pa.concat_tables(parts).column("text")


def as_table(schema: pa.Schema, doc_ids: Ids, vectors: NDArray[Any]) -> pa.Table:
    numbers = pa.array(np.ascontiguousarray(vectors).reshape(-1), schema.field("vector").type.value_type)
    lists = pa.FixedSizeListArray.from_arrays(numbers, schema.field("vector").type.list_size)
    return pa.table([pa.array(doc_ids), lists], schema=schema)


def numbers_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of vectors as an array: (n, dims)."""
    lists = column.combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(len(lists), column.type.list_size)
