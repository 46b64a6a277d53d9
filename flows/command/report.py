"""`zyda report`: write the pages with tables and plots about a corpus."""

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import say

EXAMPLES = ("zyda report recipe.yaml",)


def report(recipe_path: RecipePath, storage: Storage = None, sample: Sample = None) -> None:
    """Write two HTML pages, about the last build and about the published corpus, and print their addresses."""
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.flows.dashboard.report_artifact import write_report  # late
    from zyda_flows.flows.reporting.report_about import ABOUT  # late

    page = write_report(recipe)
    say(f"the last build: {page}")
    say(f"the corpus:     {page.rpartition('/')[0]}/{ABOUT}")
