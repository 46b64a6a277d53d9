"""The flow that makes the report of a corpus: a page beside it, and the same in Prefect's dashboard."""

from typing import Annotated

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from pydantic import Field

from flows.dashboard.markdown import without_code
from flows.dashboard.run_artifacts import artifact_key
from flows.reporting.report_markdown import as_markdown
from flows.reporting.report_page import PAGE, page
from flows.server.liveness import living
from flows.server.run_names import by_corpus
from tasks.publish.findings import Findings, find
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe

# Not that of `flows.build`, which calls `show_report`.
Sample = Annotated[float, Field(gt=0, le=1)]


def write_report(recipe: Recipe) -> str:
    """Make the report and put it beside the published corpus; return its URL."""
    return written(recipe, find(recipe))


def written(recipe: Recipe, findings: Findings) -> str:
    """Write the page and return its URL."""
    folder = recipe.folder
    folder.write(PAGE, page(recipe, findings).encode())
    return f"{folder.url}/{PAGE}"


def show_report(recipe: Recipe) -> str:
    """Write the report and show it in the dashboard, beside the flow run that this is in; return its URL."""
    findings = find(recipe)
    url = written(recipe, findings)
    create_markdown_artifact(
        without_code(as_markdown(recipe, findings)),
        key=artifact_key(recipe, "report"),
        description="The report",
    )
    return url


@flow(name="report", flow_run_name=by_corpus("report"), persist_result=False)
def report(recipe: str, storage: str | None = None, sample: Sample | None = None) -> str:
    """Make the report of a published corpus; return its URL.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        storage: Where the corpus goes, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    with living("zyda-report"):
        return show_report(plan)
