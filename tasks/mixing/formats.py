"""Write token files in the formats of Megatron, datatrove, OLMo-core, torchtitan, and as Parquet.

Each writer receives batches of sequences and writes them at once. The data of its index, 8 or 12 bytes for each
sequence, stays in memory until the file is closed.
"""

import csv
import gzip
import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.mixing.packed_pieces import lengths_of, packed_pieces

MEGATRON_MAGIC, MEGATRON_VERSION = b"MMIDIDX\x00\x00", 1
MEGATRON_CODES = {2: 8, 4: 4}  # uint16 and int32; there is no code for uint32
LONGEST = (1 << 31) - 1  # tokens of a sequence: its length is an int32
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sequences: their concatenated `ids`, (t,) uint16 or uint32, and offsets `ends`, (n + 1,) int64, from 0.

    origins: the pieces of documents in the sequences: ORIGINS.
    """

    ids: NDArray[Any]
    ends: Counts
    origins: pa.Table


@dataclass(frozen=True)
class Target:
    """The output of a writer: files with a name in a local folder.

    width: bytes of an id, 2 or 4. tokenizer: name of the tokenizer. labels: names of the corpora by number.
    is_packed: whether a sequence can have several pieces of documents, and tokens that fill it.
    """

    folder: Path
    name: str
    width: int
    tokenizer: str
    labels: Sequence[str]
    is_packed: bool = False


class Writer(Protocol):
    """Writes sequences to the files of a target."""

    def __init__(self, target: Target) -> None: ...

    def add(self, batch: Batch) -> None: ...

    def close(self) -> None: ...

    def check(self, tokens: int) -> None:
        """Raise NotConserved if the closed files have another number of tokens."""


def expect_bytes(path: Path, tokens: int, width: int) -> None:
    """Raise NotConserved if the size of a file of ids does not match the number of tokens."""
    if (size := path.stat().st_size) != tokens * width:
        raise NotConserved(f"{path.name} has {size:,} bytes, but {tokens:,} tokens were written")


class Megatron:
    """`.bin`: ids. `.idx`: a header, lengths (int32), byte offsets (int64), documents (int64).

    Each sequence is a document. The format is that of megatron/core/datasets/indexed_dataset.py (0.16).
    """

    def __init__(self, target: Target) -> None:
        self.index, self.width = target.folder / f"{target.name}.idx", target.width
        self.path = target.folder / f"{target.name}.bin"
        self.data = self.path.open("wb")
        self.lengths = list[Counts]()

    def add(self, batch: Batch) -> None:
        lengths = np.diff(batch.ends)
        if len(lengths) and lengths.max() > LONGEST:
            raise NotConserved(f"a document has {lengths.max():,} tokens; Megatron allows {LONGEST:,}")
        batch.ids.tofile(self.data)
        self.lengths.append(lengths.astype(np.int32))

    def close(self) -> None:
        self.data.close()
        lengths = np.concatenate([np.empty(0, np.int32), *self.lengths])
        offsets = np.cumsum(lengths, dtype=np.int64) * self.width
        with self.index.open("wb") as file:
            file.write(MEGATRON_MAGIC)
            file.write(
                struct.pack(
                    "<QBQQ", MEGATRON_VERSION, MEGATRON_CODES[self.width], len(lengths), len(lengths) + 1
                )
            )
            lengths.tofile(file)
            (offsets - lengths * self.width).tofile(file)
            np.arange(len(lengths) + 1, dtype=np.int64).tofile(file)

    def check(self, tokens: int) -> None:
        expect_bytes(self.path, tokens, self.width)


class Datatrove:
    """`.ds`: ids. `.ds.index`: ends of documents (uint64). `.ds.metadata`: tokenizer and bytes, tokens."""

    def __init__(self, target: Target) -> None:
        self.path, self.index_path, self.metadata = (
            target.folder / f"{target.name}{ending}" for ending in (".ds", ".ds.index", ".ds.metadata")
        )
        self.tokenizer, self.width = target.tokenizer, target.width
        self.data, self.index = self.path.open("wb"), self.index_path.open("wb")
        self.tokens = 0

    def add(self, batch: Batch) -> None:
        batch.ids.tofile(self.data)
        (batch.ends[1:] + self.tokens).astype("<u8").tofile(self.index)
        self.tokens += int(batch.ends[-1])

    def close(self) -> None:
        self.data.close()
        self.index.close()
        self.metadata.write_text(f"{self.tokenizer}|{self.width}\n{self.tokens}\n{self.tokens:,} tokens")

    def check(self, tokens: int) -> None:
        expect_bytes(self.path, tokens, self.width)


class Olmo:
    """`.npy`: ids without a header. `.csv.gz`: start, end, id, src and loc of each piece."""

    def __init__(self, target: Target) -> None:
        self.path, self.width = target.folder / f"{target.name}.npy", target.width
        self.data = self.path.open("wb")
        self.raw = (target.folder / f"{target.name}.csv.gz").open("wb")
        self.packed = gzip.GzipFile(
            "", "wb", 6, self.raw, mtime=0
        )  # a time in the header would make the bytes differ
        self.rows = io.TextIOWrapper(self.packed, newline="")
        self.labels = target.labels

    def add(self, batch: Batch) -> None:
        batch.ids.tofile(self.data)
        starts, tokens, ids, corpora, copies = (
            batch.origins.column(name).to_pylist() for name in ("start", "tokens", "doc_id", "corpus", "copy")
        )
        csv.writer(self.rows).writerows(
            (start, start + count, doc_id, self.labels[corpus], copy)
            for start, count, doc_id, corpus, copy in zip(starts, tokens, ids, corpora, copies, strict=True)
        )

    def close(self) -> None:
        self.data.close()
        self.rows.close()
        self.raw.close()

    def check(self, tokens: int) -> None:
        expect_bytes(self.path, tokens, self.width)


class Torchtitan:
    """A folder with `tokens.bin`, ids of four bytes, and `document_offsets.npy`, (documents + 1,) int64."""

    def __init__(self, target: Target) -> None:
        self.folder = target.folder / target.name
        self.folder.mkdir()
        self.data = (self.folder / "tokens.bin").open("wb")
        self.ends, self.tokens = [np.zeros(1, np.int64)], 0

    def add(self, batch: Batch) -> None:
        batch.ids.astype("<u4").tofile(self.data)
        self.ends.append(batch.ends[1:] + self.tokens)
        self.tokens += int(batch.ends[-1])

    def close(self) -> None:
        self.data.close()
        np.save(self.folder / "document_offsets.npy", np.concatenate(self.ends))

    def check(self, tokens: int) -> None:
        expect_bytes(self.folder / "tokens.bin", tokens, 4)


class ParquetOfTokens:
    """Parquet with a list of ids, `input_ids`, a row for each sequence.

    Packed sequences also have `seq_lengths` for TRL: the lengths of their pieces, and 1 for each token that
    fills the sequence.
    """

    def __init__(self, target: Target) -> None:
        kind = pa.uint16() if target.width == 2 else pa.uint32()
        self.path, self.tokens = target.folder / f"{target.name}.parquet", 0
        fields = [("input_ids", pa.large_list(kind))]
        self.is_packed = target.is_packed
        self.schema = pa.schema([*fields, *[("seq_lengths", pa.large_list(pa.int32()))] * self.is_packed])
        self.writer = pq.ParquetWriter(
            self.path,
            self.schema,
            compression="zstd",
            write_page_checksum=True,
            use_dictionary=False,
        )

    def add(self, batch: Batch) -> None:
        lists = [pa.LargeListArray.from_arrays(pa.array(batch.ends), pa.array(batch.ids))]
        if self.is_packed:
            offsets, lengths = lengths_of(packed_pieces(batch.origins, batch.ends))
            lists.append(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(lengths)))
        self.writer.write_table(pa.table(lists, schema=self.schema), row_group_size=1 << 14)
        self.tokens += len(batch.ids)

    def close(self) -> None:
        self.writer.close()

    def check(self, tokens: int) -> None:
        if self.tokens != tokens:
            raise NotConserved(f"{self.path.name} has {self.tokens:,} tokens, not {tokens:,}")


WRITERS: dict[str, type[Writer]] = {
    "megatron": Megatron,
    "datatrove": Datatrove,
    "olmo": Olmo,
    "torchtitan": Torchtitan,
    "parquet": ParquetOfTokens,
}
