"""`zyda check`: everything that a build finds out before it works, without building anything."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zyda_flows.flows.command.arguments import RecipePath, Replace, Sample, Storage, load
from zyda_flows.flows.command.terminal import as_size, console, in_threads, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from zyda_flows.tasks.planning.checked import Checked
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = ("zyda check recipe.yaml",)
NO_FAULT = (
    "No fault was found. Of each new file only the first rows were read, or its footer: faults further in show "
    "in a build."
)
MOST_DAMAGED = 10  # files that are named


def check(
    recipe_path: RecipePath, storage: Storage = None, sample: Sample = None, replace: Replace = False
) -> None:
    """Look for every fault that can be found before work, and say what a build would read. Builds nothing.

    Sources are listed, a part of every new file is read, tokenizer and models are looked at.
    """
    check_recipe(load(recipe_path, storage, sample), replace=replace)


def check_recipe(recipe: "Recipe", *, replace: bool) -> None:
    """Print what a build would read. Raises BadRecipe with every fault."""
    from zyda_flows.tasks.planning.checked import check  # late

    found = check(recipe, replace=replace, spread=in_threads)
    console().print(sizes_by_source(found))
    for line in lines_about(found):
        console().print(line, markup=False, soft_wrap=True)


def sizes_by_source(found: "Checked") -> "Table":
    """Make the table of the sources: files, those that are new, bytes, and rows where footers have them."""
    table = table_of("source", "files", "new", "size", "rows", words=["source"])
    for source in found.sources:
        rows = "" if source.rows is None else f"{source.rows:,}"
        table.add_row(source.name, f"{source.files:,}", f"{source.new_files:,}", as_size(source.size), rows)
    return table


def lines_about(found: "Checked") -> Iterator[str]:
    """Yield what was found of tokenizer, models, other corpora and files, and where the corpus goes."""
    yield f"tokenizer: {found.tokenizer}, {found.counted_by}"
    yield from (f"model of {source}: {model}" for source, model in found.models.items())
    yield from (f"against: {label}, {documents:,} documents" for label, documents in found.against.items())
    yield from (f"to be set aside: {file.url}: {file.fault}" for file in found.damaged[:MOST_DAMAGED])
    if len(found.damaged) > MOST_DAMAGED:
        yield f"and {len(found.damaged) - MOST_DAMAGED:,} more"
    yield from found.shared_files
    yield f"corpus: {found.url}"
    yield "It is complete: a build has nothing to do." if found.is_complete else NO_FAULT
