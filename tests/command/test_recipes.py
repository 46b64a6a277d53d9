"""`zyda recipes`: what comes with the package, as a person gets it. And the files of the demo, which are of it."""

import re
import sys

import pytest
import yaml
from small_corpus import REPOSITORY, zyda_here

from zyda_flows.flows.command.demo import write_demo
from zyda_flows.tasks.errors import Denied
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.recipe.loading import load_recipe

NAMES = [
    *sorted(path.stem for path in (REPOSITORY / "recipes").glob("*.yaml")),
    *sorted(f"mixtures/{path.stem}" for path in (REPOSITORY / "mixtures").glob("*.yaml")),
]
FOR_EDITORS = r"# yaml-language-server: \$schema=(.*schema\.json)\n"


def test_list_has_every_recipe_and_mixture_with_a_sentence():
    said = zyda_here("recipes").stdout
    rows = [
        [cell.strip() for cell in line.split("│")[1:3]] for line in said.splitlines() if line.startswith("│")
    ]
    assert [name for name, _ in rows if name] == NAMES
    assert {bool(sentence) for _, sentence in rows} == {True}
    assert "5 trillion tokens out of 11.5." in said


@pytest.mark.parametrize("name", NAMES)
def test_copy_is_the_file_with_the_schema_where_it_is(name):
    said = zyda_here("recipes", name)
    path = REPOSITORY / (f"{name}.yaml" if name.startswith("mixtures/") else f"recipes/{name}.yaml")
    head = re.match(FOR_EDITORS, said.stdout)
    with open(head[1]) as schema:
        assert schema.read() == path.with_name("schema.json").read_text()
    assert said.stdout[head.end() :] == path.read_text().partition("\n")[2]


def test_copy_never_overwrites_a_file(tmp_path):
    copy = tmp_path / "my.yaml"
    said = zyda_here("recipes", "zyda2", "--to", str(copy))
    assert said.returncode == 0
    assert said.stdout.endswith(f"zyda check {copy}\n")
    assert load_recipe(str(copy)).name == "zyda2"
    before = copy.read_bytes()
    again = zyda_here("recipes", "zyda1", "--to", str(copy))
    assert (again.returncode, again.stderr) == (
        1,
        f"zyda: {copy}: the file exists; give another name, or remove it\n",
    )
    assert copy.read_bytes() == before


@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        (
            ["zyda3"],
            "zyda3: the package has no recipe or mixture of this name; zyda recipes lists them",
        ),
        (["../recipes/zyda2"], "../recipes/zyda2: the package has no recipe or mixture of this name"),
        (["zyda2", "--to", "/nowhere/my.yaml"], "/nowhere/my.yaml: No such file or directory"),
    ],
)
def test_name_or_place_that_is_none_is_one_line(typed, fault):
    said = zyda_here("recipes", *typed)
    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr.startswith(f"zyda: {fault}")


def test_demo_without_the_libraries_of_models_has_no_model(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    write_demo(tmp_path / "demo", 2)
    assert "pip install 'zyda-flows[models]'" in capsys.readouterr().out
    recipe = load_recipe(str(tmp_path / "demo/recipe.yaml"))
    mixture = load_mixture(str(tmp_path / "demo/mixture.yaml"))
    assert [source.name for source in recipe.sources if source.classify] == []
    assert [part.name for part in mixture.parts] == ["documentation", "the-rest"]
    monkeypatch.undo()
    write_demo(tmp_path / "demo", 2)  # they are installed now
    recipe = load_recipe(str(tmp_path / "demo/recipe.yaml"))
    assert [source.name for source in recipe.sources if source.classify] == ["docstrings"]


@pytest.mark.parametrize("name", ["recipe", "mixture"])
def test_demo_leaves_a_file_that_is_not_its_own(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": "mine"}))
    with pytest.raises(
        Denied, match=rf"{name}\.yaml: this file has been changed; use zyda \w+ \S+{name}\.yaml, or"
    ):
        write_demo(tmp_path, 2)
    assert list(tmp_path.iterdir()) == [path]
