"""The report of a corpus, written to its folder and shown in Prefect's dashboard."""

from prefect.artifacts import create_markdown_artifact

from zyda_flows.flows.dashboard.artifact_keys import artifact_key
from zyda_flows.flows.reporting.markdown import without_code
from zyda_flows.flows.reporting.report_about import ABOUT, about_sections
from zyda_flows.flows.reporting.report_markdown import as_markdown
from zyda_flows.flows.reporting.report_page import PAGE, about_page, page, sections
from zyda_flows.flows.reporting.report_parts import Section
from zyda_flows.tasks.lookup.report_data import findings_of
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.recipe.fields import Recipe


def write_report(recipe: Recipe) -> str:
    """Write the report to the folder of the corpus and return its URL. ABOUT is in the same folder."""
    url, _ = write_pages(recipe, findings_of(recipe))
    return url


def write_pages(recipe: Recipe, findings: Findings) -> tuple[str, list[Section]]:
    """Write both pages, and return the URL of the report and the sections of both pages."""
    folder = recipe.folder
    about, chapters = list(about_sections(findings)), list(sections(findings))
    folder.write(ABOUT, about_page(recipe, findings, about).encode())
    folder.write(PAGE, page(recipe, findings, chapters).encode())
    return f"{folder.url}/{PAGE}", [*chapters, *about]


def show_report(recipe: Recipe) -> str:
    """Write the report and show it in the dashboard as an artifact of the current flow run; return its URL."""
    findings = findings_of(recipe)
    url, chapters = write_pages(recipe, findings)
    create_markdown_artifact(
        without_code(as_markdown(recipe, findings, chapters)),
        key=artifact_key(recipe, "report"),
        description="The report",
    )
    return url
