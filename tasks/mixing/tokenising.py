"""The documents of a published file as token ids, each file once for each tokenizer."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.dedup.reference.corpora import ReferenceCorpus, belongs_to
from tasks.errors import NotConserved
from tasks.log import warn
from tasks.sources.columns import as_one_array
from tasks.stage.jobs import ArtifactJob
from tasks.storage.artifacts import Artifact, Counts
from tasks.storage.tables import parquet_writer, tables_of, write_artifact
from tasks.tokens.engine import Engine, EngineDiffers, Ids
from tasks.tokens.stored import stored_engine

VERSION = 1
TOKENS = pa.schema([("doc_id", pa.uint64()), ("n_tokens", pa.uint32()), ("ids", pa.large_binary())])
UNCOMPRESSED = {"compression": "none", "use_dictionary": False, "column_encoding": None}


@dataclass(frozen=True)
class TokensOfFile(ArtifactJob):
    """The ids of each document of a published file: TOKENS, ids as little-endian numbers of `width` bytes.

    is_counted: whether the file's own `n_tokens` are by this tokenizer, and so have to be the same.
    """

    stage, version = "tokens", VERSION

    corpus: ReferenceCorpus
    artifact: Artifact
    tokenizer: str
    width: int
    is_counted: bool

    @property
    def name(self) -> str:
        return self.artifact.name

    @property
    def whose(self) -> str:
        return f"corpus {self.corpus.label}, file {self.artifact.path}"

    @property
    def params(self) -> Any:
        return [self.tokenizer, self.width, self.artifact.path]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.artifact.digest,)

    def make(self) -> Artifact:
        stored = partial(stored_engine, self.folder, self.tokenizer)
        try:
            return self.made_by(stored(is_exact=False))
        except EngineDiffers:
            warn(
                f"{self.whose}: fastokens gives other tokens for some of its documents; tokenizers encoded them all"
            )
            return self.made_by(stored(is_exact=True))

    def made_by(self, engine: Engine) -> Artifact:
        columns = ["doc_id", "text", *(["n_tokens"] if self.is_counted else [])]
        kind = np.dtype(f"<u{self.width}")

        def fill(scratch: Path) -> Counts:
            counts = Counts()
            with parquet_writer(scratch, TOKENS, compression="none", use_dictionary=["n_tokens"]) as writer:
                for table in tables_of(self.corpus.folder, self.artifact, columns):
                    texts = as_one_array(table.column("text"))
                    found = engine.encode(texts)
                    self.check_counts(table, found)
                    ids = table.column("doc_id").combine_chunks()
                    writer.write_table(
                        pa.table([ids, pa.array(found.counts), as_binary(found, kind)], schema=TOKENS)
                    )
                    counts += Counts(documents=len(table), tokens=int(found.ends[-1]))
            return counts

        with belongs_to(self.corpus):
            return write_artifact(self.folder, self.path, self.name, fill)

    def check_counts(self, table: pa.Table, found: Ids) -> None:
        """Raise NotConserved where a document has not as many tokens as were counted when it was ingested."""
        if self.is_counted and not np.array_equal(table.column("n_tokens").to_numpy(), found.counts):
            raise NotConserved(f"{self.whose}: its n_tokens are not those of its tokenizer")


def as_binary(found: Ids, kind: np.dtype[Any]) -> pa.LargeBinaryArray:
    """Return ids as one binary value a document."""
    data = np.ascontiguousarray(found.ids.astype(kind))
    offsets = np.ascontiguousarray(found.ends * kind.itemsize)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
