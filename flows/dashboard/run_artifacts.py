"""The artifacts of a finished build in Prefect's dashboard: the accounts of the corpus, or its errors."""

from base64 import b64encode
from contextlib import suppress
from typing import Any

import httpx
from prefect import task
from prefect.artifacts import create_markdown_artifact
from prefect.context import FlowRunContext
from prefect.exceptions import PrefectException
from prefect.states import Failed

from zyda_flows.flows.dashboard.artifact_keys import artifact_key, key_of
from zyda_flows.flows.reporting.markdown import LOST, MOST_LOSSES, in_cell, plain, table, unwrap, without_code
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.ledger_summary import large_losses
from zyda_flows.tasks.accounts.published import PUBLISHED
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import ADVICE, ZydaError
from zyda_flows.tasks.lookup.report_data import whole_table
from zyda_flows.tasks.publish.audits import SIMILARITIES, by_source
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD

LONGEST = 1000  # characters of a state's message
RESUME_ADVICE = "What is finished is kept: the next build goes on from there."


@task(task_run_name="accounts", **ONCE_A_BUILD)
def show_ledger(recipe: Recipe, ledger: Ledger) -> None:
    """Show the location of the corpus, the funnel of its tokens, its card, and the results of its audits."""
    corpus = PublishedCorpus.of(recipe)
    # The front matter of the card, which lists folders, is left out.
    text = unwrap(recipe.folder.read(f"{PUBLISHED}/README.md").decode().partition("\n---\n\n")[2])
    losses = "\n".join(f"- {LOST} {sentence}" for sentence in large_losses(ledger)[:MOST_LOSSES])
    parts = [
        f"It is in `{recipe.folder.url}/published`.",
        *([losses] if losses else []),
        funnel(ledger),
        text,
    ]
    parts += audits(corpus)
    shown = without_code("\n\n".join(parts))
    create_markdown_artifact(shown, artifact_key(recipe, "corpus"), "The corpus and its accounts")


@task(task_run_name="report", **ONCE_A_BUILD)
def make_report(recipe: Recipe) -> None:
    """Write the report of the corpus, and show it."""
    from zyda_flows.flows.dashboard.report_artifact import (
        show_report,  # matplotlib takes half a second to import
    )

    show_report(recipe)


def funnel(ledger: Ledger) -> str:
    """Return an image, embedded in Markdown, of the tokens of each source after each stage that removed some."""
    from zyda_flows.flows.reporting import plots  # matplotlib takes half a second to import

    picture = b64encode(plots.funnel(ledger).encode()).decode()
    return f"![Tokens of each source, at the start and after each stage](data:image/svg+xml;base64,{picture})"


def audits(corpus: PublishedCorpus) -> list[str]:
    """Return the results of the build's audits by source: paragraphs and tables."""
    paragraphs = list[str]()
    for place, headline in corpus.manifest.audits.items():
        if not headline.pairs:
            continue
        rows = by_source(whole_table(corpus, place, ["source", headline.measure]), headline)
        below = [f"below {likeness:g}" for likeness in (*SIMILARITIES, round(headline.threshold, 2))]
        lines = [[row.name, f"{row.pairs:,}", *(f"{share:.1%}" for share in row.below)] for row in rows]
        paragraphs.append(f"## Audit of near-duplicates\n\n{headline.sentence()}\n")
        paragraphs.append(table(("source", "pairs", *below), lines))
    return paragraphs


def as_failed(error: ZydaError, path: str, recipe: Recipe | None) -> Any:
    """Show why a build failed and the advice to the user, and return a failed state with the same message.

    path: of the recipe. recipe: None if the recipe is invalid.
    """
    name, place = (recipe.corpus, recipe.folder.url) if recipe else (path.rpartition("/")[2], path)
    where = "".join(f"| {label} | {plain(value)} |\n" for label, value in error.where.items())
    parts = [
        f"# {in_cell(name)} was not built",
        *(f"- {plain(fault)}" for fault in error.faults),
        *([f"| where | |\n|---|---|\n{where}"] if where else []),
        f"**What to do:** {error.advice}",
        RESUME_ADVICE,
    ]
    if FlowRunContext.get():
        with suppress(httpx.HTTPError, PrefectException):  # the state has the same message
            create_markdown_artifact("\n\n".join(parts), key_of(name, "failure", place), "Why it failed")
    message = "; ".join(error.faults)
    return Failed(message=f"{message[:LONGEST]}{ADVICE}{error.advice} {RESUME_ADVICE}", data=error)
