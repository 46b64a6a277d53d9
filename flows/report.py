"""The flow that makes the report of a corpus: one page with everything inside, readable in print."""

from importlib.resources import files

from jinja2 import Environment
from prefect import flow
from prefect.artifacts import create_link_artifact

from flows.build import Sample
from flows.dashboard import plots
from flows.dashboard.run_artifacts import artifact_key, link_to
from flows.server.liveness import living
from tasks.accounts.audited import MEASURES
from tasks.accounts.ledger import ways
from tasks.publish.audits import SIMILARITIES
from tasks.publish.findings import Findings, find
from tasks.recipe.fields import Recipe
from tasks.recipe.loading import load_recipe

PAGE = "report.html"


def page(recipe: Recipe, findings: Findings) -> str:
    """Write the page."""
    template = Environment(autoescape=True).from_string((files("flows.dashboard") / PAGE).read_text())
    return template.render(
        name=recipe.corpus,
        counts=findings.ledger.of(findings.ledger.stages[-1]),
        on_the_way=findings.ledger.on_the_way,
        ways=ways(findings.ledger),
        plots=chosen_plots(findings),
        largest=findings.largest,
        audit=findings.audit,
        similarities=SIMILARITIES,
        measures=MEASURES,
    )


def chosen_plots(findings: Findings) -> list[tuple[str, str, str]]:
    """Return title, note and picture of each plot that there are numbers for."""
    chosen = [
        (
            "Tokens after each stage",
            "Each bar is what a stage let through, by source.",
            plots.funnel(findings.ledger),
        ),
        ("Composition", "Each source's share of the tokens.", plots.composition(findings)),
        ("Lengths", "Of the documents that are published.", plots.lengths(findings)),
    ]
    if findings.cluster_sizes:
        note = "Near-duplicates come in clusters; most are small."
        chosen.append(("Sizes of duplicate clusters", note, plots.cluster_sizes(findings)))
        note = (
            "In each field, the clusters that hold documents of both sources; on the diagonal, all that hold "
            "documents of the source. Dark: a large share of the row's clusters."
        )
        chosen.append(("Who shares duplicates with whom", note, plots.shared_clusters(findings)))
    if findings.rules:
        note = (
            "Of each source's documents, the share that went by a rule. A document counts for the first rule that "
            "it broke; on the right, the share of them that broke another one, too, as far as that was looked at."
        )
        chosen.append(("What the rules took", note, plots.rules(findings)))
    if findings.audit:
        note = (
            f"{findings.audit.headline.sentence()} Of the pairs up to a length, the share that is so unlike:"
        )
        chosen.append(("Removed, and like nothing that was kept", note, plots.unlike(findings.audit)))
    if findings.labels:
        several = sum(findings.mixed_labels.values())
        mixed = several - findings.mixed_labels.get(1, 0)
        note = f"Of {several:,} clusters with several labelled documents, {mixed:,} hold more than one label."
        chosen.append(("Quality labels", note, plots.labels(findings)))
    return chosen


def write_report(recipe: Recipe) -> str:
    """Make the report and put it beside the published corpus; return its URL."""
    folder = recipe.folder
    folder.write(PAGE, page(recipe, find(recipe)).encode())
    return f"{folder.url}/{PAGE}"


@flow(name="report", flow_run_name="report {recipe}", persist_result=False)
def report(recipe: str, storage: str | None = None, sample: Sample | None = None) -> str:
    """Make the report of a published corpus; return its URL.

    Args:
        recipe: The recipe's YAML file, as the machine that runs the flow sees it.
        storage: Where the corpus goes, instead of where the recipe says: any fsspec URL.
        sample: The part of the input to use, more than 0 and at most 1. A sample is a corpus of its own.
    """
    plan = load_recipe(recipe, storage=storage, sample=sample)
    with living("zyda-report"):
        url = write_report(plan)
    create_link_artifact(
        link_to(url), link_text=url, key=artifact_key(plan, "report"), description="The report"
    )
    return url
