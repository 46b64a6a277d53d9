"""What Prefect's dashboard shows of a build: a table for each stage, and the ledger at the end."""

import re
from collections.abc import Sequence

from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.futures import PrefectFuture

from tasks.artifacts import Done
from tasks.card import card
from tasks.ledger import Ledger
from tasks.recipe import Recipe


def artifact_key(recipe: Recipe, what: str) -> str:
    """Return a name as Prefect wants it: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{recipe.corpus}-{what}".lower()).strip("-")


def finished(recipe: Recipe, stage: Sequence[PrefectFuture[Done]]) -> list[Done]:
    """Wait for a stage of every source and show its table; raise what a source's task raised."""
    receipts = [future.result() for future in stage]
    rows = [
        {
            "source": done.source,
            "documents": f"{done.out.documents:,}",
            "tokens": f"{done.out.tokens:,}",
            "bytes": f"{done.out.bytes:,}",
            "removed documents": f"{done.removed.documents:,}",
            "removed tokens": f"{done.removed.tokens:,}",
            "set aside": f"{done.set_aside.documents:,}",
        }
        for done in receipts
    ]
    name = receipts[0].stage
    create_table_artifact(rows, artifact_key(recipe, name), f"After {name}, by source")
    return receipts


def show_ledger(recipe: Recipe, ledger: Ledger) -> None:
    """Show the corpus's card, with its table of tokens."""
    text = card(recipe, ledger).partition("---\n\n")[2]
    create_markdown_artifact(text, artifact_key(recipe, "corpus"), "The corpus and its accounts")
