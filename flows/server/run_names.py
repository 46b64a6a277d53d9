"""What runs are called: by their corpus, and not by the path of a recipe."""

from collections.abc import Callable

from prefect.runtime import flow_run

from zyda_flows.tasks.errors import ZydaError
from zyda_flows.tasks.recipe.loading import load_recipe


def name_by_corpus(flow: str) -> Callable[[], str]:
    """Return what names a run of a flow: `build zyda2`."""

    def name() -> str:
        parameters = dict(flow_run.parameters)
        recipe = str(parameters.get("recipe"))
        try:
            corpus_recipe = load_recipe(
                recipe, storage=parameters.get("storage"), sample=parameters.get("sample")
            )
        except ZydaError:  # the flow itself says what is wrong with it
            return f"{flow} {recipe.rpartition('/')[2]}"
        return f"{flow} {corpus_recipe.corpus}"

    return name


def name_by_mixture() -> str:
    """Name a run that mixes corpora by the file that describes the mixture."""
    return f"mix {str(flow_run.parameters.get('mixture')).rpartition('/')[2].rpartition('.')[0]}"
