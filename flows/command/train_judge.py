"""`zyda train-judge`: train a cheap judge from scored documents, or from an expensive judge."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.errors import BadRequest

EXAMPLES = (
    "zyda train-judge edu scored.jsonl --target edu=score",
    "zyda train-judge edu out/corpus --judge edu=models/large",
)


def train_judge(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The new folder of the judge.")],
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="DOCUMENTS...",
            help="Files or patterns of documents, in any format of sources; or the folder of a published corpus.",
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COLUMN",
            help="A column of numbers or labels. The judge is trained for the first; it is measured against all.",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=MODEL",
            help="A model of any form of `judges:`, which judges the sample; its answers are the first target.",
        ),
    ] = None,
    form: Annotated[
        Literal["fasttext", "luxical", "pooled"] | None,
        typer.Option(help="The form of the judge. Default: pooled with --tokenizer, else fasttext."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A tokenizer.json or a hub name, not for fasttext. Default: the tokenizer of a published corpus.",
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="For luxical: an encoder of sentences, a folder or a hub name."),
    ] = None,
    text: Annotated[str, typer.Option(metavar="COLUMN", help="The column with the text.")] = "text",
    documents: Annotated[
        int, typer.Option(min=100, metavar="N", help="The size of the sample, drawn by a hash of the texts.")
    ] = 5000,
    repeats: Annotated[
        int,
        typer.Option(min=1, max=10, metavar="N", help="Trainings with other seeds, which show the noise."),
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="The seed of the first training.")] = 0,
    max_tokens: Annotated[
        int, typer.Option(min=8, max=8192, metavar="N", help="Tokens that the model of --judge reads.")
    ] = 1024,
) -> None:
    """Train a cheap judge on a CPU, and write a folder that `judges:` of a recipe can name.

    The scores are columns of the documents (--target), or the answers of an expensive judge on a sample (--judge).

    A fifth of the documents is held out, by clusters of near-duplicates. The card in the folder has the rank
    correlation, the AUC and a curve for each named target, and the noise of repeats. Name two targets or more
    before you compare judges.
    """
    from zyda_flows.tasks.quality.training.card import name_of, text_of  # late
    from zyda_flows.tasks.quality.training.training import Training, train_judge  # late

    err = console(stderr=True)
    training = Training(
        urls=urls,
        targets=[named(each, "--target") for each in target or ()],
        judge=named(judge, "--judge") if judge else None,
        form=form or ("pooled" if tokenizer else "fasttext"),
        tokenizer=tokenizer,
        teacher=teacher,
        text=text,
        documents=documents,
        repeats=repeats,
        seed=seed,
        max_tokens=max_tokens,
    )
    with err.status("reading") as status:
        results = train_judge(
            folder, training, lambda step: status.update(step) if err.is_terminal else err.print(step)
        )
    columns = ("answer", "target", "rank correlation", "AUC", "rank correlation, repeats", "AUC, repeats")
    table = table_of(*columns, words=columns[:2])
    for result in results:
        cells = (
            f"{result.model.spearman:.3f}",
            f"{result.model.auc:.3f}",
            text_of(result.spearman),
            text_of(result.auc),
        )
        table.add_row(result.model.answer, name_of(result), *cells)
    console().print(table)
    say(f"{folder} has the judge of the first training, and its card, README.md")


def named(option: str, flag: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE. Raises BadRequest."""
    name, equals, value = option.partition("=")
    if not (name.isidentifier() and name == name.lower() and equals and value):
        raise BadRequest(
            f"{flag} {option}: expected a name of lower-case letters, digits and _, =, and a value"
        )
    return name, value
