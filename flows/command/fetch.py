"""`zyda fetch`: the files of a recipe's sources copied to one place, from which it then builds."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from flows.command.arguments import RecipePath, Sample, load
from flows.command.terminal import as_size, as_time, console, say, table_of
from tasks.errors import Denied
from tasks.words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from tasks.planning.fetching import Fetch
    from tasks.recipe.fields import Recipe

EXAMPLES = (
    "zyda fetch recipe.yaml --to /data/inputs",
    "zyda fetch recipe.yaml --to s3://lab/inputs --verify",
)
SECONDS_BETWEEN_LINES = 60.0


def fetch(
    recipe_path: RecipePath,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The folder for the copies; without, the recipe's `inputs`, or <storage>/<name>-inputs.",
        ),
    ] = None,
    at_once: Annotated[int, typer.Option(min=1, max=64, help="Files to copy side by side.")] = 4,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the copies that are there, and compare their digests.")
    ] = False,
    sample: Sample = None,
) -> None:
    """Copy the files of all sources to one place, from which the recipe then builds. The corpus is the same.

    Start it again after an interruption, or when sources have changed: what was copied is not copied again.
    A host that limits its requests is waited for as long as it asks.
    """
    from tasks.planning.fetching import Fetch  # late
    from tasks.recipe.loading import load_recipe  # late
    from tasks.storage.folder import Folder  # late

    recipe = load_recipe(recipe_path, sample=sample, inputs=to)
    url = recipe.inputs or f"{recipe.storage.rstrip('/')}/{recipe.name}-inputs"
    fetched = Fetch(recipe, Folder(url), verify=verify)
    console().print(sizes_by_source(recipe, fetched))
    expect_room(fetched)
    copy_with_progress(fetched, at_once)
    say(f"all {counted(len(fetched.wanted), 'file')} are in {url}")
    if load(recipe_path, None, sample).inputs != url:
        say(f"to build from there, write in the recipe: inputs: {url}")


def sizes_by_source(recipe: "Recipe", fetched: "Fetch") -> "Table":
    """Make the table of the sources: files, bytes, and what of them is to be copied."""
    from tasks.planning.fetching import total_bytes  # late

    table = table_of("source", "files", "size", "to copy", "size to copy", words=["source"])
    for source in recipe.sources:
        every, missing = (
            [file for file in files if file.source == source.name]
            for files in (fetched.wanted, fetched.to_copy)
        )
        sizes = (as_size(total_bytes(every)), as_size(total_bytes(missing)))
        table.add_row(source.name, f"{len(every):,}", sizes[0], f"{len(missing):,}", sizes[1])
    return table


def expect_room(fetched: "Fetch") -> None:
    """Raise Denied where the copies go to a disk of this machine that has too little room for them."""
    import shutil  # late
    from pathlib import Path  # late

    from tasks.planning.fetching import total_bytes  # late

    fetched.folder.check_writable()
    if not fetched.folder.is_local:
        return
    needed = total_bytes(fetched.to_copy)
    place = next(
        path for path in (Path(fetched.folder.url), *Path(fetched.folder.url).parents) if path.exists()
    )
    free = shutil.disk_usage(place).free
    if needed > free:
        raise Denied(
            f"{fetched.folder.url}: {as_size(needed)} are to be copied, and {as_size(free)} are free there; "
            "choose another place by --to"
        )


def copy_with_progress(fetched: "Fetch", at_once: int) -> None:
    """Copy what is to be copied, and show how far it is: a bar on a terminal, else a line each minute."""
    from tasks.planning.fetching import total_bytes  # late

    size, begun = total_bytes(fetched.to_copy), time.monotonic()
    if not fetched.to_copy:
        fetched.write_table()
        return
    with bar_or_lines(size) as tell:
        fetched.copy_all(at_once, tell)
    seconds = time.monotonic() - begun
    say(
        f"copied {counted(len(fetched.to_copy), 'file')}, {as_size(size)}, in {as_time(seconds)}: "
        f"{size / 1e6 / max(seconds, 1e-3):,.1f} MB/s"
    )


@contextmanager
def bar_or_lines(size: int) -> Iterator[Callable[[int], None]]:
    """Give what is told of the bytes that have come."""
    from rich.progress import (  # late
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,  # late
    )

    err = console(stderr=True, soft_wrap=True)
    columns = (
        TextColumn("copying"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    come, last = 0, time.monotonic()
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        bar = bars.add_task("copying", total=size)

        def tell(more: int) -> None:
            nonlocal come, last
            come += more
            bars.advance(bar, more)
            if not err.is_terminal and time.monotonic() - last > SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                err.print(f"{as_size(come)} of {as_size(size)} copied", highlight=False)

        yield tell
