"""`zyda check`: everything that a build finds out before it works, without building anything."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zyda_flows.flows.command.arguments import RecipePath, Replace, Sample, Storage, load
from zyda_flows.flows.command.terminal import as_size, console, in_threads, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from zyda_flows.tasks.planning.survey import SourceSurvey
    from zyda_flows.tasks.recipe.fields import Recipe
    from zyda_flows.tasks.sources.listing import InputFile

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
    from zyda_flows.tasks.planning.prepare import preflight  # late

    survey = preflight(recipe, replace=replace, spread=in_threads)
    console().print(sizes_by_source(recipe, survey))
    for line in (
        *judges_of(recipe),
        *reference_corpora_lines(recipe),
        *damaged_of(survey),
        *shared_files(recipe, survey),
        *outcome(recipe),
    ):
        console().print(line, markup=False, soft_wrap=True)


def sizes_by_source(recipe: "Recipe", survey: "SourceSurvey") -> "Table":
    """Make the table of the sources: files, those that are new, bytes, and rows where footers say them."""
    table = table_of("source", "files", "new", "size", "rows", words=["source"])
    columns = zip(recipe.sources, survey.chosen, survey.inspected, strict=True)
    for source, files, inspected in columns:
        known = {file.key: file for file in survey.register.files.get(source.name, ())}
        known |= {result.file.key: result.file for result in inspected}
        rows = rows_of([known[file.key] for file in files])
        size = as_size(sum(file.size for file in files))
        shown = "" if rows is None else f"{rows:,}"
        table.add_row(source.name, f"{len(files):,}", f"{len(inspected):,}", size, shown)
    return table


def rows_of(files: "Sequence[InputFile]") -> int | None:
    """Add up the rows of files, or return None where one has no footer that says how many it has."""
    rows = [piece.rows for file in files for piece in file.pieces]
    return None if None in rows else sum(row for row in rows if row is not None)


def judges_of(recipe: "Recipe") -> list[str]:
    """Say which tokenizer and models were found in order, and what counts the tokens."""
    from zyda_flows.tasks.tokens.stored import counted_by, load_tokenizer  # late

    lines = [f"tokenizer: {recipe.tokenizer}, {counted_by(load_tokenizer(recipe.tokenizer))}"]
    lines += [f"model of {s.name}: {s.classify.model}" for s in recipe.sources if s.classify]
    return lines


def reference_corpora_lines(recipe: "Recipe") -> list[str]:
    """Say which corpora a round is against, and how large they are."""
    from zyda_flows.tasks.dedup.reference.corpora import corpora_of  # late

    return [
        f"against: {other.label}, {max(keys.documents for keys in other.manifest.bands.values()):,} documents"
        for other in corpora_of(recipe).values()
    ]


def damaged_of(survey: "SourceSurvey") -> list[str]:
    """Name the new files that cannot be read, which a build would set aside."""
    files = [found for inspected in survey.inspected for found in inspected if found.fault]
    more = [f"and {len(files) - MOST_DAMAGED:,} more"] if len(files) > MOST_DAMAGED else []
    return [f"to be set aside: {found.file.url}: {found.fault}" for found in files[:MOST_DAMAGED]] + more


def shared_files(recipe: "Recipe", survey: "SourceSurvey") -> list[str]:
    """Say which sources read the same files, whose documents are all near-duplicates then."""
    lines, seen = list[str](), dict[str, str]()
    for source, files in zip(recipe.sources, survey.chosen, strict=True):
        twice = [seen[file.url] for file in files if file.url in seen]
        lines += [
            f"source {source.name} reads {twice.count(other):,} of the files that source {other} reads, too"
            for other in dict.fromkeys(twice)
        ]
        seen |= {file.url: source.name for file in files if file.url not in seen}
    return lines


def outcome(recipe: "Recipe") -> list[str]:
    """Say where the corpus goes, and whether there is anything to do."""
    from zyda_flows.tasks.planning.last_build import ledger_if_complete  # late

    is_complete = ledger_if_complete(recipe) is not None
    conclusion = "It is complete: a build has nothing to do." if is_complete else NO_FAULT
    return [f"corpus: {recipe.folder.url}/published", conclusion]
