"""`zyda report`: a page of plots about a corpus."""

from zyda_flows.flows.command.arguments import RecipePath, Sample, Storage, load
from zyda_flows.flows.command.terminal import say

EXAMPLES = ("zyda report recipe.yaml",)


def report(recipe_path: RecipePath, storage: Storage = None, sample: Sample = None) -> None:
    """Make the pages about the published corpus, and print where they are: of this build, and of the corpus."""
    recipe = load(recipe_path, storage, sample)
    from zyda_flows.flows.dashboard.report_artifact import write_report  # late
    from zyda_flows.flows.reporting.report_about import ABOUT  # late

    page = write_report(recipe)
    say(f"the last build: {page}")
    say(f"the corpus:     {page.rpartition('/')[0]}/{ABOUT}")
