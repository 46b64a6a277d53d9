"""The first pass of the shuffle: the copies of a file's documents, each in the part of the order that it is in.

The order of a mixture is that of 64-bit hashes of seed, corpus, document and copy, so any order is as likely as any
other, and no two files need to know of each other. An output file is a range of these hashes. A segment has what
one published file gives to all output files, sorted, in row groups of one output file each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.dedup.reference.corpora import belongs_to
from tasks.errors import NotConserved
from tasks.ids import hash_ids
from tasks.mixing.amounts import Amount
from tasks.mixing.file_jobs import FileJob
from tasks.storage.artifacts import Artifact, Counts
from tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact
from textkernels.buffers import text_buffers
from textkernels.pieces import copy_pieces

VERSION = 1
GROUP_BYTES = 8 << 20
SEGMENT = pa.schema(
    [("output", pa.uint32()), ("key", pa.uint64()), ("doc_id", pa.uint64()), ("part", pa.uint16()),
     ("copy", pa.uint32()), ("content", pa.large_binary())]
)  # fmt: skip
# Each row group is asked for by its output file alone: an output file reads the footers of all segments.
PLAIN = {"compression": "none", "use_dictionary": False, "write_statistics": ["output"]}
COPY_STEP = np.uint64(0x9E3779B97F4A7C15)
Numbers = NDArray[np.uint64]


def outputs_of(
    keys: Numbers, is_held_out: NDArray[np.bool_], file_counts: tuple[int, int]
) -> NDArray[np.uint32]:
    """Return in which output file each copy is, (n,): of the files of its kind, each is an equal range of keys.

    file_counts: how many there are to train on, which come first, and of what is held out.
    """
    train, held_out = file_counts
    high = keys >> np.uint64(32)
    of_train = (high * np.uint64(train)) >> np.uint64(32)
    of_held_out = np.uint64(train) + ((high * np.uint64(max(1, held_out))) >> np.uint64(32))
    return np.where(is_held_out, of_held_out, of_train).astype(np.uint32)


@dataclass(frozen=True)
class SegmentsOfFile(FileJob):
    """The copies of a published file's documents: SEGMENT, by output file and key.

    content: `ids`, from the file's tokens, or `text`, from the file itself. amounts: of each part. salt: of
    the order.
    """

    stage, version = "segments", VERSION

    tokens: Artifact
    chosen: Artifact
    amounts: tuple[Amount, ...]
    file_counts: tuple[int, int]
    salt: int
    content: str

    @property
    def params(self) -> Any:
        amounts = [(one.whole, one.last) for one in self.amounts]
        return [amounts, self.file_counts, self.salt, self.content]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.tokens.digest, self.chosen.digest)

    def make(self) -> Artifact:
        chosen = read_table(self.folder, self.chosen)
        copies = self.copies(chosen)
        rows = np.repeat(np.arange(len(chosen)), copies)
        copy = (np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)).astype(np.uint64)
        ids = chosen.column("doc_id").to_numpy()
        keys = hash_ids(hash_ids(ids[rows] ^ np.uint64(self.salt)) + copy * COPY_STEP)
        output = outputs_of(keys, chosen.column("is_held_out").to_numpy()[rows], self.file_counts)
        order = np.lexsort([copy, ids[rows], keys, output])
        rows, copy, keys, output = rows[order], copy[order], keys[order], output[order]
        contents = self.contents(ids[copies > 0])
        places = (np.cumsum(copies > 0) - 1)[rows]
        part = chosen.column("part").to_numpy()
        columns = [output, keys, ids[rows], part[rows], copy.astype(np.uint32)]
        sizes = pc.binary_length(contents).to_numpy()[places] if len(places) else np.empty(0, np.int64)

        def fill(scratch: Path) -> Counts:
            with parquet_writer(scratch, SEGMENT, **PLAIN) as writer:
                for start, stop in groups_of(output, sizes):
                    arrays = [pa.array(column[start:stop]) for column in columns]
                    content = taken(contents, places[start:stop])
                    writer.write_table(
                        pa.table([*arrays, content], schema=SEGMENT), row_group_size=stop - start
                    )
            return Counts(documents=len(rows), bytes=int(sizes.sum()))

        return write_artifact(self.folder, self.path, self.name, fill)

    def copies(self, chosen: pa.Table) -> NDArray[np.int64]:
        """Return how often each document is there: (n,)."""
        part, draw, ids = (chosen.column(name).to_numpy() for name in ("part", "draw", "doc_id"))
        whole = np.array([one.whole for one in self.amounts], np.int64)[part]
        last = np.array([one.last or (0, 0) for one in self.amounts], np.uint64)[part]
        has_more = np.array([one.last is not None for one in self.amounts], np.bool_)[part]
        is_drawn = has_more & ((draw < last[:, 0]) | ((draw == last[:, 0]) & (ids <= last[:, 1])))
        copies = chosen.column("copies").to_numpy().astype(np.int64)
        return np.where(chosen.column("is_held_out").to_numpy(), 1, copies * (whole + is_drawn))

    def contents(self, wanted: Numbers) -> pa.LargeBinaryArray:
        """Read the ids or the text of some documents, by their doc_ids, ascending: one value each."""
        if self.content == "ids":
            found = list(chosen_values(tables_of(self.folder, self.tokens, ["doc_id", "ids"]), wanted))
        else:
            with belongs_to(self.corpus):
                tables = tables_of(self.corpus.folder, self.artifact, ["doc_id", "text"])
                found = list(chosen_values(tables, wanted))
        contents = pa.concat_arrays([pa.array([], pa.large_binary()), *found])
        if len(contents) != len(wanted):
            raise NotConserved(
                f"{self.whose}: {len(wanted):,} documents are chosen, {len(contents):,} are there"
            )
        return contents


def chosen_values(tables: Iterator[pa.Table], wanted: Numbers) -> Iterator[pa.LargeBinaryArray]:
    """Yield the second column of documents that are wanted, in tables that begin with a `doc_id`."""
    for table in tables:
        is_in = np.isin(table.column("doc_id").to_numpy(), wanted, assume_unique=True)
        yield from table.column(1).filter(pa.array(is_in)).cast(pa.large_binary()).chunks


def taken(contents: pa.LargeBinaryArray, places: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Take values of a column, in any order and any number of times."""
    data, ends = text_buffers(contents)
    lengths = np.diff(ends)[places]
    offsets = np.append(0, np.cumsum(lengths))
    found = np.empty(offsets[-1], np.uint8)
    copy_pieces(data, ends[:-1][places], lengths, found, offsets[:-1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(found)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(places), buffers)


def groups_of(output: NDArray[np.uint32], sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut rows into groups of one output file each and of GROUP_BYTES at the most: (start, stop)."""
    if not len(output):
        return
    starts = np.flatnonzero(np.append(True, output[1:] != output[:-1]))
    ends = np.cumsum(sizes)
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(output)], strict=True):
        at = start
        while at < stop:
            limit = (ends[at - 1] if at else 0) + GROUP_BYTES
            end = min(stop, max(at + 1, int(np.searchsorted(ends, limit, side="right"))))
            yield at, end
            at = end
