"""Test the file that describes a mixture: its schema, paths and token amounts."""

import json

import jsonschema
import pytest
import yaml
from small_corpus import REPOSITORY

from zyda_flows.tasks.mixing.mixture import Mixture, load_mixture
from zyda_flows.tasks.recipe.schema import schema

FOLDER = REPOSITORY / "mixtures"


def test_schema_in_the_repository_is_up_to_date():
    assert (FOLDER / "schema.json").read_text() == schema(Mixture), "make generate writes it"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.name)
def test_mixtures_of_the_repository_are_valid_and_name_the_schema(path):
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    jsonschema.validate(yaml.safe_load(text), json.loads((FOLDER / "schema.json").read_text()))
    assert load_mixture(str(path)).parts


def test_zyda_2_mixture_lists_the_sources_of_its_recipe():
    recipe = yaml.safe_load((REPOSITORY / "recipes/zyda2.yaml").read_text())
    mixture = load_mixture(str(FOLDER / "zyda2.yaml"))
    assert {source for part in mixture.parts for source in part.sources} == {
        source["name"] for source in recipe["sources"]
    }
    assert [part.weight for part in mixture.parts] == [47.5, 47.5, 5]
    assert mixture.corpora == (f"{recipe['storage']}/{recipe['name']}",)


@pytest.mark.parametrize(
    ("amount", "tokens"), [(1000, 1000), ("1e9", 1e9), ("100B", 1e11), ("1.5T", 1.5e12), ("2 M", 2e6)]
)
def test_token_amounts_accept_suffixes_and_exponents(tmp_path, amount, tokens):
    content = {"name": "m", "storage": "out", "tokenizer": "t.json", "corpora": "c", "budget": {"tokens": amount},
               "parts": [{"name": "a", "weight": 1}]}  # fmt: skip
    path = tmp_path / "m.yaml"
    path.write_text(yaml.safe_dump(content))
    mixture = load_mixture(str(path))
    assert mixture.budget.tokens == tokens
    assert (mixture.storage, mixture.corpora) == (str(tmp_path / "out"), (str(tmp_path / "c"),))
    assert mixture.tokenizer == str(tmp_path / "t.json")
    assert load_mixture(str(path), storage="s3://b").storage == "s3://b"
