"""`zyda clean`: what earlier builds or unfinished mixes left, removed."""

from typing import Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import as_size, say
from zyda_flows.tasks.words import counted

EXAMPLES = ("zyda clean recipe.yaml --dry-run", "zyda clean mixture.yaml")


def clean(
    recipe_path: RecipePath,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed, and remove nothing.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Remove what earlier builds left in the work folder and the published corpus does not need.

    What a build that has not come to its end has written since stays, and so does what the next build of
    the same recipe can use again. Of a mixture, it removes what mixes left that did not end.
    """
    from zyda_flows.tasks.mixing.mixture import is_mixture  # late

    if is_mixture(recipe_path):
        clean_mixture(recipe_path, storage, dry_run=dry_run)
        return
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.lookup.verify_and_clean import orphans_of, remove, strangers_in  # late

    waste = orphans_of(recipe, dry_run=dry_run)
    sizes = dict[str, int]()
    for file in waste:
        stage = file.path.split("/")[1]
        sizes[stage] = sizes.get(stage, 0) + file.size
    for stage, size in sizes.items():
        say(f"work/{stage + '/':12} {as_size(size)}")
    verb = "would be removed" if dry_run else "removed"
    if not dry_run:
        remove(recipe, waste)
    say(f"{counted(len(waste), 'file')}, {as_size(sum(sizes.values()))}: {verb}")
    if strangers := strangers_in(recipe):
        say(f"{counted(len(strangers), 'file')} in work/ written by no build, and kept: {strangers[0]}")


def clean_mixture(path: str, storage: str | None, *, dry_run: bool) -> None:
    """Remove the folders of mixes that did not end."""
    from zyda_flows.tasks.mixing.leftovers import leftovers, remove_leftovers  # late
    from zyda_flows.tasks.mixing.mixture import load_mixture  # late

    folder = load_mixture(path, storage=storage).folder
    found = leftovers(folder) if dry_run else remove_leftovers(folder)
    for one in found:
        say(f"{one.path + '/':17} {as_size(one.size)}")
    files, size = counted(sum(one.files for one in found), "file"), as_size(sum(one.size for one in found))
    say(f"{files}, {size}: {'would be removed' if dry_run else 'removed'}")
