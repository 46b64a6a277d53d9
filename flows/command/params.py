"""Which bands and rows suit a threshold: a table and the S-curve, in the terminal and as a picture."""

from pathlib import Path

import numpy as np
from rich.table import Table

from flows.command.terminal import console
from tasks.errors import Denied
from tasks.signatures.banding import Banding, bandings

SHOWN = 5
POINTS = np.linspace(0, 1, 21)
BAR = 40  # characters of a bar for certainty


def print_params(threshold: float, values: int, picture: str | None) -> None:
    """Print the best bandings for a threshold, and the curve of the first; draw it where asked."""
    best, *others = bandings(threshold, values)[:SHOWN]
    table = Table(title=f"{values} values, Jaccard {threshold:g}", title_justify="left")
    for name in ("bands", "rows", "values", "half found at", "false positives", "false negatives", "sum"):
        table.add_column(name, justify="right")
    for banding in (best, *others):
        table.add_row(
            *map(str, (banding.bands, banding.rows, banding.bands * banding.rows)), f"{banding.half:.3f}",
            *(f"{share:.1%}" for share in (banding.false_positives, banding.false_negatives, banding.errors)),
        )  # fmt: skip
    out = console()
    out.print(table)
    out.print(
        "False positives: pairs below the threshold that share a bucket; false negatives: pairs above it\n"
        "that share none; both of pairs whose similarities are spread evenly from 0 to 1.\n"
    )
    out.print(f"Pairs that {best.bands} bands of {best.rows} rows find, by their similarity:\n")
    for line in curve(best):
        out.print(line, markup=False)
    out.print(f"\ndedup: {{bands: {best.bands}, rows: {best.rows}}}", markup=False)
    if picture:
        draw(best, Path(picture))
        out.print(f"drawn: {picture}", markup=False)


def curve(banding: Banding) -> list[str]:
    """Write the S-curve as bars of characters, with the threshold marked."""
    lines = []
    for similarity, share in zip(POINTS, banding.found(POINTS), strict=True):
        mark = " <- threshold" if abs(similarity - banding.threshold) < 0.5 * POINTS[1] else ""
        lines.append(f"  {similarity:.2f} {'█' * round(BAR * share):{BAR}} {share:6.1%}{mark}")
    return lines


def draw(banding: Banding, path: Path) -> None:
    """Draw the S-curve as SVG. Raises Denied where it cannot be written."""
    from flows.reporting.plots import s_curve  # matplotlib takes half a second to import

    try:
        path.write_text(s_curve(banding), encoding="utf-8")
    except OSError as error:
        raise Denied(f"{path}: the picture cannot be written: {error.strerror or error}") from error
