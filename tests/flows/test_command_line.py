"""The command line: help, exit status, plain errors, and what explain says."""

import json
import os
import re

import pytest
import yaml
from small_corpus import REPOSITORY, build_here, table_of, zyda

from tasks import pipeline
from tasks.recipe.loading import load_recipe

COMMANDS = ("build", "explain", "ledger", "report")


@pytest.fixture
def built(corpus):
    recipe = corpus.load()
    build_here(recipe)
    return recipe


def test_every_command_has_help():
    said = zyda("--help")
    assert said.returncode == 0
    for command in COMMANDS:
        assert command in said.stdout
        one = zyda(command, "--help")
        assert one.returncode == 0
        assert "RECIPE" in one.stdout


@pytest.mark.parametrize("command", ["build", "ledger"])
def test_fault_in_a_recipe_is_a_line_and_exit_status_1(corpus, command):
    path = corpus.write(dedup={"bands": 7})
    said = zyda(command, path)
    assert said.returncode == 1
    assert re.fullmatch(
        r"zyda: .*recipe\.yaml:\d+: dedup: values \(128\) must be bands x rows .*\n", said.stderr
    )


def test_faults_in_the_input_are_lines_and_exit_status_1(corpus, tmp_path, server):
    sources = [
        {"name": "a", "files": "in/nothing*"},
        {"name": "b", "files": "in/best-*.parquet", "text": "body"},
    ]
    alone = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    said = zyda("build", corpus.write(sources=sources), env={**alone, "PREFECT_HOME": str(tmp_path / "home")})
    assert said.returncode == 1
    assert re.fullmatch(
        r"zyda: source a: no file matches .*nothing\*\n", said.stderr
    )  # and no server is asked
    again = zyda("build", corpus.write(sources=sources[1:]), env={**os.environ, "PREFECT_API_URL": server})
    assert len(re.findall(r"^zyda: source b, file .*no column 'body'", again.stderr, re.MULTILINE)) == 2


def test_ledger_prints_text_json_and_markdown(corpus, built):
    text, as_json, markdown = (
        zyda("ledger", str(corpus.path), "--format", form).stdout for form in ("text", "json", "markdown")
    )
    assert "middle" in text
    assert {row["source"] for row in json.loads(as_json)} == {"best", "middle", "worst"}
    assert markdown.startswith("| source | start |")


def test_ledger_of_nothing_says_so(corpus):
    said = zyda("ledger", corpus.write())
    assert said.returncode == 1
    assert "nothing is published there yet" in said.stderr


def test_explain_says_file_row_cluster_decision_and_difference(corpus, built):
    gone = next(
        row for row in table_of(built, "removed") if row["source"] == "middle" and row["kept_doc_id"] == 0
    )
    said = zyda("explain", str(corpus.path), str(gone["doc_id"])).stdout
    assert re.search(r"source middle, file .*in/middle\.jsonl\.gz, row 0", said)
    assert "It was removed by stage removals, reason duplicate" in said
    assert "4 documents" in said
    assert said.count("<- this") == 1
    assert said.count("<- kept for it") == 1
    assert re.search(r"^-.*edit0", said, re.MULTILINE)


def test_explain_of_a_document_that_stayed_or_was_filtered(corpus, built):
    assert "It is in the corpus." in zyda("explain", str(corpus.path), "0").stdout
    filtered = next(row for row in table_of(built, "removed") if row["reason"] == "keep")
    said = zyda("explain", str(corpus.path), str(filtered["doc_id"])).stdout
    assert "the recipe's `keep` is not true for it" in said


@pytest.mark.parametrize(
    ("doc_id", "fault"),
    [
        ("x", "is not a document id"),
        ("72057594037927999", "is no document"),
        (str(9 << 56), "no document of this corpus"),
    ],
)
def test_explain_of_an_id_that_is_none(corpus, built, doc_id, fault):
    said = zyda("explain", str(corpus.path), doc_id)
    assert said.returncode == 1
    assert fault in said.stderr


def test_every_recipe_of_the_project_loads():
    for path in (REPOSITORY / "recipes").glob("*.yaml"):
        assert load_recipe(str(path)).name == yaml.safe_load(path.read_text())["name"]


def test_readme_names_only_commands_that_there_are():
    readme = (REPOSITORY / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE)) <= targets
    help_text = zyda("--help").stdout
    for command in set(re.findall(r"\bzyda ([a-z]+)", readme)):
        assert re.search(rf"\b{command}\b", help_text), command


def test_readme_shows_the_stages_in_their_order():
    assert f"\n{' -> '.join(['prepare', *pipeline.names()])}\n" in (REPOSITORY / "README.md").read_text()


def test_readme_documents_every_field_of_a_recipe():
    from tasks.recipe.fields import Classify, Dedup, Recipe, Source

    readme = (REPOSITORY / "README.md").read_text()
    for model in (Recipe, Source, Dedup, Classify):
        for field, info in model.model_fields.items():
            name = info.alias or field
            assert f"`{name}`" in readme or f"{name}:" in readme, f"{model.__name__}.{name}"
