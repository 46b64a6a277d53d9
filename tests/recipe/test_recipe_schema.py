"""The JSON Schema in recipes/ is generated from the fields, and accepts the same recipes as the commands."""

import json

import jsonschema
import pytest
import yaml
from small_corpus import REPOSITORY

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.recipe.schema import schema

PUBLISHED = REPOSITORY / "recipes/schema.json"


def test_schema_in_the_repository_is_up_to_date():
    assert PUBLISHED.read_text() == schema(), "make generate writes it"


@pytest.mark.parametrize(
    "name",
    [
        "demo.yaml",
        "zyda2.yaml",
        "zyda1.yaml",
        "fineweb.yaml",
        "fineweb2.yaml",
        "common-crawl.yaml",
        "wikipedia.yaml",
        "arxiv.yaml",
    ],
)
def test_recipes_of_the_repository_are_valid_and_name_the_schema(name):
    text = (REPOSITORY / "recipes" / name).read_text()
    assert text.startswith("# yaml-language-server: $schema=schema.json\n")
    jsonschema.validate(yaml.safe_load(text), json.loads(PUBLISHED.read_text()))


FIELDS = [
    *[
        (name,)
        for name in ("name", "storage", "tokenizer", "documents", "judges", "on_bad_rows", "shard_mib")
    ],
    *[(name,) for name in ("sample", "license", "languages", "sources", "dedup", "bogus")],
    *[
        ("dedup", name)
        for name in ("width", "values", "bands", "rows", "shingle", "scope", "exact", "verify", "bogus")
    ],
    *[
        ("sources", 0, name)
        for name in ("name", "files", "text", "keep", "classify", "on_bad_rows", "documents")
    ],
    *[("sources", 0, "classify", name) for name in ("model", "keep", "max_tokens", "revision", "bogus")],
]
VALUES = [
    None,
    True,
    0,
    1,
    -1,
    128,
    128.5,
    "128",
    "",
    "  ",
    "x",
    [],
    ["x"],
    [""],
    [1],
    [None],
    {},
    {"a": 1},
    [["x"]],
]


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: ".".join(map(str, field)))
def test_schema_accepts_the_same_values_as_the_command(corpus, field):
    validator = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_text()))
    for value in VALUES:
        recipe = json.loads(json.dumps(corpus.recipe))
        place = recipe
        for step in field[:-1]:
            place = place[step] if isinstance(step, int) else place.setdefault(step, {})
        if "classify" in field[:-1]:
            place["model"] = "m"
        place[field[-1]] = value
        corpus.path.write_text(yaml.safe_dump(recipe))
        try:
            load_recipe(str(corpus.path))
            is_accepted = True
        except BadRecipe:
            is_accepted = False
        assert validator.is_valid(yaml.safe_load(corpus.path.read_text())) == is_accepted, value
