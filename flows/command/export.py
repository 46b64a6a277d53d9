"""`zyda export`: the published documents in files of another format, size and choice of columns."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.processes import done_by, own_processes
from zyda_flows.flows.command.progress import bar_or_lines
from zyda_flows.flows.command.terminal import as_size, console, say, table_of
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.publish.export_files import FileToExport
    from zyda_flows.tasks.publish.export_places import ExportedFile

EXAMPLES = (
    "zyda export recipe.yaml --to /data/jsonl",
    "zyda export recipe.yaml --to /x --format parquet",
)


def export(
    recipe_path: RecipePath,
    to: Annotated[str, typer.Option(metavar="URL", help="The folder for the files.")],
    kind: Annotated[
        str, typer.Option("--format", help="Of the files: jsonl.zst, jsonl or parquet.")
    ] = "jsonl.zst",
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="The columns to write; without, all of them.")
    ] = None,
    as_strings: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Columns of integers to write as strings: doc_id,cluster_id for JavaScript."
        ),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="A source to write, any number of times; without, all of them.")
    ] = None,
    file_mib: Annotated[
        float,
        typer.Option(min=0.01, help="What goes into one file, in MiB of the Parquet that is published."),
    ] = 256,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the files that are there, and compare their digests.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove an export of something else in the same folder.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Write the published documents to files of your own: JSON Lines or Parquet, of any columns and size.

    Start it again after an interruption, or when the corpus has changed: what is there already is not written
    again. exported.parquet in the folder lists the files, each with its SHA-256. An export in the same folder of
    another corpus, format, or choice of columns or sources is an error, unless --replace is given. Many
    readers of JSON, JavaScript among them, round integers above 2^53, and ids are larger: --as-strings keeps their
    digits.
    """
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.publish.export_planning import ExportOptions  # late
    from zyda_flows.tasks.publish.exporting import Export  # late
    from zyda_flows.tasks.storage.claims import reading  # late
    from zyda_flows.tasks.storage.folder import Folder, absolute  # late

    names, strings = (() if one is None else tuple(one.split(",")) for one in (columns, as_strings))
    options = ExportOptions(
        format=kind, columns=names, as_strings=strings, sources=tuple(source or ()), file_mib=file_mib
    )
    with reading([recipe.folder], "zyda export"):
        planned = Export(recipe, Folder(absolute(to)), options, verify=verify, replace=replace)
        with bar_or_lines("written", sum(job.size for job in planned.jobs)) as tell:
            files = planned.write(lambda jobs: in_processes(jobs, tell))
    table = table_of("source", "files", "documents", "size", words=["source"])
    for name in dict.fromkeys(file.source for file in files):
        own = [file for file in files if file.source == name]
        size = as_size(sum(file.size for file in own))
        table.add_row(name, f"{len(own):,}", f"{sum(file.rows for file in own):,}", size)
    console().print(table)
    say(
        f"{counted(len(files), 'file')} in {planned.to.url}, of which {len(planned.done):,} were there already"
    )


def in_processes(jobs: "Sequence[FileToExport]", tell: Callable[[int], object]) -> "Iterator[ExportedFile]":
    """Write files in as many processes as there are cores; a failure ends it when those under way are written."""
    if not jobs:
        return
    with own_processes() as pool:
        for job, file in done_by(pool, jobs):
            yield file
            tell(job.size)
