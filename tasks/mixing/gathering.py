"""The second pass of the shuffle: collect an output file from all segments, in the order of keys.

An output file that does not fit into memory is first divided into local files by ranges of keys that fit.
"""

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zyda_flows.tasks.dedup.exchange import Files
from zyda_flows.tasks.errors import NotConserved
from zyda_flows.tasks.ids import hash_ids
from zyda_flows.tasks.mixing.boundaries import NAME, Boundaries
from zyda_flows.tasks.mixing.formats import WRITERS, Batch, Target, Writer
from zyda_flows.tasks.mixing.scattering import SEGMENT
from zyda_flows.tasks.mixing.segment_groups import row_groups_of
from zyda_flows.tasks.stage.jobs import RecordJob
from zyda_flows.tasks.stage.keys import NotInKey
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import footer_of, open_table, parquet_writer
from zyda_flows.textkernels.buffers import text_buffers
from zyda_flows.textkernels.packing import pack
from zyda_flows.textkernels.pieces import copy_pieces

VERSION = 1
MEMORY_BYTES = 128 << 20  # ids or texts that are sorted in memory
ORIGINS = pa.schema(
    [("start", pa.uint64()), ("tokens", pa.int64()), ("sequence", pa.uint64()), ("doc_id", pa.uint64()),
     ("corpus", pa.uint16()), ("part", pa.uint16()), ("copy", pa.uint32()), ("offset", pa.uint32())]
)  # fmt: skip
TEXT = pa.schema([("text", pa.large_string()), ("doc_id", pa.uint64()), ("corpus", pa.string())])


class MixedFile(Record):
    """A file of a mixture: its path in the mixture's folder, its size in bytes, and its SHA-256."""

    path: str
    size: int
    sha256: str


class PartCounts(Record):
    """The copies of documents of a part in an output file, and their tokens with those around documents."""

    copies: int = 0
    tokens: int = 0


class Output(Record):
    """An output file in all its formats: `train-00000`.

    tokens: of all sequences. padded: tokens that fill sequences. cut: tokens outside the sequence in which their
    document begins.
    """

    name: str
    files: tuple[MixedFile, ...]
    sequences: int
    tokens: int
    padded: int
    cut: int
    parts: dict[int, PartCounts]


@dataclass(frozen=True)
class OutputFile(RecordJob[Output]):
    """Write an output file from all segments.

    output_name: name of the file. number: number of the file. files_of_kind: number of training or held-out files,
    which share the range of keys. place: folder of its formats in the mixture's folder. formats: formats of ids, or
    `text` alone. is_by_pass: whether documents of different passes are packed separately. filler: id that fills
    packed sequences.
    """

    stage, version, kind = "outputs", VERSION, Output

    output_name: str
    number: int
    files_of_kind: int
    place: str
    segments: Files
    formats: tuple[str, ...]
    width: int
    packed: int | None
    is_by_pass: bool
    filler: int
    tokenizer: str
    labels: Annotated[tuple[str, ...], NotInKey("only some formats contain them")]

    @property
    def name(self) -> str:
        return self.output_name

    @property
    def also_in_key(self) -> tuple[str, ...]:
        return self.labels if {"olmo", "text"} & {*self.formats} else ()

    def made_before(self) -> Output | None:
        output = super().made_before()
        is_complete = output and all(self.folder.size_of(file.path) == file.size for file in output.files)
        return output if is_complete else None

    def make(self) -> Output:
        with local_folder(self.folder) as local:
            rows = by_ranges(self, local / "spilled")
            out = local / "out"
            out.mkdir()
            write = write_text if self.formats == ("text",) else write_tokens
            output = write(self, out, rows)
            files = tuple(self.put(path, out) for path in sorted(out.rglob("*")) if path.is_file())
        return self.recorded(output.model_copy(update={"files": files}))

    def put(self, path: Path, out: Path) -> MixedFile:
        """Store a local file in the mixture's folder."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        to, size = f"{self.place}/{path.relative_to(out).as_posix()}", path.stat().st_size
        self.folder.put(path, to, read_only=True)
        return MixedFile(path=to, size=size, sha256=digest)


@contextmanager
def local_folder(folder: Folder) -> Iterator[Path]:
    """Yield a local folder that is deleted afterwards."""
    with folder.scratch_file() as scratch:
        scratch.mkdir()
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def by_ranges(job: OutputFile, spilled: Path) -> Iterator[pa.Table]:
    """Yield the pieces of an output file from all segments: SEGMENT, one table for each range of keys."""
    groups = [(segment, row_groups_of(job.folder, segment, job.number)) for segment in job.segments.artifacts]
    size = sum(bytes_of(job.folder, segment, segment_groups) for segment, segment_groups in groups)
    ranges = -(-size // MEMORY_BYTES)
    tables = (
        table for segment, segment_groups in groups for table in read_groups(job, segment, segment_groups)
    )
    if ranges <= 1:
        yield pa.concat_tables([SEGMENT.empty_table(), *tables])
        return
    spilled.mkdir()
    writers = [pa.ipc.new_stream(str(spilled / f"{number:05d}"), SEGMENT) for number in range(ranges)]
    for table in tables:
        row_ranges = ranges_of(job, table.column("key").to_numpy(), ranges)
        if (np.diff(row_ranges) < 0).any():  # the pieces of several files; those of one file ascend by key
            order = np.argsort(row_ranges, kind="stable")
            table, row_ranges = table.take(pa.array(order)), row_ranges[order]
        ends = np.searchsorted(row_ranges, np.arange(ranges + 1))
        for number in np.unique(row_ranges).tolist():
            writers[number].write_table(table.slice(ends[number], ends[number + 1] - ends[number]))
    for writer in writers:
        writer.close()
    for number in range(ranges):
        path = spilled / f"{number:05d}"
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_stream(file).read_all()
        path.unlink()
        yield table


def bytes_of(folder: Folder, segment: Artifact, groups: Sequence[int]) -> int:
    footer = footer_of(folder, segment)
    return sum(footer.row_group(group).total_byte_size for group in groups)


def read_groups(job: OutputFile, segment: Artifact, groups: Sequence[int]) -> Iterator[pa.Table]:
    if groups:
        with open_table(job.folder, segment) as parquet:
            yield from map(parquet.read_row_group, groups)


def ranges_of(job: OutputFile, keys: NDArray[np.uint64], ranges: int) -> NDArray[np.int64]:
    """Return the range of each key, (n,), if the keys of an output file are divided into equal ranges."""
    within = ((keys >> np.uint64(32)) * np.uint64(job.files_of_kind)) & np.uint64(0xFFFFFFFF)
    return ((within * np.uint64(ranges)) >> np.uint64(32)).astype(np.int64)


def order_of(table: pa.Table) -> NDArray[np.int64]:
    """Return the order of pieces by key, then by corpus, document, copy and offset."""
    names = ("offset", "copy", "doc_id", "corpus", "key")
    return np.lexsort([table.column(name).to_numpy() for name in names])


def write_tokens(job: OutputFile, out: Path, tables: Iterator[pa.Table]) -> Output:
    """Write the ids of an output file in all formats, and the origins of its pieces: ORIGINS."""
    writers = list[Writer]()
    kinds = {form: WRITERS[form] for form in job.formats} | ({NAME: Boundaries} if job.packed else {})
    for form, writer_class in kinds.items():
        (out / form).mkdir()
        target = Target(out / form, job.name, job.width, job.tokenizer, job.labels, bool(job.packed))
        writers.append(writer_class(target))
    (out / "origins").mkdir()
    sequences = tokens = padded = cut = 0
    parts = dict[int, PartCounts]()
    with parquet_writer(out / "origins" / f"{job.name}.parquet", ORIGINS) as origins:
        for table in tables_by_pass(tables) if job.is_by_pass else tables:
            batch = packed_batch(job, table) if job.packed else plain_batch(job, table)
            placed = batch.origins.column("start").to_numpy() + np.uint64(tokens)
            numbered = batch.origins.column("sequence").to_numpy() + np.uint64(sequences)
            own = batch.origins.set_column(0, "start", pa.array(placed)).set_column(
                2, "sequence", pa.array(numbered)
            )
            for writer in writers:
                writer.add(Batch(batch.ids, batch.ends, own))
            origins.write_table(own.cast(ORIGINS), row_group_size=1 << 16)
            piece_tokens = int(np.sum(own.column("tokens").to_numpy(), dtype=np.int64))
            sequences, tokens = sequences + len(batch.ends) - 1, tokens + int(batch.ends[-1])
            padded += int(batch.ends[-1]) - piece_tokens
            is_first = own.column("offset").to_numpy() == 0
            cut += int(own.column("tokens").to_numpy()[~is_first].sum(dtype=np.int64))
            add_counts(parts, own, is_first)
            check_counts(job, table, own)
    for writer in writers:
        writer.close()
    for writer in writers:
        writer.check(tokens)
    return Output(
        name=job.name, files=(), sequences=sequences, tokens=tokens, padded=padded, cut=cut, parts=parts
    )


def tables_by_pass(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Divide tables of pieces by the number of their copy: SEGMENT."""
    for table in tables:
        numbers = pc.unique(table.column("copy")).to_pylist()
        for number in sorted(numbers):
            yield table.filter(pc.equal(table.column("copy"), number)) if len(numbers) > 1 else table


def add_counts(parts: dict[int, PartCounts], origins: pa.Table, is_first: NDArray[np.bool_]) -> None:
    """Add the copies and tokens of pieces to the counts of their parts."""
    part, tokens = origins.column("part").to_numpy(), origins.column("tokens").to_numpy().astype(np.int64)
    for number in np.unique(part).tolist():
        is_in = part == number
        before = parts.get(number, PartCounts())
        parts[number] = PartCounts(
            copies=before.copies + int((is_in & is_first).sum()),
            tokens=before.tokens + int(tokens[is_in].sum()),
        )


def check_counts(job: OutputFile, table: pa.Table, origins: pa.Table) -> None:
    """Raise NotConserved if pieces and documents have different numbers of tokens."""
    contents = table.column("content")
    ends = [
        np.frombuffer(chunk.buffers()[1], np.int64)[[chunk.offset, chunk.offset + len(chunk)]]
        for chunk in contents.chunks
    ]
    expected = sum(int(last - first) for first, last in ends) // job.width
    tokens = int(origins.column("tokens").to_numpy().sum(dtype=np.int64))
    if tokens != expected:
        raise NotConserved(f"{job.whose}: its documents have {expected:,} tokens, but its pieces {tokens:,}")


def ordered(job: OutputFile, table: pa.Table) -> tuple[NDArray[Any], NDArray[np.int64], pa.Table]:
    """Return the ids of pieces in the order of keys, (t,), their offsets, (n + 1,), and their other columns."""
    order = order_of(table)
    lengths = pc.binary_length(table.column("content")).to_numpy() // job.width
    ends = np.append(0, np.cumsum(lengths[order]))
    starts = np.empty(len(order), np.int64)  # of each piece, in the order of the table
    starts[order] = ends[:-1]
    whole = np.empty(ends[-1], f"<u{job.width}")
    first = 0
    for chunk in table.column("content").chunks:
        data, offsets = text_buffers(chunk)
        data = data[: offsets[-1]]  # its rest may be no whole id
        rows = slice(first, first := first + len(chunk))
        copy_pieces(data.view(whole.dtype), offsets[:-1] // job.width, lengths[rows], whole, starts[rows])
    return whole, ends, table.drop_columns(["content"]).take(pa.array(order))


def plain_batch(job: OutputFile, table: pa.Table) -> Batch:
    """Return the documents as a batch in which each document is a sequence."""
    ids, ends, own = ordered(job, table)
    return Batch(ids, ends, origins_of(own, ends[:-1], np.diff(ends), np.arange(len(own))))


def packed_batch(job: OutputFile, table: pa.Table) -> Batch:
    """Return the pieces packed into sequences of one length, in an order that depends on the keys."""
    size = job.packed or 0
    ids, ends, table = ordered(job, table)
    sizes = np.diff(ends)
    sequence, count = pack(sizes, size)
    # Sort sequences by the hash of the key of their first piece, because best fit places long pieces first.
    order = np.argsort(sequence, kind="stable")
    starts = np.searchsorted(sequence[order], np.arange(count))
    rank = np.empty(count, np.int64)
    rank[np.argsort(hash_ids(table.column("key").to_numpy()[order][starts]), kind="stable")] = np.arange(
        count
    )
    order = np.argsort(rank[sequence], kind="stable")
    sequence, sizes = rank[sequence][order], sizes[order]
    within = np.cumsum(sizes) - sizes
    first = np.searchsorted(sequence, np.arange(count))
    placed = sequence * size + within - within[first][sequence]
    packed = np.full(count * size, job.filler, ids.dtype)
    copy_pieces(ids, ends[:-1][order], sizes, packed, placed)
    own = table.take(pa.array(order))
    return Batch(packed, np.arange(count + 1) * size, origins_of(own, placed, sizes, sequence))


def origins_of(
    table: pa.Table, starts: NDArray[np.int64], tokens: NDArray[np.int64], sequence: NDArray[np.int64]
) -> pa.Table:
    """Return the positions of pieces with their documents: ORIGINS."""
    own = [table.column(name).to_numpy() for name in ("doc_id", "corpus", "part", "copy", "offset")]
    columns = [starts.astype(np.uint64), tokens, sequence.astype(np.uint64), *own]
    return pa.table([pa.array(column) for column in columns], names=ORIGINS.names).cast(ORIGINS)


def write_text(job: OutputFile, out: Path, tables: Iterator[pa.Table]) -> Output:
    """Write the texts of an output file as Parquet: TEXT."""
    (out / "text").mkdir()
    copies = 0
    parts = dict[int, PartCounts]()
    labels = pa.array(job.labels, pa.string())
    with pq.ParquetWriter(
        out / "text" / f"{job.name}.parquet", TEXT, compression="zstd", write_page_checksum=True
    ) as writer:
        for unordered in tables:
            table = unordered.take(pa.array(order_of(unordered)))
            corpus = labels.take(table.column("corpus").combine_chunks())
            text = table.column("content").cast(pa.large_string())
            writer.write_table(
                pa.table([text, table.column("doc_id"), corpus], schema=TEXT), row_group_size=1 << 10
            )
            copies += len(table)
            part = table.column("part").to_numpy()
            for number, count in zip(*np.unique(part, return_counts=True), strict=True):
                before = parts.get(int(number), PartCounts())
                parts[int(number)] = PartCounts(copies=before.copies + int(count))
    return Output(name=job.name, files=(), sequences=copies, tokens=0, padded=0, cut=0, parts=parts)
