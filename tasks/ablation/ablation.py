"""Run an experiment: its protocol, its documents, the runs whose records are missing, and its result."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.libraries import expect_libraries
from zyda_flows.tasks.ablation.planned_runs import expect_models, finished_runs, plan_runs
from zyda_flows.tasks.ablation.preparation import prepare
from zyda_flows.tasks.ablation.prepared import Prepared
from zyda_flows.tasks.ablation.protocol import Protocol, fix_protocol
from zyda_flows.tasks.ablation.records import RunRecord
from zyda_flows.tasks.ablation.runs import Run
from zyda_flows.tasks.storage.records import write_record

if TYPE_CHECKING:
    from zyda_flows.tasks.ablation.results import AblationResult

Say = Callable[[str], object]
RunJobs = Callable[
    [Sequence[Run], int], list[RunRecord]
]  # receives the runs, and the number of finished runs


def planned(experiment: Experiment, say: Say) -> tuple[Prepared, Protocol, list[Run]]:
    """Write the protocol of an experiment, prepare its documents, and return its runs."""
    expect_libraries()
    expect_models(experiment)
    protocol = fix_protocol(experiment)
    prepared = prepare(experiment, say)
    return prepared, protocol, plan_runs(experiment, prepared, protocol.digest)


def ablate(experiment: Experiment, run_jobs: RunJobs, say: Say) -> "AblationResult":
    """Run an experiment, and return its result, which is also written to RESULT.

    Raises BadRecipe, BadInput, and Denied for a folder with runs under another protocol.
    """
    from zyda_flows.tasks.ablation.results import RESULT, result_of  # late: scipy

    prepared, protocol, runs = planned(experiment, say)
    records = finished_runs(runs)
    missing = [run for run in runs if run.key not in records]
    records |= {run.key: record for run, record in zip(missing, run_jobs(missing, len(records)), strict=True)}
    result = result_of(experiment, prepared, protocol, records, runs)
    write_record(experiment.folder, RESULT, result)
    return result
