"""`zyda export`: write published documents to files of another format, size and choice of columns."""

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
    "zyda export recipe.yaml --to /x --where 'n_tokens > 500'",
)


def export(
    recipe_path: RecipePath,
    to: Annotated[str, typer.Option(metavar="URL", help="Folder for the files.")],
    kind: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="Format of the files: jsonl.zst, jsonl or parquet."),
    ] = "jsonl.zst",
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to write. If not given, all.")
    ] = None,
    as_strings: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Integer columns to write as strings, for example doc_id,cluster_id."
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Source to write; can be repeated. If not given, all."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="SQL condition on the published columns, as in `keep` of a recipe. If not given, all documents.",
        ),
    ] = None,
    file_mib: Annotated[
        float,
        typer.Option(min=0.01, metavar="MIB", help="Size of a file, measured as published Parquet."),
    ] = 256,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Read the files of an earlier export, compare their SHA-256, and write damaged files again.",
        ),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an export with other settings in the same folder.")
    ] = False,
    storage: Storage = None,
    sample: Sample = None,
) -> None:
    """Write the published documents to JSON Lines or Parquet files, with chosen columns and file size.

    After an interruption, or when the corpus has changed, start the command again: it writes only missing and
    changed files, and deletes files of documents that are no longer published. exported.parquet in the folder
    lists the files with their SHA-256. If the folder has an export of another corpus, or with another
    format or choice of columns or sources, the command ends with an error; --replace replaces that export.

    Many JSON readers, such as JavaScript's, round integers above 2^53. Document ids are larger: --as-strings keeps
    all their digits.
    """
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.tasks.publish.export_planning import ExportOptions  # late
    from zyda_flows.tasks.publish.exporting import Export  # late
    from zyda_flows.tasks.storage.claims import reading  # late
    from zyda_flows.tasks.storage.folder import Folder, absolute  # late

    names, strings = (() if option is None else tuple(option.split(",")) for option in (columns, as_strings))
    options = ExportOptions(
        format=kind,
        columns=names,
        as_strings=strings,
        sources=tuple(source or ()),
        file_mib=file_mib,
        where=where,
    )
    with reading([recipe.folder], "zyda export"):
        planned = Export(recipe, Folder(absolute(to)), options, verify=verify, replace=replace)
        with bar_or_lines("written", sum(job.size for job in planned.jobs)) as advance:
            files = planned.write(lambda jobs: in_processes(jobs, advance))
    table = table_of("source", "files", "documents", "not selected", "size", words=["source"])
    for name in dict.fromkeys(file.source for file in files):
        own = [file for file in files if file.source == name]
        size = as_size(sum(file.size for file in own))
        rows, others = sum(file.rows for file in own), sum(file.not_selected for file in own)
        table.add_row(name, f"{len(own):,}", f"{rows:,}", f"{others:,}", size)
    console().print(table)
    say(f"{counted(len(files), 'file')} in {planned.to.url}, {len(planned.done):,} of them written earlier")


def in_processes(
    jobs: "Sequence[FileToExport]", advance: Callable[[int], object]
) -> "Iterator[ExportedFile]":
    """Write files in one process per core; after a failure, wait for running jobs and start no others."""
    if not jobs:
        return
    with own_processes() as pool:
        for job, file in done_by(pool, jobs):
            yield file
            advance(job.size)
