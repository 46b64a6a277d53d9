"""The first pass of the shuffle: the copies of a file's documents, each in the part of the order that it is in.

The order of a mixture is that of 64-bit hashes of seed, corpus, document and copy, so any order is as likely as any
other, and no two files need to know of each other. Where sequences are packed, a document longer than a sequence is
cut here, and each of its pieces has a hash of its own: the pieces are shuffled over all files. An output file is a
range of these hashes. A segment has what one published file gives to all output files, sorted, in row groups of one
output file each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.mixing.amounts import Amount
from zyda_flows.tasks.mixing.file_jobs import FileJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact, Counts
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.pieces import copy_pieces

VERSION = 1
GROUP_BYTES = 8 << 20
SEGMENT = pa.schema(
    [("output", pa.uint32()), ("key", pa.uint64()), ("doc_id", pa.uint64()), ("part", pa.uint16()),
     ("copy", pa.uint32()), ("offset", pa.uint32()), ("content", pa.large_binary())]
)  # fmt: skip
# Each row group is asked for by its output file alone: an output file reads the footers of all segments.
PLAIN = {"compression": "none", "use_dictionary": False, "write_statistics": ["output"]}
STEP = np.uint64(0x9E3779B97F4A7C15)  # between the hashes of copies, and of pieces
Numbers = NDArray[np.uint64]
Counts64 = NDArray[np.int64]


@dataclass(frozen=True)
class Framing:
    """How documents become sequences.

    width: bytes of an id. before, after: ids around each document. packed: tokens of a sequence; None where each
    document is one.
    """

    width: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    packed: int | None

    def framed(self, contents: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Put the ids around each document to its own."""
        if not (self.before or self.after):
            return contents
        data, ends = text_buffers(contents)
        ahead, behind = (np.array(ids, f"<u{self.width}").view(np.uint8) for ids in (self.before, self.after))
        offsets = ends - ends[0] + np.arange(len(ends)) * (len(ahead) + len(behind))
        whole = np.empty(offsets[-1], np.uint8)
        copy_pieces(data, ends[:-1], np.diff(ends), whole, offsets[:-1] + len(ahead))
        for i, byte in enumerate(ahead):
            whole[offsets[:-1] + i] = byte
        for i, byte in enumerate(behind):
            whole[offsets[1:] - len(behind) + i] = byte
        return as_binary(offsets, whole)

    def pieces(self, sizes: Counts64) -> tuple[Counts64, Counts64]:
        """Cut documents of so many bytes, (n,): the document of each piece, (p,), and its number there, (p,)."""
        if self.packed is None:
            return np.arange(len(sizes)), np.zeros(len(sizes), np.int64)
        counts = -(-sizes // (self.packed * self.width))
        of_document = np.repeat(np.arange(len(sizes)), counts)
        return of_document, np.arange(len(of_document)) - np.repeat(np.cumsum(counts) - counts, counts)


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

    content: `ids`, from the file's tokens, with those around each document, or `text`, from the file itself.
    amounts: of each part. salt: of the order. offset: the first token of a piece in its document.
    """

    stage, version = "segments", VERSION

    tokens: Artifact
    chosen: Artifact
    amounts: Annotated[tuple[Amount, ...], NotInKey("only their epochs and last draws count")]
    file_counts: tuple[int, int]
    salt: int
    content: str
    framing: Framing

    @property
    def also_in_key(self) -> Any:
        return [(one.whole, one.last) for one in self.amounts]

    def make(self) -> Artifact:
        chosen = read_table(self.folder, self.chosen)
        ids, copies = chosen.column("doc_id").to_numpy(), self.copies(chosen)
        contents = self.contents(ids[copies > 0])
        rows, columns, starts, sizes = self.pieces(chosen, copies, pc.binary_length(contents).to_numpy())
        places = (np.cumsum(copies > 0) - 1)[rows]

        def fill(scratch: Path) -> Counts:
            with parquet_writer(scratch, SEGMENT, **PLAIN) as writer:
                for start, stop in groups_of(columns[0], sizes):
                    arrays = [pa.array(column[start:stop]) for column in columns]
                    content = taken(contents, places[start:stop], starts[start:stop], sizes[start:stop])
                    writer.write_table(
                        pa.table([*arrays, content], schema=SEGMENT), row_group_size=stop - start
                    )
            return Counts(documents=len(rows), bytes=int(sizes.sum()))

        return write_artifact(self.folder, self.path, self.name, fill)

    def pieces(
        self, chosen: pa.Table, copies: Counts64, lengths: Counts64
    ) -> tuple[Counts64, list[NDArray[Any]], Counts64, Counts64]:
        """Cut the copies of documents into pieces, in the order of a segment.

        lengths: bytes of each document of which there are copies. Returns the row of each piece among the chosen,
        the columns of SEGMENT but for the content, and where each piece begins in its content, with its size.
        """
        ids, part, held_out = (chosen.column(name).to_numpy() for name in ("doc_id", "part", "is_held_out"))
        of_copy = np.repeat(np.arange(len(chosen)), copies)
        copy = (np.arange(len(of_copy)) - np.repeat(np.cumsum(copies) - copies, copies)).astype(np.uint64)
        size = np.repeat(lengths, copies[copies > 0])
        keys = hash_ids(hash_ids(ids[of_copy] ^ np.uint64(self.salt)) + copy * STEP)
        of_piece, number = self.framing.pieces(size)
        rows, copy, keys, size = of_copy[of_piece], copy[of_piece], keys[of_piece], size[of_piece]
        offset = np.zeros(len(rows), np.int64)
        if packed := self.framing.packed:
            # Pieces with the key of their document would stand side by side.
            keys, offset = hash_ids(keys + number.astype(np.uint64) * STEP), number * packed
            size = np.minimum(size - offset * self.framing.width, packed * self.framing.width)
        output = outputs_of(keys, held_out[rows], self.file_counts)
        order = np.lexsort([offset, copy, ids[rows], keys, output])
        columns = [output, keys, ids[rows], part[rows], copy.astype(np.uint32), offset.astype(np.uint32)]
        starts = offset * self.framing.width
        return rows[order], [column[order] for column in columns], starts[order], size[order]

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
            with self.corpus.reading():
                tables = tables_of(self.corpus.folder, self.artifact, ["doc_id", "text"])
                found = list(chosen_values(tables, wanted))
        contents = pa.concat_arrays([pa.array([], pa.large_binary()), *found])
        if len(contents) != len(wanted):
            raise NotConserved(
                f"{self.whose}: {len(wanted):,} documents are chosen, {len(contents):,} are there"
            )
        return self.framing.framed(contents)


def chosen_values(tables: Iterator[pa.Table], wanted: Numbers) -> Iterator[pa.LargeBinaryArray]:
    """Yield the second column of documents that are wanted, in tables that begin with a `doc_id`."""
    for table in tables:
        is_in = np.isin(table.column("doc_id").to_numpy(), wanted, assume_unique=True)
        yield from table.column(1).filter(pa.array(is_in)).cast(pa.large_binary()).chunks


def taken(
    contents: pa.LargeBinaryArray, places: Counts64, starts: Counts64, sizes: Counts64
) -> pa.LargeBinaryArray:
    """Take a piece of some values of a column, in any order and any number of times. starts, sizes: in bytes."""
    data, ends = text_buffers(contents)
    offsets = np.append(0, np.cumsum(sizes))
    found = np.empty(offsets[-1], np.uint8)
    copy_pieces(data, ends[:-1][places] + starts, sizes, found, offsets[:-1])
    return as_binary(offsets, found)


def as_binary(offsets: Counts64, data: NDArray[np.uint8]) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


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
