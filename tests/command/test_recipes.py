"""Test `zyda recipes`, which lists and copies the recipes of the package, and the files of `zyda demo`."""

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
    *sorted(f"experiments/{path.stem}" for path in (REPOSITORY / "experiments").glob("*.yaml")),
]
FOR_EDITORS = r"# yaml-language-server: \$schema=(.*schema\.json)\n"


def test_list_has_every_recipe_and_mixture_with_a_description():
    output = zyda_here("recipes").stdout
    rows = [
        [cell.strip() for cell in line.split("│")[1:3]]
        for line in output.splitlines()
        if line.startswith("│")
    ]
    assert [name for name, _ in rows if name] == NAMES
    assert {bool(description) for _, description in rows} == {True}
    assert "5 trillion tokens out of 11.5." in output


@pytest.mark.parametrize("name", NAMES)
def test_printed_copy_has_the_local_path_of_the_schema(name):
    completed = zyda_here("recipes", name)
    path = REPOSITORY / (f"{name}.yaml" if "/" in name else f"recipes/{name}.yaml")
    head = re.match(FOR_EDITORS, completed.stdout)
    with open(head[1]) as schema:
        assert schema.read() == path.with_name("schema.json").read_text()
    assert completed.stdout[head.end() :] == path.read_text().partition("\n")[2]


def test_copy_never_overwrites_a_file(tmp_path):
    copy = tmp_path / "my.yaml"
    completed = zyda_here("recipes", "zyda2", "--to", str(copy))
    assert completed.returncode == 0
    assert completed.stdout.endswith(f"zyda check {copy}\n")
    assert load_recipe(str(copy)).name == "zyda2"
    content = copy.read_bytes()
    second = zyda_here("recipes", "zyda1", "--to", str(copy))
    assert (second.returncode, second.stderr) == (
        1,
        f"zyda: {copy}: the file exists; give another name, or remove it\n",
    )
    assert copy.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            ["zyda3"],
            "zyda3: the package has no recipe, mixture or experiment of this name; zyda recipes lists them",
        ),
        (
            ["../recipes/zyda2"],
            "../recipes/zyda2: the package has no recipe, mixture or experiment of this name",
        ),
        (["zyda2", "--to", "/nowhere/my.yaml"], "/nowhere/my.yaml: No such file or directory"),
    ],
)
def test_unknown_name_or_path_is_one_line(arguments, fault):
    completed = zyda_here("recipes", *arguments)
    assert (completed.returncode, completed.stdout) == (1, "")
    assert completed.stderr.startswith(f"zyda: {fault}")


def test_demo_without_the_libraries_of_models_has_no_model(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    write_demo(tmp_path / "demo", 2)
    assert "pip install 'zyda-flows[models]'" in capsys.readouterr().out
    recipe = load_recipe(str(tmp_path / "demo/recipe.yaml"))
    mixture = load_mixture(str(tmp_path / "demo/mixture.yaml"))
    assert [source.name for source in recipe.sources if source.classify] == []
    assert [part.name for part in mixture.parts] == ["documentation", "the-rest"]
    monkeypatch.undo()
    write_demo(tmp_path / "demo", 2)  # now torch can be imported
    recipe = load_recipe(str(tmp_path / "demo/recipe.yaml"))
    assert [source.name for source in recipe.sources if source.classify] == ["docstrings"]


@pytest.mark.parametrize("name", ["recipe", "mixture"])
def test_demo_does_not_overwrite_a_changed_file(tmp_path, name):
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"name": "mine"}))
    with pytest.raises(
        Denied, match=rf"{name}\.yaml: this file has been changed; use zyda \w+ \S+{name}\.yaml, or"
    ):
        write_demo(tmp_path, 2)
    assert list(tmp_path.iterdir()) == [path]
