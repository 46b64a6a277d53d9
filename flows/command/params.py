"""`zyda params`: which bands and rows suit a threshold: a table and the S-curve, also as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.command.terminal import console
from tasks.errors import Denied

if TYPE_CHECKING:
    from tasks.signatures.banding import Banding

EXAMPLES = (
    "zyda params --threshold 0.85",
    "zyda params --fp-weight 2",
    "zyda params --values 256 --picture curve.svg",
)
SHOWN = 5
POINTS = 21
BAR = 40  # characters of a bar for certainty


def params(
    threshold: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="The Jaccard similarity from which on pairs are wanted.")
    ] = 0.8,
    values: Annotated[int, typer.Option(min=2, max=1024, help="Values of a signature, at most.")] = 128,
    fp_weight: Annotated[
        float, typer.Option(min=0, help="What a false positive counts, beside a false negative.")
    ] = 1.0,
    fn_weight: Annotated[
        float, typer.Option(min=0, help="What a false negative counts, beside a false positive.")
    ] = 1.0,
    picture: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the curve, as SVG.")] = None,
) -> None:
    """Find the bands and rows that err least for a similarity, and show how many pairs they find.

    More values err less, and take as much more time and room.
    """
    from rich.table import Table  # late

    from tasks.signatures.banding import bandings  # late

    if not (fp_weight or fn_weight):
        raise Denied("--fp-weight 0 --fn-weight 0: one of them has to count")
    best, *alternatives = bandings(threshold, values, fp_weight, fn_weight)[:SHOWN]
    is_weighted = fp_weight != fn_weight
    table = Table(title=f"{values} values, Jaccard {threshold:g}", title_justify="left")
    for name in (
        "bands",
        "rows",
        "values",
        "half found at",
        "recall",
        "false positives",
        "false negatives",
        "weighted sum" if is_weighted else "sum",
    ):
        table.add_column(name, justify="right")
    for banding in (best, *alternatives):
        table.add_row(
            *map(str, (banding.bands, banding.rows, banding.bands * banding.rows)), f"{banding.half:.3f}",
            *(f"{share:.1%}" for share in (*shares_of(banding), banding.errors(fp_weight, fn_weight))),
        )  # fmt: skip
    out = console()
    out.print(table)
    out.print(
        "Recall: of the pairs from the threshold on, those that share a bucket. False positives: pairs below it\n"
        "that share one; false negatives: pairs above it that share none; of all pairs, and all of pairs whose\n"
        "similarities are spread evenly from 0 to 1.\n"
    )
    out.print(f"Pairs that {best.bands} bands of {best.rows} rows find, by their similarity:\n")
    for line in curve(best):
        out.print(line, markup=False)
    out.print(f"\ndedup: {{bands: {best.bands}, rows: {best.rows}}}", markup=False)
    if picture:
        draw(best, Path(picture))
        out.print(f"drawn: {picture}", markup=False)


def shares_of(banding: "Banding") -> tuple[float, ...]:
    """Return the shares of a banding that the table has, in its order, without their sum."""
    return banding.recall, banding.false_positives, banding.false_negatives


def curve(banding: "Banding") -> list[str]:
    """Write the S-curve as bars of characters, with the threshold marked."""
    import numpy as np  # late

    lines, points = [], np.linspace(0, 1, POINTS)
    for similarity, share in zip(points, banding.found(points), strict=True):
        mark = " <- threshold" if abs(similarity - banding.threshold) < 0.5 * points[1] else ""
        lines.append(f"  {similarity:.2f} {'█' * round(BAR * share):{BAR}} {share:6.1%}{mark}")
    return lines


def draw(banding: "Banding", path: Path) -> None:
    """Draw the S-curve as SVG. Raises Denied where it cannot be written."""
    from flows.reporting.plots import s_curve  # late

    try:
        path.write_text(s_curve(banding), encoding="utf-8")
    except OSError as error:
        raise Denied(f"{path}: the picture cannot be written: {error.strerror or error}") from error
