"""The card of a trained judge, in Markdown: its training, its measures on held-out documents, and curves."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from zyda_flows.tasks.quality.training.measures import Range, Result
from zyda_flows.tasks.quality.training.targets import TargetColumn

ONE_TARGET = (
    "The judge was measured against one target only. Another judge can agree less with this target and more with "
    "another, so name at least two targets before you compare judges."
)
FILES = {"fasttext": "/model.bin"}  # the path of a model in its folder


def lines_of_card(
    folder: Path,
    form: str,
    targets: Sequence[TargetColumn],
    results: Sequence[Result],
    origin: str,
    sizes: tuple[int, int],
    repeats: int,
    left_out: int,
) -> Iterator[str]:
    """Yield the lines of the card.

    origin: of the first target. sizes: the number of trained and of held-out documents. left_out: see `Sample`.
    """
    name, labels = targets[0].name, targets[0].labels
    yield f"# Judge of {name}"
    yield ""
    yield f"Form: {form}. Trained by `zyda train-judge` for {name}, {origin}, with {sizes[0]:,} documents."
    if left_out:
        yield f"{left_out:,} documents of the corpus have no value of a target, and were left out."
    yield f"Labels: {', '.join(labels)}." if labels else "The target is a number."
    yield ""
    yield "```yaml"
    yield "judges:"
    yield f"  - {{name: {name}, model: {folder}{FILES.get(form, '')}}}"
    yield "```"
    yield ""
    yield "## Measures"
    yield ""
    yield (
        f"All figures are of documents that were held out: {sizes[1]:,} for this model. Documents of the same "
        "cluster of near-duplicates are all held out, or all trained on."
    )
    if repeats > 1:
        yield (
            f"The training was repeated {repeats} times, each with another seed and other held-out documents: the "
            "mean is followed by the range in which a further repeat is expected with a probability of 95 %."
        )
    yield "Rank correlation is Spearman's. For a target that is a number, AUC is of the documents above its median."
    yield ""
    yield from ([] if len(targets) > 1 else [ONE_TARGET, ""])
    yield "| answer | target | rank correlation | AUC | rank correlation, repeats | AUC, repeats |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for result in results:
        model = result.model
        cells = f"{model.spearman:.3f} | {model.auc:.3f} | {text_of(result.spearman)} | {text_of(result.auc)}"
        yield f"| {model.answer} | {name_of(result)} | {cells} |"
    for result in results:
        yield ""
        yield f"## Curve of {result.model.answer} against {name_of(result)}"
        yield ""
        yield "| held-out documents | mean answer | mean of the target |"
        yield "| ---: | ---: | ---: |"
        for part in result.model.curve:
            yield f"| {part.documents:,} | {part.answer:.4g} | {part.score:.4g} |"


def name_of(result: Result) -> str:
    """Return the name of a target, with its label."""
    return " = ".join(filter(None, (result.model.target, result.model.label)))


def text_of(values: Range) -> str:
    if values.high == float("inf"):
        return ""
    return f"{values.mean:.3f} ({values.low:.3f} to {values.high:.3f})"
