"""`zyda verify`: compare all published files and their inputs in the work folder with their digests."""

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
    from zyda_flows.tasks.lookup.verify_and_clean import CheckedFile, FileFault
    from zyda_flows.tasks.recipe.fields import Recipe
    from zyda_flows.tasks.storage.folder import Folder

EXAMPLES = ("zyda verify recipe.yaml", "zyda verify recipe.yaml --repair")


def verify(
    recipe_path: RecipePath,
    repair: Annotated[bool, typer.Option("--repair", help="Build damaged and missing files again.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Read all published files, and the work files that they were made from, and compare each with its SHA-256.

    Deny lists of zyda forget, and their tables of addresses, are compared, too; they are never repaired, because no
    build can make them. The exit status is 0 only if all files are intact or repaired, and published/ has no other
    files.
    """
    from zyda_flows.tasks.erasure.stored_requests import faults_of_requests  # late

    recipe = load(recipe_path, storage, sample)
    faults, strangers = verify_corpus(recipe)
    if requests := [*faults_of_requests(recipe)]:
        for line in requests:
            say(line)
        raise Denied(
            f"{counted(len(requests), 'file')} of removal requests damaged or missing; no build can make them again"
        )
    if faults and not repair:
        raise Denied(
            f"{counted(len(faults), 'file')} damaged or missing; zyda verify --repair builds them again"
        )
    if faults:
        remove_damaged(recipe, faults)
        build_and_show(recipe_path, storage, sample, recipe)
    if strangers:
        raise Denied(
            f"{counted(len(strangers), 'file')} in published/ not written by a build: move them elsewhere"
        )


def verify_corpus(recipe: "Recipe") -> "tuple[list[FileFault], list[str]]":
    """Read all files of a corpus and its work files; print faults.

    Returns the damaged files, and the files in published/ that no build has written.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # late

    from zyda_flows.tasks.accounts.published import saved_stamps  # late
    from zyda_flows.tasks.accounts.readings import utc_now  # late
    from zyda_flows.tasks.lookup.verify_and_clean import (  # late
        faults_of,
        files_to_check,
        strangers_published,
    )

    before, begun = saved_stamps(recipe.folder), utc_now()
    items, faults = files_to_check(recipe)
    size = sum(item.size for item in items)
    err = console(stderr=True, soft_wrap=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        bar = bars.add_task("reading", total=size)
        faults += faults_of(recipe, items, lambda item: bars.advance(bar, item.size))
    record_readings(recipe.folder, before, items, faults, begun)
    url = recipe.folder.url
    for fault in faults:
        say(f"{url}/{fault.path} {fault.difference}")
    strangers = strangers_published(recipe, items)
    for path in strangers:
        say(f"{url}/{path} was not written by a build of this corpus, but readers of the folder will read it")
    say(
        f"{counted(len(items), 'file')}, {as_size(size)}: "
        + (f"{len(faults):,} damaged or missing" if faults else "all intact")
    )
    return faults, strangers


def record_readings(
    folder: "Folder",
    before: "FileStamps",
    items: "Sequence[CheckedFile]",
    faults: "Sequence[FileFault]",
    when: str,
) -> None:
    """Record the time at which intact published files were read."""
    from zyda_flows.tasks.accounts.published import PUBLISHED  # late
    from zyda_flows.tasks.accounts.published_stamps import keep_checked  # late

    damaged = {fault.path for fault in faults}
    paths = [item.path.removeprefix(f"{PUBLISHED}/") for item in items if item.path not in damaged]
    try:
        keep_checked(folder, before, paths, when)
    except Denied as error:  # the corpus is read-only
        warn(f"{error}; the time of reading is not recorded")


def remove_damaged(recipe: "Recipe", faults: "Sequence[FileFault]") -> None:
    """Remove damaged files, so that the next build makes them again."""
    from zyda_flows.tasks.accounts.published import PUBLISHED  # late
    from zyda_flows.tasks.storage.forgetting import forget  # late

    folder: Folder = recipe.folder
    published = [fault.path for fault in faults if fault.path.startswith(f"{PUBLISHED}/")]
    for path in published:
        folder.delete(path)
    forget(folder, [fault.path for fault in faults if fault.path not in published])
