"""`zyda plan`: estimate the time, memory, storage and requests of a build."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import (
    as_size,
    as_time,
    console,
    in_threads,
    say,
    say_if_compiling,
    table_of,
)
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from zyda_flows.tasks.planning.estimates import Estimate, Plan
    from zyda_flows.tasks.spent import Spent

EXAMPLES = ("zyda plan recipe.yaml", "zyda plan recipe.yaml --workers 208 --memory 8")
GIB = 1 << 30
STARTUP_SECONDS = (12.0, 8.0, 20.0)  # seconds of `zyda build` outside its flow run: expected, least, most


class PlanFormat(StrEnum):
    """How to print a plan."""

    TEXT = "text"
    JSON = "json"


def plan(
    recipe_path: RecipePath,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of worker processes. If not given, one for each core of this machine.",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            metavar="GIB",
            help="Memory of each worker. If not given, the memory of this machine, divided by the workers.",
        ),
    ] = None,
    storage: Storage = None,
    sample: Sample = None,
    output: Annotated[
        PlanFormat, typer.Option("--format", metavar="FORMAT", help="text, or json with all numbers.")
    ] = PlanFormat.TEXT,
) -> None:
    """Estimate the time, memory and storage of a build, and list exceeded limits. Takes about a minute.

    The command builds a part of the largest sources in a temporary folder, and extrapolates the costs. The
    estimate assumes that no document is removed as a duplicate, and that the cores of the workers are as fast as
    those of this machine. It is stored in `history/plan.json` of the corpus, and the report of the build compares
    it with the actual costs.
    """
    from zyda_flows.tasks.forecast.plan import plan_of  # late
    from zyda_flows.tasks.planning.estimates import keep_plan  # late
    from zyda_flows.tasks.workers.dask_cluster import cores, memory_of_machine  # late

    recipe = load(recipe_path, storage, sample)
    err = console(stderr=True)
    say_if_compiling(err)
    workers = workers or cores()
    size = int(memory * GIB) if memory else memory_of_machine() // workers
    with err.status("measuring a build of a part of the sources"):
        planned = plan_of(recipe, workers, size, in_threads)
    keep_plan(recipe.folder, planned)
    if output is PlanFormat.JSON:
        say(planned.model_dump_json(indent=2))
        return
    out = console()
    out.print(table_of_sources(planned))
    out.print(table_of_stages(planned))
    for line in sentences(planned):
        out.print(line, markup=False, soft_wrap=True)


def table_of_sources(plan: "Plan") -> "Table":
    """Return a table of the sources: files, and documents and tokens with their uncertainty."""
    table = table_of("source", "files", "size", "documents", "text", "tokens", "kept", words=["source"])
    for source in plan.sources:
        table.add_row(
            source.source, f"{source.files:,}", as_size(source.bytes), in_range(source.documents),
            as_size(round(source.text.value)), in_range(source.tokens), f"{source.kept:.1%}",
        )  # fmt: skip
    return table


def table_of_stages(plan: "Plan") -> "Table":
    """Return a table of the stages: jobs, core time, memory, bytes and requests."""
    table = table_of(
        "stage", "jobs", "core time", "largest task", "read", "written", "files", "requests", words=["stage"]
    )
    for name, spent in rows_of_stages(plan):
        seconds = as_time(spent.cpu) if spent.cpu >= 1 else f"{spent.cpu:.1f} seconds"
        table.add_row(
            name, f"{spent.calls:,}", seconds, as_size(spent.peak),
            as_size(spent.inputs + spent.read), as_size(spent.written), f"{spent.files:,}",
            f"{spent.input_requests + spent.requests:,}",
        )  # fmt: skip
    return table


def rows_of_stages(plan: "Plan") -> "Iterator[tuple[str, Spent]]":
    """Yield the costs of each stage, of all work outside the tasks of stages, and of the build."""
    from zyda_flows.tasks.spent import Spent  # late

    yield from ((stage.stage, stage.spent) for stage in plan.stages if stage.spent.calls)
    yield "outside tasks", sum((stage.spent for stage in plan.stages if not stage.spent.calls), Spent())
    yield "all", plan.total


def sentences(plan: "Plan") -> list[str]:
    """Return sentences about time, scheduler, storage, models, notes, and what will not fit."""
    from zyda_flows.tasks.planning.estimates import Estimate  # late
    from zyda_flows.tasks.publish.hub_limits import largest_folder  # late

    each = as_size(plan.memory)
    starting = dict(zip(("value", "low", "high"), STARTUP_SECONDS, strict=True))
    whole = plan.seconds + Estimate(**starting)
    low, high = as_time(whole.low), as_time(whole.high)
    lines = [
        f"time: {as_time(whole.value)}, from {low} to {high}, on {counted(plan.workers, 'worker')} of {each}; "
        f"{as_time(STARTUP_SECONDS[0])} of it to start and stop Prefect and Dask (not needed while `zyda up` runs)",
        f"scheduler: {as_time(plan.scheduler_seconds)} of its thread, for {counted(plan.tasks, 'task')} of "
        f"{counted(plan.total.calls, 'job')}",
        f"storage: {as_size(round(plan.in_storage))} at the end, {as_size(round(plan.published))} of it published"
        + (f"; {as_size(round(plan.at_most))} at most" if plan.at_most > plan.in_storage else "")
        + (f"; {as_size(round(plan.scratch))} on temporary disks during the build" if plan.scratch else ""),
    ]
    largest = largest_folder(plan.files_by_folder)
    lines.append(
        f"published: {counted(sum(plan.files_by_folder.values()), 'Parquet file')}, at most "
        f"{largest[1]:,} in a folder ({largest[0]}/)"
    )
    for name, seconds in plan.model_seconds.items():
        alone = plan.model_seconds_without_only_if.get(name)
        without = f"; {as_time(alone)} without its `only_if`" if alone is not None else ""
        lines.append(f"model of {name}: {as_time(seconds)} of one device{without}")
    return [*lines, *plan.notes, *(f"will not fit: {fault}" for fault in plan.faults)]


def in_range(estimate: "Estimate") -> str:
    """Return a figure with half of its range in per cent."""
    if not estimate.value or estimate.high == estimate.low:
        return f"{round(estimate.value):,}"
    return f"{round(estimate.value):,} ±{(estimate.high - estimate.low) / 2 / estimate.value:.0%}"
