"""`zyda trace`: from a position in a mixture back to the document that is there."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.errors import BadInput, ZydaError

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.gathering import Output
    from zyda_flows.tasks.mixing.tracing import Found, Trace

    Range = tuple[Output, int, int]  # of tokens of a file: the first, and the one after the last

EXAMPLES = (
    "zyda trace MIX 123456",
    "zyda trace MIX 17 --by sequence --file train-00000",
    "zyda trace MIX 0 --to 8192 --sources",
    "zyda trace MIX 9 --by step --cache C --batch 1024",
)
BYS = ("token", "sequence", "sample", "step")
MOST_ROWS = 1000
MOST_CHARACTERS = 2000


def trace_(
    mixture: Annotated[
        str,
        typer.Argument(metavar="MIX", help="The mixture's YAML file, or its folder, or that of a version."),
    ],
    position: Annotated[int, typer.Argument(min=0, metavar="POSITION", help="Counted from 0.")],
    by: Annotated[
        str, typer.Option(help="What is counted: token, sequence, or a trainer's sample or step.")
    ] = "token",
    file: Annotated[
        str | None,
        typer.Option(help="Count in this file, train-00000 say; without, in all of them in order."),
    ] = None,
    to: Annotated[
        int | None,
        typer.Option(metavar="POSITION", help="A range: up to this position, which is no part of it."),
    ] = None,
    cache: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Of samples and steps: Megatron's --data-cache-path.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Of steps: the samples of one.")] = 1,
    sources: Annotated[
        bool, typer.Option("--sources", help="Of a range: add up by part and source.")
    ] = False,
) -> None:
    """Say which document is at a position of a mixture: its source, file and row, which copy it is, and its text.

    Of a range, such as a batch, it is a table of all documents, or what the range is made of.
    """
    from zyda_flows.tasks.mixing.mixture import load_mixture  # late
    from zyda_flows.tasks.mixing.tracing import Trace  # late
    from zyda_flows.tasks.storage.folder import absolute  # late

    if by not in BYS:
        raise BadInput(f"--by {by}: expected {', '.join(BYS)}")
    if (by in {"sample", "step"}) != (cache is not None):
        raise BadInput("--cache is the folder of Megatron's index files, for --by sample and --by step")
    if to is not None and to <= position:
        raise BadInput(f"--to {to}: expected more than {position}")
    is_file = mixture.endswith((".yaml", ".yml"))
    found = Trace.at(load_mixture(mixture).folder.url if is_file else absolute(mixture))
    if to is None and by == "token" and not sources:
        output, at = found.output(file, position)
        print_piece(found, next(found.pieces(output, at, at + 1), None), at)
        return
    end = position + 1 if to is None else to
    samples_of_one = batch if by == "step" else 1
    ranges = list(
        ranges_of(found, file, by, position, end)
        if cache is None
        else ranges_of_samples(found, cache, position * samples_of_one, end * samples_of_one)
    )
    if sources:
        print_composition(found, ranges)
    else:
        print_pieces(found, ranges)


def ranges_of(found: "Trace", file: str | None, by: str, position: int, to: int) -> "Iterator[Range]":
    """Yield a range of positions as ranges of the tokens of files."""
    if by == "sequence":
        for sequence in range(position, to):
            output, first, end = found.by_sequence(file, sequence)
            yield output, first, end
        return
    output, first = found.output(file, position)
    last_output, last = found.output(file, to - 1)
    for one in found.outputs[found.outputs.index(output) : found.outputs.index(last_output) + 1]:
        yield one, first if one is output else 0, last + 1 if one is last_output else one.tokens


def ranges_of_samples(found: "Trace", cache: str, first: int, end: int) -> "Iterator[Range]":
    """Yield a range of a trainer's samples as ranges of the tokens of files."""
    from zyda_flows.tasks.mixing.steps import Samples  # late

    samples = Samples(cache)
    for sample in range(first, end):
        yield from found.of_sample(samples, sample)


def print_piece(found: "Trace", piece: "Found | None", at: int) -> None:
    """Print all that is known of the document at a token."""
    from rich.text import Text  # late

    out = console(soft_wrap=True)
    if piece is None:
        say("that token fills a sequence, and is of no document")
        return
    try:
        piece = found.with_text(piece)
    except ZydaError as error:
        say(str(error))
    of_files = f" of {', '.join(piece.files)}" if piece.files and "://" not in (piece.file or "") else ""
    place = f"file {piece.file}{of_files}, row {piece.row}" if piece.file else "its file is not known"
    out.print(f"document {piece.doc_id} of {piece.corpus}: source {piece.source}, {place}", markup=False)
    out.print(
        f"part {piece.part}, copy {piece.copy_number + 1}, token {piece.offset + at - piece.start:,} of it",
        markup=False,
    )
    last = piece.start + piece.tokens - 1
    out.print(
        f"{found.folder.url}, file {piece.output}: sequence {piece.sequence:,}, tokens {piece.start:,} to {last:,}",
        markup=False,
    )
    if piece.text is not None:
        more = (
            f" ... {len(piece.text) - MOST_CHARACTERS:,} characters more"
            if len(piece.text) > MOST_CHARACTERS
            else ""
        )
        out.print(Text(piece.text[:MOST_CHARACTERS] + more))


def print_pieces(found: "Trace", ranges: "list[Range]") -> None:
    """Print a table of the documents in some ranges."""
    columns = ("file", "token", "tokens", "sequence", "doc_id", "corpus", "source", "part", "copy")
    table = table_of(*columns, words=["file", "corpus", "source", "part"])
    pieces = (piece for output, first, end in ranges for piece in found.pieces(output, first, end))
    for piece in islice(pieces, MOST_ROWS):
        table.add_row(
            piece.output, f"{piece.start:,}", f"{piece.tokens:,}", f"{piece.sequence:,}", str(piece.doc_id),
            piece.corpus, piece.source, piece.part, str(piece.copy_number + 1),
        )  # fmt: skip
    if not table.row_count:
        say("these tokens fill sequences, and are of no document")
        return
    console().print(table)
    if next(pieces, None):
        say(f"and more; only the first {MOST_ROWS:,} are shown")


def print_composition(found: "Trace", ranges: "list[Range]") -> None:
    """Print what some ranges are made of."""
    sums = dict[tuple[str, str], list[int]]()
    for output, first, end in ranges:
        for of, counts in found.composition(output, first, end).items():
            sums[of] = [a + b for a, b in zip(sums.get(of, [0, 0]), counts, strict=True)]
    total = max(1, sum(tokens for _, tokens in sums.values()))
    table = table_of("part", "source", "documents", "tokens", "share", words=["part", "source"])
    for (part, source), (documents, tokens) in sorted(sums.items()):
        table.add_row(part, source, f"{documents:,}", f"{tokens:,}", f"{tokens / total:.2%}")
    console().print(table)
