"""Runs of a range of fingerprints with too many contexts for memory, for example of a notice in all documents.

Contexts are distributed over local files by fingerprint. If those of a single fingerprint are too many, the windows
are distributed: by halves of their distances to the anchor, and in a half by a hash of the core, which is the units
that all windows at these distances have. Equal windows have equal cores, so they are in the same file. Halves are
divided again; at a single distance the core is the window, and all contexts with the same core are equal.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.ids import Ids, hash_ids
from zyda_flows.tasks.passages.contexts import as_binary
from zyda_flows.tasks.passages.runs import bytes_of, distinct_contexts, find_repeated
from zyda_flows.tasks.passages.spans import Places
from zyda_flows.tasks.recipe.passages import PassagePart
from zyda_flows.textkernels.windows import cut_contexts

FILES = 16  # into which contexts are distributed at once
BATCH_BYTES = 4 << 20  # of a record batch, about
CUT_KEYS = ("cut high", "cut low")  # columns with the hash of the part of a context
Divide = Callable[[pa.Table], tuple[pa.Table, Ids]]


@dataclass
class ContextFile:
    """Contexts in a local file, with PLACE and CUT_KEYS.

    distances: the least and the largest of windows to their anchor, if the contexts are parts. level: how often
    contexts with these distances were distributed. least, largest: of the numbers by which they were.
    """

    path: Path
    distances: tuple[int, int] | None
    level: int
    least: int = (1 << 64) - 1
    largest: int = 0
    sink: pa.NativeFile | None = None
    writer: pa.ipc.RecordBatchFileWriter | None = None

    def write(self, rows: pa.Table, numbers: Ids) -> None:
        """Append contexts. numbers: (n,) by which contexts are distributed."""
        if self.writer is None:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self.sink = pa.OSFile(str(self.path), "wb")
            self.writer = pa.ipc.new_file(self.sink, rows.schema, options=options)
        self.least, self.largest = min(self.least, int(numbers.min())), max(self.largest, int(numbers.max()))
        self.writer.write_table(rows, max_chunksize=max(1, BATCH_BYTES * len(rows) // rows.nbytes))

    def close(self) -> None:
        assert self.sink
        assert self.writer
        self.writer.close()
        self.sink.close()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the contexts, some at a time."""
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)])

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()


@dataclass(frozen=True)
class LargeRange:
    """The contexts of a range of fingerprints.

    new_path: returns a path for a local file. most_bytes: of contexts that are compared at once.
    """

    new_path: Callable[[], Path]
    part: PassagePart
    most_bytes: int

    def runs(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield RUNS of contexts with PLACE, some at a time, each sorted by PART."""
        for file in self.distributed(tables, [whole_contexts], [None], level=0):
            yield from self.runs_of_file(file)

    def runs_of_file(self, file: ContextFile) -> Iterator[pa.Table]:
        is_window = file.distances is not None and len({*file.distances}) == 1
        is_single = file.least >= file.largest
        most = inf if is_window and is_single else self.most_bytes
        contexts = distinct_contexts(file.tables(), self.part, most, CUT_KEYS)
        if contexts is not None:
            yield from find_repeated(contexts, self.part).rows(file.tables(), CUT_KEYS)
            file.remove()
        else:
            for smaller in self.divided(file, is_single=is_single):
                yield from self.runs_of_file(smaller)

    def divided(self, file: ContextFile, *, is_single: bool) -> list[ContextFile]:
        """Distribute the contexts of a file, which is removed. is_single: whether they have one number."""
        if is_single:
            low, high = file.distances or self.distances_in(file)
            middle = (low + high) // 2
            halves = [(low, middle), (middle + 1, high)] if low < high else [(low, high)]
            cuts = [WindowsBetween(self.part.window, *half) for half in halves]
            smaller = self.distributed(file.tables(), cuts, halves, level=0)
        else:
            divide: Divide = whole_contexts
            if file.distances is not None:
                divide = WindowsBetween(self.part.window, *file.distances)
            smaller = self.distributed(file.tables(), [divide], [file.distances], level=file.level + 1)
        file.remove()
        return smaller

    def distances_in(self, file: ContextFile) -> tuple[int, int]:
        """Return the least and the largest distance of a window to its anchor."""
        low, high = self.part.window, 0
        for table in file.tables():
            low = min(low, int(table.column("nearest").to_numpy().min()))
            high = max(high, int(table.column("farthest").to_numpy().max()))
        return low, high

    def distributed(
        self,
        tables: Iterable[pa.Table],
        divisions: Sequence[Divide],
        distances: Sequence[tuple[int, int] | None],
        *,
        level: int,
    ) -> list[ContextFile]:
        """Write what each division returns of some contexts to FILES files; return those that have contexts."""
        divided = [[ContextFile(self.new_path(), each, level) for _ in range(FILES)] for each in distances]
        salt = hash_ids(np.array([level], np.uint64))
        for table in tables:
            for divide, files in zip(divisions, divided, strict=True):
                rows, numbers = divide(table)
                places = hash_ids(numbers ^ salt) % np.uint64(FILES)
                for place in np.unique(places).tolist():
                    chosen = np.flatnonzero(places == place)
                    files[place].write(rows.take(pa.array(chosen)), numbers[chosen])
        written = [file for files in divided for file in files if file.writer is not None]
        for file in written:
            file.close()
        return written


def whole_contexts(contexts: pa.Table) -> tuple[pa.Table, Ids]:
    """Return contexts with CUT_KEYS, and their fingerprints."""
    if CUT_KEYS[0] not in contexts.column_names:
        for name, column in zip(CUT_KEYS, ("high", "low"), strict=True):
            contexts = contexts.append_column(name, contexts.column(column))
    return contexts, contexts.column("fingerprint").to_numpy()


@dataclass(frozen=True)
class WindowsBetween:
    """Return the parts of contexts with the windows at some distances, and the hashes of their cores."""

    length: int
    low: int
    high: int

    def __call__(self, contexts: pa.Table) -> tuple[pa.Table, Ids]:
        nearest, farthest = (contexts.column(name).to_numpy() for name in ("nearest", "farthest"))
        contexts = contexts.filter(pa.array((nearest <= self.high) & (farthest >= self.low))).combine_chunks()
        if not len(contexts):
            return contexts, np.empty(0, np.uint64)
        nearest, farthest = (
            contexts.column(name).to_numpy().astype(np.int64) for name in ("nearest", "farthest")
        )
        ranges = np.stack([np.maximum(nearest, self.low), np.minimum(farthest, self.high)], axis=1)
        data, firsts, sizes = bytes_of(contexts, "units")
        cut = cut_contexts(
            data, firsts, sizes // (farthest - nearest + self.length), farthest, ranges,
            length=self.length, low=self.low, high=self.high,
        )  # fmt: skip
        columns = {
            "nearest": ranges[:, 0].astype(np.uint32),
            "farthest": ranges[:, 1].astype(np.uint32),
            "units": as_binary(cut.data, cut.ends),
            "starts": cut_starts(contexts, farthest, ranges),
            CUT_KEYS[0]: cut.keys[:, 0],
            CUT_KEYS[1]: cut.keys[:, 1],
        }
        for name, values in columns.items():
            contexts = contexts.set_column(contexts.schema.get_field_index(name), name, pa.array(values))
        return contexts, cut.cores


def cut_starts(contexts: pa.Table, farthest: Places, ranges: Places) -> pa.LargeBinaryArray:
    """Return the code points before the windows at some distances; empty for characters. ranges: (n, 2)."""
    data, firsts, sizes = bytes_of(contexts, "starts")
    counts = np.where(sizes > 0, ranges[:, 1] - ranges[:, 0] + 1, 0)
    ends = np.concatenate([[0], np.cumsum(counts)])
    begins = firsts // 4 + farthest - ranges[:, 1]
    places = np.repeat(begins - ends[:-1], counts) + np.arange(ends[-1])
    return as_binary(data[: len(data) // 4 * 4].view(np.uint32)[places], ends * 4)
