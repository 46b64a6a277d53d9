"""What Prefect's dashboard shows of a build: a table for each stage, and the ledger at the end."""

import re
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from prefect import task
from prefect.artifacts import (
    create_image_artifact,
    create_link_artifact,
    create_markdown_artifact,
    create_table_artifact,
)
from prefect.futures import PrefectFuture

from tasks.accounts.ledger import Ledger
from tasks.accounts.published import Published, corpus_of
from tasks.publish.audits import SIMILARITIES, by_source
from tasks.publish.card import card
from tasks.publish.explain import Corpus
from tasks.publish.findings import whole_table
from tasks.recipe.fields import Recipe
from tasks.stage.task import ONCE_A_BUILD
from tasks.storage.artifacts import Receipt
from tasks.storage.records import digest_of

BAR = 40  # characters of a full bar


def artifact_key(recipe: Recipe, what: str) -> str:
    """Return a name as Prefect wants it, small letters, digits and dashes, that no other corpus has."""
    place = digest_of(recipe.folder.url)[:6]
    return re.sub(r"[^a-z0-9]+", "-", f"{recipe.corpus}-{what}-{place}".lower()).strip("-")


def link_to(url: str) -> str:
    """Write a place as a link: a URL as it is, a path of this machine with its odd characters quoted."""
    return url if "://" in url else Path(url).as_uri()


def finished_and_shown(recipe: Recipe, stage: Sequence[PrefectFuture[Receipt]]) -> list[Receipt]:
    """Wait for a stage of every source and show its table; raise what a source's task raised.

    Raises only when all of the stage's tasks have ended, so that nothing of it runs beside a second try.
    """
    for future in stage:
        future.wait()
    receipts = [future.result() for future in stage]
    if receipts[0].source is None:
        return receipts
    rows = [
        {
            "source": receipt.source,
            "documents": f"{receipt.out.documents:,}",
            "tokens": f"{receipt.out.tokens:,}",
            "bytes": f"{receipt.out.bytes:,}",
            "removed documents": f"{receipt.removed.documents:,}",
            "removed tokens": f"{receipt.removed.tokens:,}",
            "set aside": f"{receipt.set_aside.documents:,}",
        }
        for receipt in receipts
    ]
    name = receipts[0].stage
    create_table_artifact(rows, artifact_key(recipe, name), f"After {name}, by source")
    return receipts


@task(task_run_name="accounts", **ONCE_A_BUILD)
def show_ledger(recipe: Recipe, ledger: Ledger) -> None:
    """Show the corpus's card, the funnel of its tokens, and where it lies."""
    from flows.dashboard import plots  # matplotlib takes half a second to import

    _, manifest = corpus_of(recipe)
    text = card(recipe, manifest).partition("---\n\n")[2]
    create_markdown_artifact(
        f"{text}\n## Tokens after each stage\n\n{funnel_of_characters(ledger)}",
        artifact_key(recipe, "corpus"),
        "The corpus and its accounts",
    )
    show_audit(recipe, manifest)
    picture = b64encode(plots.funnel(ledger).encode()).decode()
    create_image_artifact(
        f"data:image/svg+xml;base64,{picture}", artifact_key(recipe, "funnel"), "Tokens after each stage"
    )
    url = f"{recipe.folder.url}/published"
    create_link_artifact(link_to(url), url, artifact_key(recipe, "published"), "Where the corpus is")


def show_audit(recipe: Recipe, manifest: Published) -> None:
    """Show what the build's audits found of each source."""
    for place, headline in manifest.audits.items():
        if not headline.pairs:
            continue
        table = whole_table(Corpus(recipe), place, ["source", headline.measure])
        below = [f"below {likeness:g}" for likeness in (*SIMILARITIES, round(headline.threshold, 2))]
        rows = [
            {"source": row.name, "pairs": f"{row.pairs:,}"}
            | dict(zip(below, [f"{share:.1%}" for share in row.below], strict=True))
            for row in by_source(table, headline)
        ]
        create_table_artifact(rows, artifact_key(recipe, place), headline.sentence())


def funnel_of_characters(ledger: Ledger) -> str:
    """Draw the tokens that each stage let through, as bars of characters."""
    start = max(1, ledger.of(ledger.stages[0]).tokens)
    lines = []
    for stage in ledger.stages:
        tokens = ledger.of(stage).tokens
        bar = "█" * round(BAR * tokens / start)
        lines.append(f"{stage:9} {bar:{BAR}} {tokens / start:6.1%} {tokens:,}")
    return "```\n" + "\n".join(lines) + "\n```\n"
