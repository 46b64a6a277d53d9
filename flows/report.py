"""The flow that makes the report of a corpus: a page in its folder, and the same in Prefect's dashboard."""

from typing import Annotated

from prefect import flow
from pydantic import Field

from zyda_flows.flows.dashboard.report_artifact import show_report
from zyda_flows.flows.server.liveness import with_heartbeat
from zyda_flows.flows.server.run_names import name_by_corpus
from zyda_flows.flows.server.run_states import completed_state
from zyda_flows.tasks.recipe.loading import load_recipe

Sample = Annotated[float, Field(gt=0, le=1)]


@flow(name="report", flow_run_name=name_by_corpus("report"), persist_result=False)
def report(recipe: str, storage: str | None = None, sample: Sample | None = None) -> str:
    """Make the report of a published corpus; return its URL.

    Args:
        recipe: The recipe's YAML file, as a path on the machine that runs the flow.
        storage: The folder of the corpus, instead of the recipe's `storage`: any fsspec URL.
        sample: The part of the input that was used, more than 0 and at most 1. A sample is a separate corpus.
    """
    corpus_recipe = load_recipe(recipe, storage=storage, sample=sample)
    with with_heartbeat("zyda-report"):
        page = show_report(corpus_recipe)
    return completed_state(page, f"The report is {page}.")
