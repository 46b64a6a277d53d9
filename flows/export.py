"""The flow that writes a published corpus to files of another format."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from prefect import flow
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from pydantic import Field

from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.report import Sample
from zyda_flows.flows.server.liveness import with_heartbeat
from zyda_flows.flows.server.run_names import name_by_corpus
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.publish.export_files import FileToExport
from zyda_flows.tasks.publish.export_places import ExportedFile
from zyda_flows.tasks.publish.export_planning import ExportOptions
from zyda_flows.tasks.publish.exporting import Export
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.spent import calling_on_result
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.runner import task_runner
from zyda_flows.tasks.storage.claims import reading
from zyda_flows.tasks.storage.folder import Folder, absolute
from zyda_flows.tasks.words import counted

WRITE_SECONDS = 3.0  # between two updates of the progress


@flow(name="export", flow_run_name=name_by_corpus("export"), task_runner=task_runner(), persist_result=False)
def export(
    recipe: str,
    to: str,
    format: Literal["jsonl.zst", "jsonl", "parquet"] = "jsonl.zst",  # noqa: A002 as it stands in the form
    columns: list[str] | None = None,
    as_strings: list[str] | None = None,
    sources: list[str] | None = None,
    where: str | None = None,
    file_mib: Annotated[float, Field(gt=0)] = 256,
    replace: bool = False,
    storage: str | None = None,
    sample: Sample | None = None,
) -> int:
    """Write the published documents to files of another format, on the cluster; return the number of files.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow.
        to: The folder for the files, a URL that all workers can write: any fsspec URL.
        format: The format of the files: jsonl.zst, jsonl or parquet.
        columns: The columns to write; all columns by default.
        as_strings: Columns of integers to write as strings, for readers of JSON that round above 2^53.
        sources: The sources to write; all sources by default.
        where: An SQL condition on the published columns, as in `keep` of a recipe; all documents by default.
        file_mib: The size of a file, in MiB of the published Parquet.
        replace: Remove another export from the same folder.
        storage: The folder of the corpus, instead of the recipe's `storage`: any fsspec URL.
        sample: The part of the input that was used. A sample is a separate corpus.
    """
    options = ExportOptions(
        format=format, columns=tuple(columns or ()), as_strings=tuple(as_strings or ()),
        sources=tuple(sources or ()), file_mib=file_mib, where=where,
    )  # fmt: skip
    with with_heartbeat("zyda-export"):
        corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
        files = export_files.submit(corpus_recipe, absolute(to), options, replace).result()
        show_files(corpus_recipe, files)
    return completed_state(len(files), f"{counted(len(files), 'file')} are in {absolute(to)}.")


@task(task_run_name="export", **ONCE_A_BUILD)
def export_files(recipe: Recipe, to: str, options: ExportOptions, replace: bool) -> list[ExportedFile]:
    """Write the files that are missing, and return all files of the export."""
    with reading([recipe.folder], "zyda export"):
        planned = Export(recipe, Folder(to), options, replace=replace)
        return planned.write(over_cluster)


def over_cluster(jobs: Sequence[FileToExport]) -> list[ExportedFile]:
    """Write files on the workers, and show the progress in the dashboard."""
    if not jobs:
        return []
    bar: Any = create_progress_artifact(progress=0.0, description="Exported files")
    done, written_at = 0, time.monotonic()

    def advance(*_: Any) -> None:
        nonlocal done, written_at
        done += 1
        if done == len(jobs) or time.monotonic() - written_at > WRITE_SECONDS:
            update_progress_artifact(bar, progress=100 * done / len(jobs))
            written_at = time.monotonic()

    with calling_on_result(advance):
        return fan_out(FileToExport.__call__, jobs, stage="export", source=None)


def show_files(recipe: Recipe, files: Sequence[ExportedFile]) -> None:
    """Show the files, documents and bytes of each source in the dashboard."""
    rows = [
        {"source": source, "files": len(own), "documents": sum(file.rows for file in own),
         "bytes": sum(file.size for file in own)}
        for source in dict.fromkeys(file.source for file in files)
        if (own := [file for file in files if file.source == source])
    ]  # fmt: skip
    create_table_artifact(rows, artifact_key(recipe, "exported"), "Exported files")
