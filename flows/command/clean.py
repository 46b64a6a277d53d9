"""`zyda clean`: remove leftovers of earlier builds, or of mixes."""

from typing import Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import as_size, say
from zyda_flows.tasks.words import counted

EXAMPLES = ("zyda clean recipe.yaml --dry-run", "zyda clean mixture.yaml")


def clean(
    recipe_path: RecipePath,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files without removing them.")] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Remove the files of earlier builds that the published corpus does not need from its work folder.

    Files of an unfinished build, and files that the next build of the recipe can reuse, are kept. RECIPE can also
    be the file of a mixture; then the command removes the files of interrupted mixes, and files in its work folder
    that are only needed if the choice of documents changes.
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
        say(f"{counted(len(strangers), 'file')} in work/ not written by a build, and kept: {strangers[0]}")


def clean_mixture(path: str, storage: str | None, *, dry_run: bool) -> None:
    """Remove the folders of a mixture that no finished mix needs."""
    from zyda_flows.tasks.mixing.leftovers import leftovers, remove_leftovers  # late
    from zyda_flows.tasks.mixing.mixture import load_mixture  # late

    folder = load_mixture(path, storage=storage).folder
    waste = leftovers(folder) if dry_run else remove_leftovers(folder)
    for item in waste:
        say(f"{item.path + '/':17} {as_size(item.size)}")
    files, size = sum(item.files for item in waste), as_size(sum(item.size for item in waste))
    say(f"{counted(files, 'file')}, {size}: {'would be removed' if dry_run else 'removed'}")
