"""`zyda report`: a page of plots about a corpus."""

from flows.command.arguments import RecipePath, Sample, Storage, load
from flows.command.terminal import say

EXAMPLES = ("zyda report recipe.yaml",)


def report(recipe_path: RecipePath, storage: Storage = None, sample: Sample = None) -> None:
    """Make a page of plots about the published corpus, and print where it is."""
    recipe = load(recipe_path, storage, sample)
    from flows.dashboard.report_artifact import write_report  # late

    say(write_report(recipe))
