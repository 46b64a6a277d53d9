"""Name runs by their corpus, not by the path of a recipe."""

from collections.abc import Callable

from prefect.runtime import flow_run

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.recipe.loading import load_recipe


def name_by_corpus(flow: str) -> Callable[[], str]:
    """Return a function that names a run of a flow, for example `build zyda2`."""

    def name() -> str:
        parameters = dict(flow_run.parameters)
        recipe = str(parameters.get("recipe"))
        try:
            corpus_recipe = load_recipe(
                recipe, storage=parameters.get("storage"), sample=parameters.get("sample")
            )
        except ZydaError:  # the flow itself reports an invalid recipe
            return f"{flow} {recipe.rpartition('/')[2]}"
        return f"{flow} {corpus_recipe.corpus}"

    return name


def name_by_experiment() -> str:
    """Return a name for a run that compares corpora, from the name of the experiment's file."""
    return f"ablate {str(flow_run.parameters.get('experiment')).rpartition('/')[2].rpartition('.')[0]}"


def name_by_mixture() -> str:
    """Return a name for a run that mixes corpora, from the name of the mixture's file."""
    return f"mix {str(flow_run.parameters.get('mixture')).rpartition('/')[2].rpartition('.')[0]}"
