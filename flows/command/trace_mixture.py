"""`zyda trace`: find the documents at a position or range of positions in a mixture."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.errors import BadInput, ZydaError

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.gathering import Output
    from zyda_flows.tasks.mixing.tracing import MixtureTracer, TracedPiece

    Range = tuple[Output, int, int]  # file, first token, token after the last

EXAMPLES = (
    "zyda trace MIX 123456",
    "zyda trace MIX 17 --by sequence --file train-00000",
    "zyda trace MIX 0 --to 8192 --sources",
    "zyda trace MIX 9 --by step --cache C --batch 1024",
)
UNITS = ("token", "sequence", "sample", "step")  # of positions
MOST_ROWS = 1000
MOST_CHARACTERS = 2000


def trace_mixture(
    mixture: Annotated[
        str,
        typer.Argument(
            metavar="MIX", help="YAML file of the mixture, its folder, or the folder of a version."
        ),
    ],
    position: Annotated[int, typer.Argument(min=0, metavar="POSITION", help="Position, counted from 0.")],
    by: Annotated[
        str,
        typer.Option(metavar="UNIT", help="Unit of POSITION: token, sequence, or Megatron's sample or step."),
    ] = "token",
    file: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Count from the beginning of this file, for example train-00000. If not given, count from "
            "the beginning of the first file.",
        ),
    ] = None,
    to: Annotated[
        int | None,
        typer.Option(metavar="POSITION", help="End of a range, which is not included."),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="With --by sample or step: the folder of Megatron's --data-cache-path."
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="With --by step: the number of samples of a step.")
    ] = 1,
    sources: Annotated[
        bool, typer.Option("--sources", help="Print the totals by part and source instead of the documents.")
    ] = False,
) -> None:
    """Show the document at a position of a mixture: its source, file and row, the number of the copy, and its text.

    For a sequence, a sample, a step, or a range (--to), print a table of its documents. Samples and steps are
    those of a run with Megatron, whose index files --cache names.
    """
    if by not in UNITS:
        raise BadInput(f"--by {by}: expected {', '.join(UNITS)}")
    if (by in {"sample", "step"}) != (cache is not None):
        raise BadInput(
            "expected --cache, the folder of Megatron's index files, with --by sample or --by step, and only then"
        )
    if to is not None and to <= position:
        raise BadInput(f"--to {to}: expected more than {position}")
    if to is None and by == "token" and not sources:
        trace_token(mixture, position, file)
        return
    tracer = open_tracer(mixture)
    end = position + 1 if to is None else to
    step_samples = batch if by == "step" else 1
    ranges = list(
        ranges_of(tracer, file, by, position, end)
        if cache is None
        else ranges_of_samples(tracer, cache, position * step_samples, end * step_samples)
    )
    if sources:
        print_composition(tracer, ranges)
    else:
        print_pieces(tracer, ranges)


def open_tracer(mixture: str) -> "MixtureTracer":
    """Open a mixture by its YAML file, its folder, or the folder of a version."""
    from zyda_flows.tasks.mixing.mixture import load_mixture  # late
    from zyda_flows.tasks.mixing.tracing import MixtureTracer  # late
    from zyda_flows.tasks.storage.folder import absolute  # late

    is_file = mixture.endswith((".yaml", ".yml"))
    return MixtureTracer.at(load_mixture(mixture).folder.url if is_file else absolute(mixture))


def trace_token(mixture: str, position: int, file: str | None = None) -> None:
    """Print the document at a token of a mixture. position: of the token in `file`, or in all files in order."""
    tracer = open_tracer(mixture)
    output, token = tracer.output(file, position)
    print_piece(tracer, next(tracer.pieces(output, token, token + 1), None), token)


def ranges_of(
    tracer: "MixtureTracer", file: str | None, by: str, position: int, to: int
) -> "Iterator[Range]":
    """Yield a range of positions as token ranges of files."""
    if by == "sequence":
        for sequence in range(position, to):
            output, first, end = tracer.by_sequence(file, sequence)
            yield output, first, end
        return
    output, first = tracer.output(file, position)
    last_output, last = tracer.output(file, to - 1)
    for covered in tracer.outputs[tracer.outputs.index(output) : tracer.outputs.index(last_output) + 1]:
        yield (
            covered,
            first if covered is output else 0,
            last + 1 if covered is last_output else covered.tokens,
        )


def ranges_of_samples(tracer: "MixtureTracer", cache: str, first: int, end: int) -> "Iterator[Range]":
    """Yield a range of a trainer's samples as token ranges of files."""
    from zyda_flows.tasks.mixing.steps import Samples  # late

    samples = Samples(cache)
    for sample in range(first, end):
        yield from tracer.sample_pieces(samples, sample)


def print_piece(tracer: "MixtureTracer", piece: "TracedPiece | None", token: int) -> None:
    """Print the origin, the place and the text of the document at a token, whose position in its file is given."""
    from rich.text import Text  # late

    out = console(soft_wrap=True)
    if piece is None:
        say("this token is padding, and belongs to no document")
        return
    try:
        piece = tracer.with_text(piece)
    except ZydaError as error:
        say(str(error))
    containers = f" of {', '.join(piece.files)}" if piece.files and "://" not in (piece.file or "") else ""
    place = f"file {piece.file}{containers}, row {piece.row}" if piece.file else "unknown file"
    out.print(f"document {piece.doc_id} of {piece.corpus}: source {piece.source}, {place}", markup=False)
    out.print(
        f"part {piece.part}, copy {piece.copy_number + 1}, token {piece.offset + token - piece.start:,} of it",
        markup=False,
    )
    last = piece.start + piece.tokens - 1
    tokens = f"sequence {piece.sequence:,}, tokens {piece.start:,} to {last:,}"
    out.print(f"{tracer.folder.url}, file {piece.output}: {tokens}", markup=False)
    if piece.text is not None:
        more = (
            f" ... {len(piece.text) - MOST_CHARACTERS:,} more characters"
            if len(piece.text) > MOST_CHARACTERS
            else ""
        )
        out.print(Text(piece.text[:MOST_CHARACTERS] + more))


def print_pieces(tracer: "MixtureTracer", ranges: "list[Range]") -> None:
    """Print a table of the documents in token ranges."""
    columns = ("file", "token", "tokens", "sequence", "doc_id", "corpus", "source", "part", "copy")
    table = table_of(*columns, words=["file", "corpus", "source", "part"])
    pieces = (piece for output, first, end in ranges for piece in tracer.pieces(output, first, end))
    for piece in islice(pieces, MOST_ROWS):
        table.add_row(
            piece.output, f"{piece.start:,}", f"{piece.tokens:,}", f"{piece.sequence:,}", str(piece.doc_id),
            piece.corpus, piece.source, piece.part, str(piece.copy_number + 1),
        )  # fmt: skip
    if not table.row_count:
        say("these tokens are padding, and belong to no document")
        return
    console().print(table)
    if next(pieces, None):
        say(f"only the first {MOST_ROWS:,} rows are shown")


def print_composition(tracer: "MixtureTracer", ranges: "list[Range]") -> None:
    """Print documents and tokens of token ranges by part and source."""
    sums = dict[tuple[str, str], list[int]]()
    for output, first, end in ranges:
        for origin, counts in tracer.composition(output, first, end).items():
            sums[origin] = [a + b for a, b in zip(sums.get(origin, [0, 0]), counts, strict=True)]
    total = max(1, sum(tokens for _, tokens in sums.values()))
    table = table_of("part", "source", "documents", "tokens", "share", words=["part", "source"])
    for (part, source), (documents, tokens) in sorted(sums.items()):
        table.add_row(part, source, f"{documents:,}", f"{tokens:,}", f"{tokens / total:.2%}")
    console().print(table)
