"""The pieces of files that a trial reads, and the part of each piece."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from zyda_flows.tasks.ingest.file_pieces import (
    IngestedPiece,
    PieceToIngest,
    ingest_chunks,
    read_piece,
    with_engine,
)
from zyda_flows.tasks.sources.file_rows import Chunk, RowTally
from zyda_flows.tasks.sources.formats.parquet import FOOTER_AT_ONCE
from zyda_flows.tasks.sources.input_files import FilePiece, InputFile
from zyda_flows.tasks.tokens.engine import TokenEngine

PART_SECONDS = 4.0  # the time after which the part of a piece ends, even without enough text
TEXT_OF_BYTE = 2.5  # bytes of text in a byte of Parquet, approximately
SIZES = (
    0.25,
    3,
)  # multiples of a part's text, to separate constant costs from costs that grow with the text


@dataclass
class PartRead:
    """The part of a piece of a file to read.

    size: of the file. most: bytes of text to read from files without row groups. group_share: the share of the
    file's row groups, 0 for none. rows: the number of rows read. finished: the share of the begun rows that were
    read.
    """

    size: int
    most: float
    group_share: float
    rows: int = 0
    is_whole: bool = True
    finished: float = 1.0

    @property
    def has_footer(self) -> bool:
        return self.group_share > 0

    def chunks(self, job: "PartOfPiece", tally: RowTally) -> Iterator[Chunk]:
        """Yield the chunks of a piece until there is enough text, or for some seconds. tally: of the rows read."""
        text, seen, until = job.parameters.text, 0, time.monotonic() + PART_SECONDS
        for chunk in read_piece(job, tally):
            bad = sum(
                not row.is_rest for row in chunk.bad
            )  # the tally counts the row that represents the rest of a file
            self.rows += len(chunk.rows) + bad + len(chunk.blank) + len(chunk.skipped)
            if text in chunk.table.column_names:
                seen += pc.sum(pc.binary_length(chunk.table.column(text))).as_py() or 0
            yield chunk
            if (seen >= self.most and not self.has_footer) or time.monotonic() > until:
                self.is_whole = False
                break
        self.finished = self.rows / max(1, tally.rows) if self.has_footer else 1.0
        tally.rows = self.rows

    def weight(self, inputs: int) -> float:
        """Return the bytes of the file that were read, with its footer, if it has one. inputs: all bytes read."""
        if self.is_whole and self.group_share in {0, 1}:
            return float(self.size)
        if not self.has_footer:
            return float(min(self.size, inputs))
        read = min(self.size, inputs - FOOTER_AT_ONCE)
        # A small file is read in a single request, which includes the footer.
        return (read if read > FOOTER_AT_ONCE else self.size * self.group_share) * self.finished


@dataclass(frozen=True)
class PartOfPiece(PieceToIngest):
    """The ingest of a part of a piece."""

    part: PartRead

    def make(self) -> IngestedPiece:
        def ingest(engine: TokenEngine) -> IngestedPiece:
            self.part.rows, tally = 0, RowTally()
            return ingest_chunks(self, self.part.chunks(self, tally), tally, engine)

        return self.recorded(with_engine(self, ingest))


def with_pieces(pieces: Sequence[tuple[InputFile, FilePiece]]) -> list[InputFile]:
    """Return files with only their chosen pieces, in the order of their URLs."""
    files = {file.url: file for file, _ in pieces}
    return [
        files[url].model_copy(update={"pieces": tuple(piece for file, piece in pieces if file.url == url)})
        for url in sorted(files)
    ]


def groups_in(piece: FilePiece) -> int:
    """Return the number of row groups of a piece, 0 for none."""
    return len(piece.row_groups or ())


def rows_of(file: InputFile) -> int | None:
    """Return the number of rows of a file by its footer; None if unknown."""
    rows = [piece.rows for piece in file.pieces]
    return None if None in rows else sum(row for row in rows if row is not None)


def pieces_to_try(files: Sequence[InputFile], pieces: int, most: int) -> list[tuple[InputFile, FilePiece]]:
    """Choose pieces of a source, from as many of its files as possible, by a hash of their names.

    most: the bytes of text to read from each.
    """
    ranked = sorted(files, key=lambda file: hashlib.sha256(file.name.encode()).digest())
    in_turn = [
        (file, part_of(file, turn + i, most))
        for turn in range(max(len(file.pieces) for file in files))
        for i, file in enumerate(ranked)
        if turn < len(file.pieces)
    ]
    return in_turn[:pieces]


def part_of(file: InputFile, turn: int, most: int) -> FilePiece:
    """Return a different piece of a file for each turn; of its row groups, some from a random place.

    The beginning of a file holds the earliest data, which may differ. The rows of such a piece are numbered from 0.
    """
    piece = file.pieces[(file.seed + turn) % len(file.pieces)]
    if not piece.row_groups:
        return piece
    groups = sum(map(groups_in, file.pieces))
    wanted = max(1, round(most * SIZES[turn % len(SIZES)] / TEXT_OF_BYTE / file.size * groups))
    start = file.seed % len(piece.row_groups)
    in_turn = (*piece.row_groups[start:], *piece.row_groups[:start])
    return piece.model_copy(update={"row_groups": in_turn[:wanted]})
