"""The flows that train small models: they compare variants, propose a mixture, or explain what a recipe removed."""

import operator
from collections.abc import Callable, Sequence
from functools import partial

from prefect import flow

from zyda_flows.flows.dashboard.ablation_page import RUNS, AblationPage
from zyda_flows.flows.reporting import ablations
from zyda_flows.flows.reporting.ablations import WrittenResult
from zyda_flows.flows.server.exclusion import ablation_lock
from zyda_flows.flows.server.run_names import name_by_corpus, name_by_experiment
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.ablation.ablation import RunJobs, Say
from zyda_flows.tasks.ablation.experiment import load_experiment
from zyda_flows.tasks.ablation.progress import watched
from zyda_flows.tasks.ablation.records import RunRecord
from zyda_flows.tasks.ablation.runs import Run
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.spent import calling_on_result
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.prefect_tasks import ONCE_A_BUILD, task
from zyda_flows.tasks.stage.runner import task_runner

Question = Callable[[RunJobs, Say], WrittenResult]


@flow(name="ablate", flow_run_name=name_by_experiment, task_runner=task_runner(), persist_result=False)
def ablate(experiment: str, storage: str | None = None, swarm: int | None = None) -> str:
    """Compare variants of a corpus by small models, trained on the cluster; return the URL of the page.

    Args:
        experiment: The experiment's YAML file, as a path on the machine that runs the flow.
        storage: The folder of the experiment, instead of the file's `storage`: any fsspec URL.
        swarm: Train on this number of random mixtures of the first variant's parts instead, and propose a mixture.
    """
    loaded = load_experiment(experiment, storage=storage)
    with ablation_lock(loaded.name, loaded.folder.url):
        if swarm is None:
            question = partial(ablations.compare_variants, loaded)
        else:
            question = partial(ablations.propose_mixture, loaded, swarm, None)
        result: WrittenResult = train_models.submit(loaded.name, loaded.folder.url, question).result()
    return completed_state(result.urls[-1], *result.sentences, f"The page is {result.urls[-1]}.")


@flow(
    name="removals", flow_run_name=name_by_corpus("removals"), task_runner=task_runner(),
    persist_result=False,
)  # fmt: skip
def explain_removals(
    recipe: str, storage: str | None = None, tokens: str = "5M", parameters: str | None = None
) -> str:
    """Compare what a recipe removed with what it kept, by small models trained on what is kept.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow. Its corpus is built.
        storage: The folder of the results, instead of `ablation` in the folder of the corpus: any fsspec URL.
        tokens: Tokens of a run, at most 80 % of the kept tokens.
        parameters: Parameters of the model. By default they depend on the vocabulary.
    """
    options = ablations.options_of_removed(tokens, parameters, storage)
    corpus = load_recipe(recipe)
    with ablation_lock(corpus.corpus, corpus.folder.url):
        question = partial(ablations.explain_removals, recipe, options)
        result: WrittenResult = train_models.submit(corpus.corpus, corpus.folder.url, question).result()
    return completed_state(result.urls[-1], *result.sentences, f"The page is {result.urls[-1]}.")


@task(task_run_name="ablate", **ONCE_A_BUILD)
def train_models(name: str, url: str, question: Question) -> WrittenResult:
    """Train the missing runs, show the progress, and write the page and the card. name, url: on the page."""
    page = AblationPage(name, url)
    with page.until_the_end():
        result = question(partial(over_cluster, page), lambda step: page.begin(step, 1))
    page.report(result.page.card())
    return result


def over_cluster(page: AblationPage, runs: Sequence[Run], _: int) -> list[RunRecord]:
    """Train runs on the workers, show their curves, and return their records."""
    page.train(runs)
    with watched(page.write), calling_on_result(lambda *_: page.advance()):
        return fan_out(operator.call, runs, stage=RUNS, source=None)
