"""`zyda check`: run the checks that a build runs first, without building."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zyda_flows.flows.command.arguments import RecipePath, Replace, Sample, Storage, load
from zyda_flows.flows.command.terminal import as_size, console, in_threads, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from zyda_flows.tasks.planning.checked import CheckResult
    from zyda_flows.tasks.recipe.fields import Recipe

EXAMPLES = ("zyda check recipe.yaml",)
NO_FAULT = (
    "No fault was found. Only the first rows or the footer of each new file were read: a build may still find "
    "faults in later rows."
)
MOST_DAMAGED = 10  # damaged files in the output


def check(
    recipe_path: RecipePath, storage: Storage = None, sample: Sample = None, replace: Replace = False
) -> None:
    """Check the recipe and its sources for faults, and print the number and size of the files. Builds nothing.

    The command finds the files of all sources, reads a part of each new file, and loads the tokenizer and the
    models. The exit status is 0 only if it finds no fault.
    """
    check_recipe(load(recipe_path, storage, sample), replace=replace)


def check_recipe(recipe: "Recipe", *, replace: bool) -> None:
    """Print the files that a build would read. Raises BadRecipe with all faults."""
    from zyda_flows.tasks.planning.checked import check  # late

    checked = check(recipe, replace=replace, call_on_each=in_threads)
    console().print(sizes_by_source(checked))
    for line in result_lines(checked):
        console().print(line, markup=False, soft_wrap=True)


def sizes_by_source(checked: "CheckResult") -> "Table":
    """Return a table of the sources: files, new files, bytes, and rows if the footers of the files have them."""
    table = table_of("source", "files", "new", "size", "rows", words=["source"])
    for source in checked.sources:
        rows = "" if source.rows is None else f"{source.rows:,}"
        table.add_row(source.name, f"{source.files:,}", f"{source.new_files:,}", as_size(source.size), rows)
    return table


def result_lines(checked: "CheckResult") -> Iterator[str]:
    """Yield a line for the tokenizer, each model, other corpora, damaged files, shared files, and the corpus."""
    yield f"tokenizer: {checked.tokenizer}, {checked.token_counter}"
    for model in dict.fromkeys(model for models in checked.models.values() for model in models):
        sources = [source for source, models in checked.models.items() if model in models]
        yield f"model {model}: {', '.join(sources)}"
    for label, documents in checked.reference_documents.items():
        yield f"against: {label}, {documents:,} documents"
    yield from (f"to be set aside: {file.url}: {file.fault}" for file in checked.damaged[:MOST_DAMAGED])
    if len(checked.damaged) > MOST_DAMAGED:
        yield f"and {len(checked.damaged) - MOST_DAMAGED:,} more"
    yield from checked.shared_file_warnings
    yield f"corpus: {checked.url}"
    yield "The corpus is complete: a build has nothing to do." if checked.is_complete else NO_FAULT
