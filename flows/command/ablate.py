"""`zyda ablate`: compare variants of a corpus by small models."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from multiprocessing import active_children
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zyda_flows.flows.command.processes import done_by, own_processes
from zyda_flows.flows.command.terminal import console, say, table_of
from zyda_flows.tasks.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zyda_flows.flows.reporting.ablations import WrittenResult
    from zyda_flows.tasks.ablation.experiment import Experiment

EXAMPLES = (
    "zyda ablate experiment.yaml",
    "zyda ablate experiment.yaml --list",
    "zyda ablate experiment.yaml --swarm 100",
    "zyda ablate recipe.yaml --removed",
)


def ablate(
    file: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT", help="YAML file of the experiment; with --removed, a built recipe."
        ),
    ],
    list_runs: Annotated[
        bool,
        typer.Option("--list", help="List the stored runs, and which of them hold for the present corpora."),
    ] = False,
    swarm: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=10_000,
            metavar="N",
            help="Train a model on each of N random mixtures of the parts of the first variant, and propose a "
            "mixture.",
        ),
    ] = None,
    tables: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="RATIOS METRICS",
            help="Propose a mixture from the two tables of a swarm: CSV as of Olmix.",
        ),
    ] = None,
    removed: Annotated[
        bool,
        typer.Option(
            "--removed",
            help="Train on what a recipe keeps, and compare what it removed with kept documents.",
        ),
    ] = False,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="With --removed: tokens of a run, at most 80 % of the kept tokens; 5M if omitted.",
        ),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="With --removed: parameters of the model. Default: by the vocabulary."
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Folder or fsspec URL, instead of `storage` of the file."),
    ] = None,
) -> None:
    """Compare variants of a corpus by small models, with an interval of each difference.

    Variants are corpora, recipes or mixtures. A model is trained several times on each, from the start or from a
    base model, for the same number of tokens. A difference is claimed only beyond the noise of the repeats;
    otherwise the difference that 4 of 5 such experiments would see is printed. Measure and decision rule are fixed
    before the first run.

    After an interruption, start the command again: finished runs are not repeated, and others continue. The page
    ablation.html and the card README.md have verdicts, controls, loss curves and the cost.

    With --removed, models are trained on what a recipe keeps. For each stage and reason, the bits per byte of
    removed documents are compared with the bits of held-out kept documents of the same source and length. Results
    are written below the corpus, in ablation/.

    With --swarm, a model is trained on each of many mixtures. Their measures are fitted, and the mixture with the
    best predicted mean becomes a mixture file.
    """
    expect_one_question(
        {"--list": list_runs, "--removed": removed, "--swarm": swarm, "--tables": tables},
        {"--tokens": tokens, "--parameters": parameters},
    )
    from zyda_flows.flows.reporting import ablations  # late
    from zyda_flows.tasks.ablation.experiment import load_experiment  # late

    err = console(stderr=True)
    with err.status("reading") as status:

        def show(step: str) -> None:
            status.update(step) if err.is_terminal else err.print(step)

        if list_runs:
            print_runs(load_experiment(file, storage=storage), show)
            return
        with runs_in_processes(status) as run_jobs:
            if removed:
                options = ablations.options_of_removed(tokens, parameters, storage)
                result = ablations.explain_removals(file, options, run_jobs, show)
            elif swarm is not None or tables is not None:
                experiment = load_experiment(file, storage=storage)
                result = ablations.propose_mixture(experiment, swarm, tables, run_jobs, show)
            else:
                result = ablations.compare_variants(load_experiment(file, storage=storage), run_jobs, show)
    print_result(result)


def expect_one_question(questions: "Mapping[str, object]", settings: "Mapping[str, object]") -> None:
    """Raise BadRequest for options that exclude each other, and for options of --removed without it."""
    asked = [option for option, value in questions.items() if value]
    if len(asked) > 1:
        raise BadRequest(f"{asked[0]} and {asked[1]} cannot be combined")
    for option, value in settings.items():
        if value and "--removed" not in asked:
            raise BadRequest(f"{option} applies to --removed; an experiment file has its own")


@contextmanager
def runs_in_processes(status: Any) -> "Iterator[Callable[[Sequence[Any], int], list[Any]]]":
    """Yield a function that trains runs in processes, and shows their steps on a terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # late

    from zyda_flows.tasks.ablation.progress import watched  # late
    from zyda_flows.tasks.workers.dask_cluster import cores  # late

    err = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())

    def run_jobs(runs: Sequence[Any], finished: int) -> list[Any]:
        status.stop()
        if not runs:
            return []
        from zyda_flows.tasks.ablation.training import device_of_machine  # late: torch

        processes = 1 if device_of_machine() == "cuda" else cores()
        done, steps = dict[str, Any](), runs[0].settings.steps
        shown = Progress(*columns, console=err, disable=not err.is_terminal)
        with own_processes(processes) as pool, ended_on_error(), shown as bars:
            if finished:
                err.print(f"{finished} runs were finished before")
            bar = bars.add_task(f"{len(runs)} runs", total=len(runs) * steps)
            with watched(lambda: bars.update(bar, completed=steps_of(runs, done))):
                for run, record in done_by(pool, runs):
                    done[run.key] = record
                    named = f"{len(done)} of {len(runs)} runs"
                    bars.update(bar, description=named, completed=steps_of(runs, done))
                    if not err.is_terminal:
                        err.print(f"{named}: {run.variant}, seed {run.input.seed}, {record.seconds:.0f} s")
        return [done[run.key] for run in runs]

    yield run_jobs


@contextmanager
def ended_on_error() -> "Iterator[None]":
    """End the processes that began in the block if it raises: they would train to the end otherwise."""
    before = {process.pid for process in active_children()}
    try:
        yield
    except BaseException:
        for process in active_children():
            if process.pid not in before:
                process.terminate()
        raise


def steps_of(runs: Sequence[Any], done: dict[str, Any]) -> int:
    """Return the finished steps of runs."""
    from zyda_flows.tasks.ablation.progress import read_progress  # late

    steps = 0
    for run in runs:
        progress = None if run.key in done else read_progress(run.folder, run.key)
        steps += run.settings.steps if run.key in done else progress.step if progress else 0
    return steps


def print_result(result: "WrittenResult") -> None:
    """Print the first tables of a result, its sentences, and the URLs of its files."""
    from zyda_flows.flows.reporting.result_page import WORDS  # late

    for shown in result.page.sections[0].tables:
        table = table_of(*shown.names, words=WORDS, title=shown.title)
        for row in shown.rows:
            table.add_row(*row)
        console().print(table)
    for line in result.sentences:
        say(line)
    for url in result.urls:
        say(url)


def print_runs(experiment: "Experiment", show: Callable[[str], object]) -> None:
    """Print the stored runs of an experiment, and which of them hold for the present corpora."""
    from zyda_flows.tasks.ablation.ablation import planned  # late
    from zyda_flows.tasks.ablation.planned_runs import finished_runs, listed_records  # late

    _, _, runs = planned(experiment, show)
    table = table_of(
        "variant", "seed", "parameters", "finished", "holds", words=("variant", "finished", "holds")
    )
    for record, reason in listed_records(runs):
        holds = f"no: {reason}" if reason else "yes"
        table.add_row(
            record.variant, str(record.input.seed), f"{record.parameters:,}", record.finished, holds
        )
    console().print(table)
    found = finished_runs(runs)
    say(
        f"{len(found)} of {len(runs)} runs of this experiment hold; {len(runs) - len(found)} would be trained"
    )
