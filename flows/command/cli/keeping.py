"""The commands that keep a published corpus as it was written, and its work folder small: verify, clean."""

from typing import Annotated

import typer

from flows.command.cli.arguments import RecipePath, Sample, Storage, command_of, load
from flows.command.cli.making import build_and_show
from tasks.errors import Denied

keeping = typer.Typer(rich_help_panel="Keep a corpus")


@command_of(keeping, "zyda verify recipe.yaml", "zyda verify recipe.yaml --repair")
def verify(
    recipe: RecipePath,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make again what is damaged, from what it was made of.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Read every published file, and all that it was made by, and compare each with its digest.

    The exit status is 0 only when all is as it was written, or has been repaired.
    """
    plan = load(recipe, storage, sample)
    from flows.command.verify_and_clean import mend, verify_corpus

    faults = verify_corpus(plan)
    if faults and not repair:
        raise Denied(
            f"{len(faults)} files are not as they were written; zyda verify --repair makes them again"
        )
    if faults:
        mend(plan, faults)
        build_and_show(recipe, storage, sample, plan)


@command_of(keeping, "zyda clean recipe.yaml --dry-run")
def clean(
    recipe: RecipePath,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Remove what earlier builds left in the work folder and the published corpus does not need.

    What a build that has not come to its end has written since stays, and so does what the next build of
    the same recipe can use again.
    """
    plan = load(recipe, storage, sample)
    from flows.command.verify_and_clean import clean_corpus

    clean_corpus(plan, dry_run=dry_run)
