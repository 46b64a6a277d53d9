"""`zyda params`: which bands and rows suit a threshold: a table and the S-curve, also as a picture."""

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
    from zyda_flows.tasks.planning.bandings import SourceTaken, Tried
    from zyda_flows.tasks.signatures.banding import Banding

EXAMPLES = (
    "zyda params --threshold 0.85",
    "zyda params --fp-weight 2",
    "zyda params recipe.yaml --try 0.4,0.6,0.85",
    "zyda params --values 256 --picture curve.svg",
)
SHOWN = 5
MOST = 20  # thresholds that are tried at once
POINTS = 21
BAR = 40  # characters of a bar for certainty


def params(
    recipe_path: SomeRecipePath = None,
    try_: Annotated[
        str | None,
        typer.Option(
            "--try", metavar="A,B", help="Of the corpus of RECIPE: what would go at each of these thresholds."
        ),
    ] = None,
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
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Find the bands and rows that err least for a similarity, and show how many pairs they find.

    More values err less, and take as much more time and room.

    With a recipe and --try, deduplication is tried on its corpus at several thresholds: what each takes of each
    source, and how many of the pairs are less alike. The corpus stays as it is published. Its texts are read once
    for all of them, from where ingest has put them, and those of the pairs once more.
    """
    if recipe_path or try_ is not None:
        if not recipe_path or try_ is None:
            raise Denied("to try thresholds on a corpus, give its RECIPE and --try 0.4,0.6; else neither")
        try_bandings(recipe_path, thresholds_in(try_), storage, sample)
        return
    import numpy as np  # late
    from rich.table import Table  # late

    from zyda_flows.tasks.signatures.banding import bandings  # late

    if not all(map(isfinite, (fp_weight, fn_weight))):
        raise Denied("--fp-weight, --fn-weight: expected finite numbers")
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
    at = float(best.found(np.array([threshold]))[0])
    out.print(
        f"{best.bands} bands of {best.rows} rows find {at:.1%} of the pairs at exactly {threshold:g}, "
        f"{best.recall:.1%} of all from there on. To find more at {threshold:g}, and more below it, give "
        "--fn-weight 5, or a lower --threshold.\n",
        soft_wrap=True,
    )
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


def thresholds_in(text: str) -> list[float]:
    """Read `0.4,0.6`. Raises Denied."""
    try:
        thresholds = [float(one) for one in text.split(",")]
    except ValueError:
        thresholds = []
    if not (thresholds and all(0 < one < 1 for one in thresholds) and len(thresholds) <= MOST):
        raise Denied(f"--try {text}: expected up to {MOST} numbers between 0 and 1, as 0.4,0.6,0.85")
    return thresholds


def try_bandings(
    recipe_path: str, thresholds: list[float], storage: str | None, sample: float | None
) -> None:
    """Try several thresholds on a corpus, and print what each takes."""
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus  # late
    from zyda_flows.tasks.recipe.rounds import round_to_try  # late

    round_to_try(recipe)
    PublishedCorpus.of(recipe)  # raises Denied
    with prefect_and_cluster(recipe, "zyda_flows.flows.bandings", lambda: None, "bandings") as runner:
        from zyda_flows.flows.bandings import try_bandings as flow  # late

        with console(stderr=True).status("trying"):
            found = flow.with_options(task_runner=runner)(recipe_path, thresholds, storage, sample)
    out = console()
    of_sources: list[tuple[str, Sequence[SourceTaken | Tried]]] = [
        (one.source, [banding.sources[i] for banding in found.tried])
        for i, one in enumerate(found.tried[0].sources)
    ]
    for unit in ("documents", "tokens"):
        columns = [f"{one.threshold:g} ({one.bands} x {one.rows})" for one in found.tried]
        table = table_of("source", *columns, words=("source",), title=f"{unit.capitalize()} that would go")
        for name, counts in [*of_sources, ("all", list(found.tried))]:
            parts = [(getattr(of.removed, unit), getattr(of.entering, unit)) for of in counts]
            table.add_row(name, *(f"{gone:,} ({gone / max(1, whole):.1%})" for gone, whole in parts))
        out.print(table)
    table = table_of("threshold", "pairs compared", "less alike", "share", words=(), title="False positives")
    for one in found.tried:
        share = f"{one.below / one.pairs:.1%}" if one.pairs else ""
        table.add_row(f"{one.threshold:g}", f"{one.pairs:,}", f"{one.below:,}", share)
    out.print(table)
    out.print(
        "Pairs: a sample of the documents that would go, each with that one of those that would stay that is most "
        "like it; less alike than the threshold, by their texts.", soft_wrap=True
    )  # fmt: skip


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
    from zyda_flows.flows.reporting.plots import s_curve  # late

    try:
        path.write_text(s_curve(banding), encoding="utf-8")
    except OSError as error:
        raise Denied(f"{path}: the picture cannot be written: {error.strerror or error}") from error
