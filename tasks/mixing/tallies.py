"""Count the chosen documents of each part, and their tokens by ranges of draws.

Each job counts a group of files. Then groups of counts are added until a single table is left, so that no task
reads the counts of all files.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.mixing.choosing import CHOSEN
from zyda_flows.tasks.mixing.mixture import Mixture
from zyda_flows.tasks.stage.jobs import ArtifactJob
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import parquet_writer, read_table, tables_of, write_artifact

VERSION = 1
FILES_TOGETHER = 64  # files that a job reads, one after another
BIN_BITS = 14  # first bits of a draw: one document in 16,384 is read to find the last of a fraction
BINS = 1 << BIN_BITS
COPIES = 256  # numbers of copies in an epoch, which are uint8
COUNTS = (
    "documents", "tokens", "repeated", "held_out", "held_out_tokens", "unused", "special_documents",
    "special_tokens",
)  # fmt: skip
# A matrix with a row for each part. Its columns are the COUNTS, the tokens of each bin of draws, and the tokens of
# documents by their copies in an epoch, each once and at least 1. Zeros are left out.
COLUMNS = len(COUNTS) + BINS + COPIES
TALLY = pa.schema([("part", pa.uint16()), ("column", pa.uint16()), ("count", pa.int64())])
Matrix = NDArray[np.int64]
Item = TypeVar("Item")


class PartTally(Record):
    """The documents of a part, and the tokens of one epoch, of which `repeated` are in further copies.

    unused: documents without copies, because other documents of their cluster have all of them. special_documents,
    special_tokens: documents, with those held out, whose text contains special tokens, and the number of these.
    """

    name: str
    documents: int = 0
    tokens: int = 0
    repeated: int = 0
    held_out: int = 0
    held_out_tokens: int = 0
    unused: int = 0
    special_documents: int = 0
    special_tokens: int = 0

    @property
    def unique(self) -> int:
        """The tokens of one epoch, with each document once."""
        return self.tokens - self.repeated


@dataclass(frozen=True)
class Tallies:
    """The sums over all files.

    bins: tokens by part and bin of draws, (parts, BINS) int64. copies: tokens of training documents, each once, by
    part and number of copies in an epoch, (parts, COPIES) int64.
    """

    parts: tuple[PartTally, ...]
    bins: Matrix
    copies: Matrix


@dataclass(frozen=True)
class TallyJob(ArtifactJob):
    """Add up the counts of some artifacts: TALLY. parts: number of parts. number: of the job."""

    stage, version = "tallies", VERSION

    artifacts: tuple[Artifact, ...]
    parts: int
    number: int

    @property
    def name(self) -> str:
        return f"{self.number:05d}"

    @abstractmethod
    def add(self, matrix: Matrix, artifact: Artifact) -> None:
        """Add the counts of an artifact to the matrix."""

    def make(self) -> Artifact:
        matrix = np.zeros((self.parts, COLUMNS), np.int64)
        for artifact in self.artifacts:
            self.add(matrix, artifact)

        def fill(scratch: Path) -> None:
            with parquet_writer(scratch, TALLY) as writer:
                for part, row in enumerate(matrix):
                    columns = np.flatnonzero(row)
                    rows = [np.full(len(columns), part, np.uint16), columns.astype(np.uint16), row[columns]]
                    writer.write_table(pa.table([*map(pa.array, rows)], schema=TALLY))

        return write_artifact(self.folder, self.path, self.name, fill)


@dataclass(frozen=True)
class TallyOfFiles(TallyJob):
    """Count the chosen documents of some files. around: number of tokens that are added around each document."""

    around: int

    def add(self, matrix: Matrix, artifact: Artifact) -> None:
        table = read_table(self.folder, artifact)
        part, copies, is_held_out, draw, n_tokens, n_special = (
            table.column(name).to_numpy() for name in CHOSEN.names[1:]
        )
        copies, lengths = copies.astype(np.int64), n_tokens.astype(np.int64) + self.around
        is_used = copies > 0
        in_training, is_special = is_used & ~is_held_out, is_used & (n_special > 0)
        tokens = np.where(is_held_out, 0, copies * lengths)
        values = {
            "documents": in_training,
            "tokens": tokens,
            "repeated": np.where(in_training, (copies - 1) * lengths, 0),
            "held_out": is_held_out,
            "held_out_tokens": np.where(is_held_out, copies * lengths, 0),
            "unused": ~is_used,
            "special_documents": is_special,
            "special_tokens": np.where(is_used, n_special, 0),
        }
        for column, name in enumerate(COUNTS):
            np.add.at(matrix[:, column], part, values[name].astype(np.int64))
        np.add.at(matrix, (part, bins_of(draw) + len(COUNTS)), tokens)
        np.add.at(
            matrix, (part, copies + len(COUNTS) + BINS), np.where(in_training, np.maximum(lengths, 1), 0)
        )


@dataclass(frozen=True)
class SumOfTallies(TallyJob):
    """Add up some tallies."""

    def add(self, matrix: Matrix, artifact: Artifact) -> None:
        for table in tables_of(self.folder, artifact):
            part, column, count = (values.to_numpy() for values in table.columns)
            matrix[part, column] += count


@dataclass(frozen=True)
class DocumentsInBins:
    """Read the training documents of some files in the given bin of each part: CHOSEN."""

    folder: Folder
    chosen: tuple[Artifact, ...]
    bins: tuple[tuple[int, int], ...]

    def __call__(self) -> pa.Table:
        wanted = np.full(1 << 16, BINS, np.int64)
        for number, place in self.bins:
            wanted[number] = place
        return pa.concat_tables([self.documents(artifact, wanted) for artifact in self.chosen])

    def documents(self, artifact: Artifact, wanted: NDArray[np.int64]) -> pa.Table:
        table = read_table(self.folder, artifact)
        part, draw = table.column("part").to_numpy(), table.column("draw").to_numpy()
        is_in = (wanted[part] == bins_of(draw)) & ~table.column("is_held_out").to_numpy()
        return table.filter(pa.array(is_in))


def bins_of(draw: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the bin of each draw: its first bits, (n,) to (n,)."""
    return (draw >> np.uint64(64 - BIN_BITS)).astype(np.int64)


def together(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """Group FILES_TOGETHER neighbouring items."""
    return [tuple(items[at : at + FILES_TOGETHER]) for at in range(0, len(items), FILES_TOGETHER)]


def tallies_in(folder: Folder, mixture: Mixture, tally: Artifact) -> Tallies:
    """Read the tally of all files."""
    matrix = np.zeros((len(mixture.parts), COLUMNS), np.int64)
    for table in tables_of(folder, tally):
        part, column, count = (values.to_numpy() for values in table.columns)
        matrix[part, column] = count
    parts = (
        PartTally(name=part.name, **dict(zip(COUNTS, row, strict=True)))
        for part, row in zip(mixture.parts, matrix[:, : len(COUNTS)].tolist(), strict=True)
    )
    bins, copies = np.split(matrix[:, len(COUNTS) :], [BINS], axis=1)
    return Tallies(tuple(parts), bins, copies)
