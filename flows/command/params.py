"""`zyda params`: compute bands and rows for a threshold; print a table and the S-curve, or draw the curve."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import Sample, SomeRecipePath, Storage, load
from zyda_flows.flows.command.build import prefect_and_cluster
from zyda_flows.flows.command.terminal import console, table_of
from zyda_flows.tasks.errors import Denied

if TYPE_CHECKING:
    from zyda_flows.tasks.planning.bandings import BandingResult, SourceRemovals
    from zyda_flows.tasks.signatures.banding import Banding

EXAMPLES = (
    "zyda params --threshold 0.85",
    "zyda params --fp-weight 2",
    "zyda params recipe.yaml --try 0.4,0.6,0.85",
    "zyda params --values 256 --picture curve.svg",
)
MOST_BANDINGS = 5
MOST_THRESHOLDS = 20  # thresholds of a trial
CURVE_POINTS = 21
BAR_WIDTH = 40  # characters of a bar of 100 %


def params(
    recipe_path: SomeRecipePath = None,
    try_thresholds: Annotated[
        str | None,
        typer.Option(
            "--try",
            metavar="A,B",
            help=f"At most {MOST_THRESHOLDS} thresholds at which to count the removals from the corpus of RECIPE.",
        ),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=0.99,
            metavar="NUMBER",
            help="Smallest Jaccard similarity of the pairs that should be found.",
        ),
    ] = 0.8,
    values: Annotated[
        int, typer.Option(min=2, max=1024, metavar="N", help="Largest number of values in a signature.")
    ] = 128,
    fp_weight: Annotated[
        float, typer.Option(min=0, metavar="NUMBER", help="Weight of a false positive.")
    ] = 1.0,
    fn_weight: Annotated[
        float, typer.Option(min=0, metavar="NUMBER", help="Weight of a false negative.")
    ] = 1.0,
    picture: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the curve of the share of found pairs by similarity to this SVG file."
        ),
    ] = None,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Compute the bands and rows with the fewest errors for a similarity threshold, and print their recall.

    Errors are pairs below the threshold that share a bucket (false positives), and pairs above it that share none
    (false negatives). A signature with more values has fewer errors, but takes proportionally more time and
    storage.

    With RECIPE and --try, the command deduplicates a corpus that is already built at several thresholds. For each
    threshold it prints the documents and tokens that would be removed from each source. It compares the texts of
    a sample of these documents with the kept documents, and prints the share that is less similar than the
    threshold. The published corpus is not changed.
    """
    if recipe_path or try_thresholds is not None:
        if not recipe_path or try_thresholds is None:
            raise Denied("expected both RECIPE and --try 0.4,0.6, or neither")
        try_bandings(recipe_path, thresholds_in(try_thresholds), storage, sample)
        return
    import numpy as np  # late
    from rich.table import Table  # late

    from zyda_flows.tasks.signatures.banding import bandings  # late

    if not all(map(isfinite, (fp_weight, fn_weight))):
        raise Denied(f"--fp-weight {fp_weight:g} --fn-weight {fn_weight:g}: expected finite weights")
    if not (fp_weight or fn_weight):
        raise Denied("--fp-weight 0 --fn-weight 0: expected a weight above 0")
    best, *alternatives = bandings(threshold, values, fp_weight, fn_weight)[:MOST_BANDINGS]
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
    at = float(best.find_probability(np.array([threshold]))[0])
    out.print(
        f"{best.bands} bands of {best.rows} rows find {at:.1%} of the pairs at a similarity of {threshold:g}, "
        f"and {best.recall:.1%} of all pairs from there on. To find more pairs at and below {threshold:g}, use "
        "--fn-weight 5, or a lower --threshold.\n",
        soft_wrap=True,
    )
    out.print(table)
    out.print(
        "Recall: share of the pairs from the threshold on that share a bucket. False positives: pairs below the\n"
        "threshold that share a bucket. False negatives: pairs above it that share none. Both are shares of all\n"
        "pairs. Similarities are assumed to be distributed evenly from 0 to 1.\n"
    )
    out.print(f"Share of pairs that {best.bands} bands of {best.rows} rows find, by similarity:\n")
    for line in curve(best):
        out.print(line, markup=False)
    out.print(f"\ndedup: {{bands: {best.bands}, rows: {best.rows}}}", markup=False)
    if picture:
        draw(best, Path(picture))
        out.print(f"drawn: {picture}", markup=False)


def thresholds_in(text: str) -> list[float]:
    """Parse thresholds such as `0.4,0.6`. Raises Denied."""
    try:
        thresholds = [float(number) for number in text.split(",")]
    except ValueError:
        thresholds = []
    if not (
        thresholds
        and all(0 < threshold < 1 for threshold in thresholds)
        and len(thresholds) <= MOST_THRESHOLDS
    ):
        raise Denied(
            f"--try {text}: expected up to {MOST_THRESHOLDS} numbers between 0 and 1, for example 0.4,0.6,0.85"
        )
    return thresholds


def try_bandings(
    recipe_path: str, thresholds: list[float], storage: str | None, sample: float | None
) -> None:
    """Try several thresholds on a corpus, and print the removals of each."""
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late
    from zyda_flows.tasks.recipe.rounds import round_to_try  # late

    round_to_try(recipe)
    PublishedCorpus.of(recipe)  # raises Denied
    with prefect_and_cluster(recipe, "zyda_flows.flows.bandings", lambda: None, "bandings") as runner:
        from zyda_flows.flows.bandings import try_bandings as flow  # late

        with console(stderr=True).status("trying"):
            tried = flow.with_options(task_runner=runner)(recipe_path, thresholds, storage, sample).tried
    out = console()
    by_source: list[tuple[str, Sequence[SourceRemovals | BandingResult]]] = [
        (taken.source, [banding.sources[i] for banding in tried]) for i, taken in enumerate(tried[0].sources)
    ]
    for unit in ("documents", "tokens"):
        columns = [f"{banding.threshold:g} ({banding.bands} x {banding.rows})" for banding in tried]
        table = table_of(
            "source", *columns, words=("source",), title=f"Removed {unit}, by threshold (bands x rows)"
        )
        for name, bandings in [*by_source, ("all", list(tried))]:
            parts = [(getattr(taken.removed, unit), getattr(taken.entering, unit)) for taken in bandings]
            table.add_row(name, *(f"{removed:,} ({removed / max(1, total):.1%})" for removed, total in parts))
        out.print(table)
    table = table_of(
        "threshold", "pairs compared", "below the threshold", "share", words=(), title="False positives"
    )
    for banding in tried:
        share = f"{banding.below / banding.pairs:.1%}" if banding.pairs else ""
        table.add_row(f"{banding.threshold:g}", f"{banding.pairs:,}", f"{banding.below:,}", share)
    out.print(table)
    out.print(
        "Pairs: a sample of removed documents, each with the most similar kept document, compared by their "
        "texts.", soft_wrap=True
    )  # fmt: skip


def shares_of(banding: "Banding") -> tuple[float, ...]:
    """Return recall, false positives and false negatives, in the order of the table."""
    return banding.recall, banding.false_positives, banding.false_negatives


def curve(banding: "Banding") -> list[str]:
    """Return the S-curve as lines with bars, with a mark at the threshold."""
    import numpy as np  # late

    lines, points = [], np.linspace(0, 1, CURVE_POINTS)
    for similarity, share in zip(points, banding.find_probability(points), strict=True):
        mark = " <- threshold" if abs(similarity - banding.threshold) < 0.5 * points[1] else ""
        lines.append(f"  {similarity:.2f} {'█' * round(BAR_WIDTH * share):{BAR_WIDTH}} {share:6.1%}{mark}")
    return lines


def draw(banding: "Banding", path: Path) -> None:
    """Write the S-curve as SVG. Raises Denied if the file cannot be written."""
    from zyda_flows.flows.reporting.audit_plots import s_curve  # late

    try:
        path.write_text(s_curve(banding), encoding="utf-8")
    except OSError as error:
        raise Denied(f"{path}: the picture cannot be written: {error.strerror or error}") from error
