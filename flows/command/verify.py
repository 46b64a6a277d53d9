"""`zyda verify`: every published file and all that it was made by, compared with their digests."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.build import build_and_show
from zyda_flows.flows.command.terminal import as_size, console, say
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.accounts.published import FileStamps
    from zyda_flows.tasks.lookup.verify_and_clean import CheckedFile, Fault
    from zyda_flows.tasks.recipe.fields import Recipe
    from zyda_flows.tasks.storage.folder import Folder

EXAMPLES = ("zyda verify recipe.yaml", "zyda verify recipe.yaml --repair")


def verify(
    recipe_path: RecipePath,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make again what is damaged, from what it was made of.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Read every published file, and all that it was made by, and compare each with its digest.

    The exit status is 0 only when all is as it was written, or has been repaired, and published/ has nothing else.
    """
    recipe = load(recipe_path, storage, sample)
    faults, strangers = verify_corpus(recipe)
    if faults and not repair:
        raise Denied(f"{counted(len(faults), 'file')} not as written; zyda verify --repair makes them again")
    if faults:
        mend(recipe, faults)
        build_and_show(recipe_path, storage, sample, recipe)
    if strangers:
        raise Denied(
            f"{counted(len(strangers), 'file')} in published/ that no build has published: move them away"
        )


def verify_corpus(recipe: "Recipe") -> "tuple[list[Fault], list[str]]":
    """Read all that a corpus consists of and was made by; print and return what is not as it was.

    Returns the damaged files, and the files among the published ones that no build has published.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # late

    from zyda_flows.tasks.accounts.published import saved_stamps  # late
    from zyda_flows.tasks.accounts.readings import moment  # late
    from zyda_flows.tasks.lookup.verify_and_clean import (  # late
        faults_of,
        files_to_check,
        strangers_published,
    )

    before, begun = saved_stamps(recipe.folder), moment()
    items, faults = files_to_check(recipe)
    size = sum(item.size for item in items)
    err = console(stderr=True, soft_wrap=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        bar = bars.add_task("reading", total=size)
        faults += faults_of(recipe, items, lambda item: bars.advance(bar, item.size))
    note_read(recipe.folder, before, items, faults, begun)
    url = recipe.folder.url
    for fault in faults:
        say(f"{url}/{fault.path} {fault.difference}")
    strangers = strangers_published(recipe, items)
    for path in strangers:
        say(f"{url}/{path} was published by no build of this corpus: readers of the folder read it, too")
    say(
        f"{counted(len(items), 'file')}, {as_size(size)}: "
        + (f"{len(faults):,} not as written" if faults else "all as written")
    )
    return faults, strangers


def note_read(
    folder: "Folder",
    before: "FileStamps",
    items: "Sequence[CheckedFile]",
    faults: "Sequence[Fault]",
    when: str,
) -> None:
    """Remember when the published files that are whole were read."""
    from zyda_flows.tasks.accounts.published import PUBLISHED  # late
    from zyda_flows.tasks.accounts.published_stamps import keep_checked  # late

    damaged = {fault.path for fault in faults}
    paths = [item.path.removeprefix(f"{PUBLISHED}/") for item in items if item.path not in damaged]
    try:
        keep_checked(folder, before, paths, when)
    except Denied as error:  # a corpus that may only be read
        warn(f"{error}; when these files were read is not remembered")


def mend(recipe: "Recipe", faults: "Sequence[Fault]") -> None:
    """Remove what is damaged, so that the next build makes it again."""
    from zyda_flows.tasks.accounts.published import PUBLISHED  # late
    from zyda_flows.tasks.storage.forgetting import forget  # late

    folder: Folder = recipe.folder
    published = [fault.path for fault in faults if fault.path.startswith(f"{PUBLISHED}/")]
    for path in published:
        folder.delete(path)
    forget(folder, [fault.path for fault in faults if fault.path not in published])
