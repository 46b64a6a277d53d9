"""`zyda fetch`: copy the files of all sources and labels of a recipe to one folder, from which it can build."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, load
from zyda_flows.flows.command.progress import bar_or_lines
from zyda_flows.flows.command.terminal import as_size, as_time, console, say, table_of
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from zyda_flows.tasks.planning.fetching import Fetch
    from zyda_flows.tasks.sources.copies import FetchedFile
    from zyda_flows.tasks.storage.folder import Folder

EXAMPLES = (
    "zyda fetch recipe.yaml --to /data/inputs",
    "zyda fetch recipe.yaml --to s3://lab/inputs --verify",
)


def fetch(
    recipe_path: RecipePath,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Folder for the copies. If not given, `inputs` of the recipe, or else `<storage>/<name>-inputs`.",
        ),
    ] = None,
    at_once: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Number of files to copy at the same time.")
    ] = 4,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Read existing copies, compare their SHA-256, and copy damaged files again."
        ),
    ] = False,
    sample: Sample = None,
) -> None:
    """Copy the files of all sources and of the labels that they join to one folder.

    A build from the copies makes the same corpus.

    Builds read the copies if the recipe has the folder in `inputs`. After an interruption, or when sources have
    changed, start the command again: it copies only missing and changed files. If a host limits requests, the
    command waits as long as the host demands.
    """
    from zyda_flows.tasks.planning.fetching import Fetch, total_bytes  # late
    from zyda_flows.tasks.recipe.loading import load_recipe  # late
    from zyda_flows.tasks.storage.folder import Folder  # late

    recipe = load_recipe(recipe_path, sample=sample, inputs=to)
    url = recipe.inputs or f"{recipe.storage.rstrip('/')}/{recipe.name}-inputs"
    fetched = Fetch(recipe, Folder(url))
    if verify:
        with bar_or_lines("read", total_bytes(fetched.to_verify)) as advance:
            fetched.verify_all(at_once, advance)
    to_copy = fetched.to_copy
    console().print(sizes_by_source(fetched.wanted, to_copy))
    expect_room(fetched.folder, total_bytes(to_copy))
    copy_with_progress(fetched, to_copy, at_once)
    say(f"all {counted(len(fetched.wanted), 'file')} are in {url}")
    if load(recipe_path, None, sample).inputs != url:
        say(f"to build from the copies, add to the recipe: inputs: {url}")


def sizes_by_source(wanted: "Sequence[FetchedFile]", to_copy: "Sequence[FetchedFile]") -> "Table":
    """Return a table of the sources and labels: files, bytes, and files and bytes to copy."""
    from zyda_flows.tasks.planning.fetching import total_bytes  # late

    table = table_of("source", "files", "size", "to copy", "size to copy", words=["source"])
    for source in dict.fromkeys(file.source for file in wanted):
        every, missing = ([file for file in files if file.source == source] for files in (wanted, to_copy))
        sizes = (as_size(total_bytes(every)), as_size(total_bytes(missing)))
        table.add_row(source, f"{len(every):,}", sizes[0], f"{len(missing):,}", sizes[1])
    return table


def expect_room(folder: "Folder", needed: int) -> None:
    """Raise Denied if the folder is on a local disk with less free space than needed. needed: bytes."""
    folder.check_writable()
    if not folder.is_local:
        return
    place = next(path for path in (Path(folder.url), *Path(folder.url).parents) if path.exists())
    free = shutil.disk_usage(place).free
    if needed > free:
        raise Denied(
            f"{folder.url}: {as_size(needed)} are needed for the copies, and {as_size(free)} are free; "
            "use --to with another folder"
        )


def copy_with_progress(fetched: "Fetch", to_copy: "Sequence[FetchedFile]", at_once: int) -> None:
    """Copy files, and show the progress: a bar on a terminal, otherwise a line per minute."""
    from zyda_flows.tasks.planning.fetching import total_bytes  # late

    size, begun = total_bytes(to_copy), time.monotonic()
    if not to_copy:
        fetched.write_table()
        return
    with bar_or_lines("copied", size) as advance:
        fetched.copy_all(at_once, advance)
    seconds = time.monotonic() - begun
    say(
        f"copied {counted(len(to_copy), 'file')}, {as_size(size)}, in {as_time(seconds)}: "
        f"{size / 1e6 / max(seconds, 1e-3):,.1f} MB/s"
    )
