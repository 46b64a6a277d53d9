"""The report of a corpus as Prefect's dashboard shows it."""

from prefect.artifacts import create_markdown_artifact

from flows.dashboard.artifact_keys import artifact_key
from flows.reporting.markdown import without_code
from flows.reporting.report_about import ABOUT
from flows.reporting.report_markdown import as_markdown
from flows.reporting.report_page import PAGE, about_page, page
from tasks.lookup.report_data import Findings, findings_of
from tasks.recipe.fields import Recipe


def write_report(recipe: Recipe) -> str:
    """Make the report and put it beside the published corpus; return its URL."""
    return written(recipe, findings_of(recipe))


def written(recipe: Recipe, findings: Findings) -> str:
    """Write the pages and return the URL of the first."""
    folder = recipe.folder
    folder.write(ABOUT, about_page(recipe, findings).encode())
    folder.write(PAGE, page(recipe, findings).encode())
    return f"{folder.url}/{PAGE}"


def show_report(recipe: Recipe) -> str:
    """Write the report and show it in the dashboard, beside the flow run that this is in; return its URL."""
    findings = findings_of(recipe)
    url = written(recipe, findings)
    create_markdown_artifact(
        without_code(as_markdown(recipe, findings)),
        key=artifact_key(recipe, "report"),
        description="The report",
    )
    return url
