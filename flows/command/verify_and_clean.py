"""`zyda verify` and `zyda clean`: what they do, and what they say while they do it."""

from collections.abc import Sequence

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from flows.command.terminal import console, say
from tasks.accounts.published import PUBLISHED, FileStamps, keep_checked, saved_stamps
from tasks.accounts.readings import moment
from tasks.errors import Denied
from tasks.log import warn
from tasks.lookup.verify_and_clean import CheckedFile, Fault, faults_of, files_to_check, orphans_of, remove
from tasks.recipe.fields import Recipe
from tasks.storage.artifacts import forget
from tasks.storage.folder import Folder


def verify_corpus(plan: Recipe) -> list[Fault]:
    """Read all that a corpus consists of and was made by; print and return what is not as it was."""
    before, begun = saved_stamps(plan.folder), moment()
    items, faults = files_to_check(plan)
    size = sum(item.size for item in items)
    err = console(stderr=True, soft_wrap=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        bar = bars.add_task("reading", total=size)
        faults += faults_of(plan, items, lambda item: bars.advance(bar, item.size))
    note_read(plan.folder, before, items, faults, begun)
    url = plan.folder.url
    for fault in faults:
        say(f"{url}/{fault.path} {fault.found}")
    say(f"{len(items):,} files, {gib(size)}: {len(faults):,} are not as they were written")
    return faults


def note_read(
    folder: Folder, before: FileStamps, items: Sequence[CheckedFile], faults: Sequence[Fault], when: str
) -> None:
    """Remember when the published files that are whole were read."""
    damaged = {fault.path for fault in faults}
    paths = [item.path.removeprefix(f"{PUBLISHED}/") for item in items if item.path not in damaged]
    try:
        keep_checked(folder, before, paths, when)
    except Denied as error:  # a corpus that may only be read
        warn(f"{error}; when these files were read is not remembered")


def mend(plan: Recipe, faults: Sequence[Fault]) -> None:
    """Remove what is damaged, so that the next build makes it again."""
    folder: Folder = plan.folder
    published = [fault.path for fault in faults if fault.path.startswith(f"{PUBLISHED}/")]
    for path in published:
        folder.delete(path)
    forget(folder, [fault.path for fault in faults if fault.path not in published])


def clean_corpus(plan: Recipe, *, dry_run: bool) -> None:
    """Say how much of a corpus's work is needed by nothing, by stage, and remove it unless it is a dry run."""
    waste = orphans_of(plan, dry_run=dry_run)
    sizes = dict[str, int]()
    for file in waste:
        stage = file.path.split("/")[1]
        sizes[stage] = sizes.get(stage, 0) + file.size
    for stage, size in sizes.items():
        say(f"{stage:12} {gib(size)}")
    verb = "would be removed" if dry_run else "removed"
    if not dry_run:
        remove(plan, waste)
    say(f"{len(waste):,} files, {gib(sum(sizes.values()))}: {verb}")


def gib(size: int) -> str:
    """Write a number of bytes as people read it."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size} bytes"
