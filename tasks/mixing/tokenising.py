"""Encode the documents of a published file as token ids, once for each tokenizer."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.mixing.file_jobs import FileJob
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.sources.columns import as_one_array
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.tables import parquet_writer, write_artifact
from zyda_flows.tasks.tokens.engine import EngineDiffers, TokenEngine, TokenIds, batches
from zyda_flows.tasks.tokens.stored import stored_engine

VERSION = 1
TOKENS = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("n_tokens", pa.uint32()),
        ("n_special", pa.uint32()),
        ("ids", pa.large_binary()),
    ]
)

COUNTS = ["n_tokens", "n_special"]


@dataclass(frozen=True)
class TokensOfFile(FileJob):
    """Encode each document of a published file. The result has the schema TOKENS.

    `ids` are little-endian unsigned integers of `width` bytes. `n_special` is the number of special tokens in the
    text. special_tokens: how special tokens in texts are encoded. is_counted: whether the file's `n_tokens` were
    counted with this tokenizer, so that the numbers must be equal.
    """

    stage, version = "tokens", VERSION

    tokenizer: str
    special_tokens: SpecialAs
    width: int
    is_counted: Annotated[bool, NotInKey("it only compares counts")]

    @property
    def also_in_key(self) -> str:
        return self.artifact.path

    def make(self) -> Artifact:
        open_engine = partial(stored_engine, self.folder, self.tokenizer, self.special_tokens)
        try:
            return self.made_by(open_engine(is_exact=False))
        except EngineDiffers:
            warn(
                f"{self.whose}: fastokens gives other tokens for some of its documents; tokenizers encoded them all"
            )
            return self.made_by(open_engine(is_exact=True))

    def made_by(self, engine: TokenEngine) -> Artifact:
        columns = ["doc_id", "text", *(["n_tokens"] if self.is_counted else [])]
        kind = np.dtype(f"<u{self.width}")

        def fill(scratch: Path) -> Counts:
            counts = Counts()
            with parquet_writer(
                scratch, TOKENS, compression="none", use_dictionary=["n_tokens", "n_special"]
            ) as writer:
                for table in self.tables(columns):
                    texts = as_one_array(table.column("text"))
                    encoded = [engine.encode_batch(part) for part in batches(texts)]
                    n_tokens = np.concatenate([np.empty(0, np.uint32), *(part.counts for part in encoded)])
                    self.check_counts(table, n_tokens)
                    n_special = pa.array(engine.special.count_per_text(texts))
                    arrays = [table.column("doc_id"), pa.array(n_tokens), n_special, as_binary(encoded, kind)]
                    writer.write_table(pa.table(arrays, schema=TOKENS))
                    counts += Counts(documents=len(table), tokens=int(n_tokens.sum(dtype=np.int64)))
            return counts

        with self.corpus.reading():
            return write_artifact(self.folder, self.path, self.name, fill)

    def check_counts(self, table: pa.Table, counts: NDArray[np.uint32]) -> None:
        """Raise NotConserved if a number of tokens differs from the number that was counted at ingestion."""
        if self.is_counted and not np.array_equal(table.column("n_tokens").to_numpy(), counts):
            raise NotConserved(f"{self.whose}: its n_tokens are not the numbers of its tokenizer")


def as_binary(parts: list[TokenIds], kind: np.dtype[Any]) -> pa.ChunkedArray:
    """Return the ids of each document as a binary value, as integers of dtype `kind`."""
    chunks = []
    for part in parts:
        buffers = [None, pa.py_buffer(part.ends * kind.itemsize), pa.py_buffer(part.ids.astype(kind))]
        chunks.append(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(part.ends) - 1, buffers))
    return pa.chunked_array(chunks, pa.large_binary())
