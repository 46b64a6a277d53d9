"""Test that lists of the documentation name all elements, for example all commands, and nothing else."""

import re

import pytest
import typer
import yaml
from small_corpus import REPOSITORY

from docs.generate import PAGES
from zyda_flows.flows.command.cli import app
from zyda_flows.tasks.dedup.likeness import AUDIT
from zyda_flows.tasks.extraction.extractors import EXTRACTORS
from zyda_flows.tasks.recipe.cleaning import NAMED_CLEANINGS, Cleaning, PersonalData
from zyda_flows.tasks.recipe.rule_sets import RULE_SETS
from zyda_flows.tasks.sources.decoders import COMPRESSIONS
from zyda_flows.tasks.sources.reading import FORMATS, plain_ending


def page(name):
    return (REPOSITORY / name).read_text()


def chapter(name, title):
    """Return a chapter of a page, up to the next title."""
    return re.split(r"^#+ ", page(name).split(f"# {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def first_cells(text):
    """Return the names in the first cell of each row of the tables of a text."""
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_readme_lists_every_command():
    listed = set(re.findall(r"^ {4}zyda ([\w-]+)", page("README.md"), re.MULTILINE))
    assert listed == set(typer.main.get_command(app).commands)


@pytest.mark.parametrize("name", ["README.md", "docs/recipe.md"])
def test_recipes_and_mixtures_are_all_named(name):
    named = set(re.findall(r"(?<!mixtures/)\b([\w-]+\.yaml)", page(name)))
    recipes = {path.name for path in (REPOSITORY / "recipes").glob("*.yaml")}
    assert named >= recipes - (
        {"demo.yaml"} if name == "README.md" else set()
    )  # which is what `make run` builds


def test_operations_names_every_deployment_with_its_tag():
    deployments = yaml.safe_load(page("deployments/prefect.yaml"))["deployments"]
    text = chapter("docs/operations.md", "Run it from Prefect")
    assert re.findall(r"^- `(\w+/\w+)`", text, re.MULTILINE) == [
        f"{deployment['name']}/{deployment['name']}" for deployment in deployments
    ]
    tags = re.findall(r"`(\w+)`", text.partition("A run has the name")[2].partition("`deployments/")[0])
    assert [tag for tag in tags if "/" not in tag] == [deployment["tags"][1] for deployment in deployments]


def test_table_of_formats_has_every_format_with_its_endings():
    text = chapter("docs/raw-web.md", "Formats")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text, re.MULTILINE)
    endings = {
        name: set(re.findall(r"`(\.\w+)`", cell.partition(";")[0])) for name, cell in rows if name != "format"
    }
    assert endings == {kind.NAME: {plain_ending(end) for end in kind.ENDINGS} for kind in FORMATS}
    (compressions,) = re.findall(r"may be compressed: (.*?)\. A", text)
    assert re.findall(r"`(\.\w+)`", compressions) == list(COMPRESSIONS)
    assert {kind.NAME for kind in FORMATS if not {*COMPRESSIONS} & {end[-4:] for end in kind.ENDINGS}} == {
        "parquet", "arrow", "arxiv"}  # fmt: skip
    for name in ("README.md", "docs/first-corpus.md", "docs/recipe.md"):
        assert "raw-web.md#formats" in page(name), name


def test_tables_of_steps_have_every_name():
    cleaning = first_cells(chapter("docs/documents.md", "clean"))
    assert cleaning == list(Cleaning.model_fields)
    named = re.findall(r"`clean: ([\w-]+)`", page("docs/documents.md"))
    assert set(NAMED_CLEANINGS) <= set(named)
    kinds = first_cells(chapter("docs/documents.md", "Personal data"))
    assert set(kinds) == set(PersonalData.model_fields) - {"columns"}
    assert first_cells(chapter("docs/documents.md", "filter")) == list(RULE_SETS)
    assert first_cells(chapter("docs/raw-web.md", "extract")) == [*EXTRACTORS, "module:function"]


def test_columns_of_the_audit_are_all_explained():
    explained = first_cells(chapter("docs/duplicates.md", "The audit"))
    outputs = page("docs/outputs.md").partition("| `audit/` |")[2].partition("| `overlap/` |")[0]
    beside = {"doc_id", "kept_doc_id", "source", "characters", "kept_characters"}
    assert {*explained, *beside} == set(AUDIT.names)
    assert set(re.findall(r"`(\w+)`", outputs)) == set(AUDIT.names)


def test_guide_names_the_pages_that_are_made_from_the_code():
    (named,) = re.findall(r"pages of docs/ \(([^)]*)\) are made", page("CONTRIBUTING.md"))
    assert {f"docs/{name.replace(' ', '-')}.md" for name in named.split(", ")} == set(PAGES)


def test_rows_of_the_table_of_tools_are_whole():
    rows = (
        chapter("README.md", "Comparison with other tools")
        .partition("\n\nThe other tools")[0]
        .strip()
        .split("\n")
    )
    assert {row.count("|") for row in rows} == {rows[0].count("|")}
