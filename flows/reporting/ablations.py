"""Answer the questions of `zyda ablate`: train the missing runs, and write the page and the card of the result."""

from typing import TYPE_CHECKING, NamedTuple

from zyda_flows.flows.reporting.ablation_page import page_of
from zyda_flows.flows.reporting.result_page import ResultPage
from zyda_flows.tasks.ablation.ablation import RunJobs, Say
from zyda_flows.tasks.ablation.experiment import Experiment
from zyda_flows.tasks.ablation.libraries import expect_libraries
from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.mixing.mixture import amount
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.storage.folder import Folder

if TYPE_CHECKING:
    from zyda_flows.tasks.ablation.removed import RemovedOptions

MOST_MIXTURES = 10_000


class WrittenResult(NamedTuple):
    """A written page. sentences: the result. files: further files of it, relative to the folder."""

    folder: Folder
    page: ResultPage
    sentences: list[str]
    files: tuple[str, ...] = ()

    @property
    def urls(self) -> list[str]:
        return [f"{self.folder.url}/{path}" for path in (*self.files, self.page.path)]


def compare_variants(experiment: Experiment, run_jobs: RunJobs, say: Say) -> WrittenResult:
    """Compare the variants of an experiment."""
    from zyda_flows.tasks.ablation.ablation import ablate  # late: scipy
    from zyda_flows.tasks.ablation.results import control_sentences, sentence

    result = ablate(experiment, run_jobs, say)
    verdicts = [f"{sentence(each, result.baseline)}." for each in result.comparisons]
    return written(experiment.folder, page_of(result), [*verdicts, *control_sentences(result)])


def propose_mixture(
    experiment: Experiment, count: int | None, tables: tuple[str, str] | None, run_jobs: RunJobs, say: Say
) -> WrittenResult:
    """Propose a mixture from a new swarm of `count` random mixtures, or from the two tables of a swarm.

    Raises BadRequest for a count that is not from 1 to MOST_MIXTURES.
    """
    expect_libraries()
    if tables is None and not 1 <= (count or 0) <= MOST_MIXTURES:
        raise BadRequest(f"swarm: {count}: expected 1 to {MOST_MIXTURES:,} random mixtures")
    from zyda_flows.flows.reporting import swarm_page  # late: scipy
    from zyda_flows.tasks.ablation.swarm import MIXTURE, natural_variant, proposed, train_swarm
    from zyda_flows.tasks.ablation.swarm_tables import read_tables

    sentences = list[str]()
    if tables is None:
        found = train_swarm(experiment, count or 0, run_jobs, say)
    else:
        table = read_tables(*tables)
        if table.left_out:
            sentences.append(f"{table.left_out} runs are in a single table; they are left out.")
        say("fitting the measures")
        found = proposed(experiment, table, natural_variant(experiment))
    page = swarm_page.page_of(experiment.name, found)
    return written(experiment.folder, page, [*sentences, *swarm_page.gain_sentences(found)], MIXTURE)


def options_of_removed(tokens: str | None, parameters: str | None, storage: str | None) -> "RemovedOptions":
    """Return the options of `explain_removals`. Raises BadRequest for a number."""
    from zyda_flows.tasks.ablation.removed import RemovedOptions  # late: torch

    return RemovedOptions(
        parameters=None if parameters is None else number_of("parameters", parameters, 5e4, 1.5e8),
        tokens=number_of("tokens", tokens or "5M", 1e4, 1e11),
        storage=storage,
    )


def number_of(option: str, text: str, least: float, most: float) -> float:
    """Return a number such as 5M. Raises BadRequest."""
    try:
        value = float(str(amount(text)))
    except ValueError:
        value = 0.0
    if not least <= value <= most:
        raise BadRequest(f"{option}: {text}: expected a number from {least:,.0f} to {most:,.0f}, such as 5M")
    return value


def explain_removals(path: str, options: "RemovedOptions", run_jobs: RunJobs, say: Say) -> WrittenResult:
    """Compare what a recipe removed with what it kept. path: of the recipe."""
    expect_libraries()
    from zyda_flows.flows.reporting import removed_page  # late: torch
    from zyda_flows.tasks.ablation.removed import compare_removed, removed_experiment

    recipe = load_recipe(path)
    experiment = removed_experiment(recipe, path, options)
    result = compare_removed(recipe, experiment, options, run_jobs, say)
    return written(experiment.folder, removed_page.page_of(result), removed_page.sentences(result))


def written(folder: Folder, page: ResultPage, sentences: list[str], *files: str) -> WrittenResult:
    """Write a page and its card."""
    page.write(folder)
    return WrittenResult(folder, page, sentences, files)
