"""The flow that compares variants of a corpus by small models."""

import operator
from collections.abc import Sequence
from functools import partial

from prefect import flow

from zyda_flows.flows.dashboard.ablation_page import RUNS, AblationPage
from zyda_flows.flows.reporting.ablation_page import PAGE, write_pages
from zyda_flows.flows.server.exclusion import ablation_lock
from zyda_flows.flows.server.run_names import name_by_experiment
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.ablation import ablation
from zyda_flows.tasks.ablation.experiment import Experiment, load_experiment
from zyda_flows.tasks.ablation.progress import watched
from zyda_flows.tasks.ablation.records import RunRecord
from zyda_flows.tasks.ablation.results import AblationResult, control_sentences, sentence
from zyda_flows.tasks.ablation.runs import Run
from zyda_flows.tasks.spent import calling_on_result
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.runner import task_runner


@flow(name="ablate", flow_run_name=name_by_experiment, task_runner=task_runner(), persist_result=False)
def ablate(experiment: str, storage: str | None = None) -> str:
    """Compare variants of a corpus by small models, trained on the cluster; return the URL of the page.

    Args:
        experiment: The experiment's YAML file, as a path on the machine that runs the flow.
        storage: The folder of the experiment, instead of the file's `storage`: any fsspec URL.
    """
    loaded = load_experiment(experiment, storage=storage)
    with ablation_lock(loaded):
        result: AblationResult = train_variants.submit(loaded).result()
    verdicts = [f"{sentence(each, result.baseline)}." for each in result.comparisons]
    url = f"{loaded.folder.url}/{PAGE}"
    return completed_state(url, *verdicts, *control_sentences(result), f"The page is {url}.")


@task(task_run_name="ablate", **ONCE_A_BUILD)
def train_variants(experiment: Experiment) -> AblationResult:
    """Train the missing runs, show the progress, and write the page and the card."""
    page = AblationPage(experiment.name, experiment.folder.url)
    with page.until_the_end():
        result = ablation.ablate(experiment, partial(over_cluster, page), lambda step: page.begin(step, 1))
        write_pages(experiment.folder, result)
    page.report(result)
    return result


def over_cluster(page: AblationPage, runs: Sequence[Run], _: int) -> list[RunRecord]:
    """Train runs on the workers, show their curves, and return their records."""
    page.train(runs)
    with watched(page.write), calling_on_result(lambda *_: page.advance()):
        return fan_out(operator.call, runs, stage=RUNS, source=None)
