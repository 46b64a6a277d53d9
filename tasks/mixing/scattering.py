"""The first pass of the shuffle: divide the documents of a published file into segments for the output files.

The order of a mixture is the order of 64-bit hashes of seed, corpus, document and copy. All orders are equally
likely, and files are processed independently. If sequences are packed, a document longer than a sequence is cut
into pieces, and each piece has its own hash, so that the pieces are shuffled over all files. An output file is a
range of hashes. The segment of a published file contains its pieces for all output files, sorted, and a row group
belongs to a single output file, or to neighbouring output files if segments are gathered (`segment_groups`).
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
from zyda_flows.tasks.mixing.passes import keys_in_passes
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.counts import Counts
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.pieces import copy_pieces

VERSION = 1
GROUP_BYTES = 8 << 20
SEGMENT = pa.schema(
    [("output", pa.uint32()), ("key", pa.uint64()), ("doc_id", pa.uint64()), ("corpus", pa.uint16()),
     ("part", pa.uint16()), ("copy", pa.uint32()), ("offset", pa.uint32()), ("content", pa.large_binary())]
)  # fmt: skip
# An output file finds its row groups by this statistic in the footers of all segments.
PLAIN = {"compression": "none", "use_dictionary": False, "write_statistics": ["output"]}
STEP = np.uint64(0x9E3779B97F4A7C15)  # between the hashes of copies, and of pieces
Numbers = NDArray[np.uint64]
Counts64 = NDArray[np.int64]


@dataclass(frozen=True)
class Framing:
    """How documents become sequences.

    width: bytes of an id. before, after: ids that are added around each document. packed: tokens of a sequence, or
    None if each document is a sequence.
    """

    width: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    packed: int | None

    def framed(self, contents: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Add the ids `before` and `after` around each document, given as bytes of its ids."""
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
        """Cut documents of the given sizes in bytes, (n,).

        Return for each piece its document, (p,), and its number in it, (p,).
        """
        if self.packed is None:
            return np.arange(len(sizes)), np.zeros(len(sizes), np.int64)
        counts = -(-sizes // (self.packed * self.width))
        documents = np.repeat(np.arange(len(sizes)), counts)
        return documents, np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts)


def outputs_of(
    keys: Numbers, is_held_out: NDArray[np.bool_], file_counts: tuple[int, int]
) -> NDArray[np.uint32]:
    """Return the number of the output file of each copy, (n,). Files of a kind are equal ranges of keys.

    file_counts: number of training files, which come first, and of held-out files.
    """
    train, held_out = file_counts
    high = keys >> np.uint64(32)
    train_file = (high * np.uint64(train)) >> np.uint64(32)
    held_out_file = np.uint64(train) + ((high * np.uint64(max(1, held_out))) >> np.uint64(32))
    return np.where(is_held_out, held_out_file, train_file).astype(np.uint32)


@dataclass(frozen=True)
class SegmentsOfFile(FileJob):
    """The copies of a published file's documents: SEGMENT, by output file and key.

    content: `ids` (the stored token ids, with the ids around each document) or `text` (from the published file).
    amounts: of each part. salt: salt of the order. corpus_number: number of the corpus in the mixture. offset:
    number of the first token of a piece in its document. outputs_together: output files that share row groups.
    passes: with `order: epochs`, the first key of each pass.
    """

    stage, version = "segments", VERSION

    tokens: Artifact
    chosen: Artifact
    amounts: Annotated[tuple[Amount, ...], NotInKey("only the epochs and the last draws are used")]
    file_counts: tuple[int, int]
    salt: int
    corpus_number: int
    content: str
    framing: Framing
    outputs_together: int
    passes: tuple[int, ...] = ()

    @property
    def also_in_key(self) -> Any:
        return [(amount.whole, amount.last) for amount in self.amounts]

    def make(self) -> Artifact:
        chosen = read_table(self.folder, self.chosen)
        ids, copies = chosen.column("doc_id").to_numpy(), self.copies(chosen)
        contents = self.contents(ids[copies > 0])
        rows, columns, starts, sizes = self.pieces(chosen, copies, pc.binary_length(contents).to_numpy())
        places = (np.cumsum(copies > 0) - 1)[rows]

        def fill(scratch: Path) -> Counts:
            with parquet_writer(scratch, SEGMENT, **PLAIN) as writer:
                for start, stop in groups_of(columns[0] // self.outputs_together, sizes):
                    arrays = [pa.array(column[start:stop]) for column in columns]
                    content = take_pieces(contents, places[start:stop], starts[start:stop], sizes[start:stop])
                    writer.write_table(
                        pa.table([*arrays, content], schema=SEGMENT), row_group_size=stop - start
                    )
            return Counts(documents=len(rows), bytes=int(sizes.sum()))

        return write_artifact(self.folder, self.path, self.name, fill)

    def pieces(
        self, chosen: pa.Table, copies: Counts64, lengths: Counts64
    ) -> tuple[Counts64, list[NDArray[Any]], Counts64, Counts64]:
        """Cut the copies of documents into pieces in the order of a segment.

        lengths: size of each document with copies, in bytes. Return the row of each piece in `chosen`, the columns
        of SEGMENT without the content, and the start and the size of each piece in its content, in bytes.
        """
        ids, part, held_out = (chosen.column(name).to_numpy() for name in ("doc_id", "part", "is_held_out"))
        copy_row = np.repeat(np.arange(len(chosen)), copies)
        copy = (np.arange(len(copy_row)) - np.repeat(np.cumsum(copies) - copies, copies)).astype(np.uint64)
        size = np.repeat(lengths, copies[copies > 0])
        keys = hash_ids(hash_ids(ids[copy_row] ^ np.uint64(self.salt)) + copy * STEP)
        piece_copy, number = self.framing.pieces(size)
        rows, copy, keys, size = copy_row[piece_copy], copy[piece_copy], keys[piece_copy], size[piece_copy]
        offset = np.zeros(len(rows), np.int64)
        if packed := self.framing.packed:
            # With the key of their document, all pieces would be neighbours.
            keys, offset = hash_ids(keys + number.astype(np.uint64) * STEP), number * packed
            size = np.minimum(size - offset * self.framing.width, packed * self.framing.width)
        if self.passes:
            keys = np.where(held_out[rows], keys, keys_in_passes(keys, copy, self.passes))
        output = outputs_of(keys, held_out[rows], self.file_counts)
        order = np.lexsort([offset, copy, ids[rows], keys, output])
        corpus = np.full(len(rows), self.corpus_number, np.uint16)
        numbers = [copy.astype(np.uint32), offset.astype(np.uint32)]
        columns = [output, keys, ids[rows], corpus, part[rows], *numbers]
        starts = offset * self.framing.width
        return rows[order], [column[order] for column in columns], starts[order], size[order]

    def copies(self, chosen: pa.Table) -> NDArray[np.int64]:
        """Return the number of copies of each document: (n,)."""
        part, draw, ids = (chosen.column(name).to_numpy() for name in ("part", "draw", "doc_id"))
        whole = np.array([amount.whole for amount in self.amounts], np.int64)[part]
        last = np.array([amount.last or (0, 0) for amount in self.amounts], np.uint64)[part]
        has_more = np.array([amount.last is not None for amount in self.amounts], np.bool_)[part]
        is_drawn = has_more & ((draw < last[:, 0]) | ((draw == last[:, 0]) & (ids <= last[:, 1])))
        copies = chosen.column("copies").to_numpy().astype(np.int64)
        return np.where(chosen.column("is_held_out").to_numpy(), 1, copies * (whole + is_drawn))

    def contents(self, wanted: Numbers) -> pa.LargeBinaryArray:
        """Read the ids or the texts of documents. wanted: their doc_ids, ascending."""
        if self.content == "ids":
            values = list(chosen_values(tables_of(self.folder, self.tokens, ["doc_id", "ids"]), wanted))
        else:
            with self.corpus.reading():
                tables = self.tables(["doc_id", "text"])
                values = list(chosen_values(tables, wanted))
        contents = pa.concat_arrays([pa.array([], pa.large_binary()), *values])
        if len(contents) != len(wanted):
            raise NotConserved(
                f"{self.whose}: {len(wanted):,} documents are chosen, but {len(contents):,} exist"
            )
        return self.framing.framed(contents)


def chosen_values(tables: Iterator[pa.Table], wanted: Numbers) -> Iterator[pa.LargeBinaryArray]:
    """Yield the second column of the wanted documents, from tables whose first column is `doc_id`."""
    for table in tables:
        is_in = np.isin(table.column("doc_id").to_numpy(), wanted, assume_unique=True)
        values = table.column(1) if is_in.all() else table.column(1).filter(pa.array(is_in))
        yield from values.cast(pa.large_binary()).chunks


def take_pieces(
    contents: pa.LargeBinaryArray, places: Counts64, starts: Counts64, sizes: Counts64
) -> pa.LargeBinaryArray:
    """Return pieces of values of a column, in the order of `places`. starts, sizes: in bytes."""
    data, ends = text_buffers(contents)
    offsets = np.append(0, np.cumsum(sizes))
    pieces = np.empty(offsets[-1], np.uint8)
    copy_pieces(data, ends[:-1][places] + starts, sizes, pieces, offsets[:-1])
    return as_binary(offsets, pieces)


def as_binary(offsets: Counts64, data: NDArray[np.uint8]) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def groups_of(output: NDArray[np.uint32], sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Divide rows into groups with equal `output` and at most GROUP_BYTES each. Yield (start, stop)."""
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
