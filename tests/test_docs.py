"""Test the documentation: generated pages equal the code, link targets exist, and examples run."""

import ast
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from small_corpus import REPOSITORY, build_here, table_of

from docs.generate import PAGES
from zyda_flows import deployments, flows, tasks
from zyda_flows.flows.command.demo import write_demo
from zyda_flows.tasks import errors
from zyda_flows.tasks.ablation.experiment import load_experiment
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.recipe.loading import NumberedKeys, load_recipe

TEXTS = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), *REPOSITORY.glob("*/README.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("place", PAGES)
def test_page_that_is_made_from_the_code_is_as_the_code_is(place):
    assert (REPOSITORY / place).read_text() == PAGES[place](), "make generate writes it"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_to_files_that_are_there(path):
    links = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def blocks(language):
    """Return the blocks of code of the documentation in a language, each with the name of its file and its place."""
    found = [
        (f"{path.relative_to(REPOSITORY)}-{place}", block)
        for path in TEXTS
        for place, block in enumerate(re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL))
    ]
    assert found
    return pytest.mark.parametrize("block", [block for _, block in found], ids=[name for name, _ in found])


@blocks("yaml")
def test_recipe_of_the_documentation_loads(block, tmp_path):
    """Complete a block that is a part of a recipe."""
    whole = {
        "name": "x",
        "storage": "x",
        "tokenizer": "x.json",
        "sources": [{"name": "a", "files": "a/*.parquet"}],
    }
    said = yaml.load(block, Loader=NumberedKeys)
    path = tmp_path / "recipe.yaml"
    if "variants" in said:
        path.write_text(block)
        assert load_experiment(str(path)).variants
        return
    if "corpora" in said:
        path.write_text(block)
        assert load_mixture(str(path)).parts
        return
    path.write_text(yaml.safe_dump(whole | said))
    assert load_recipe(str(path)).sources


USES = re.findall(r"```python\n(.*?)```", (REPOSITORY / "textkernels/README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("use", USES, ids=["signatures", "sets", "rules", "languages"])
def test_use_of_the_library_runs(use, capsys):
    exec(compile(use, "textkernels/README.md", "exec"), {})
    assert capsys.readouterr().out


@blocks("python")
def test_python_of_the_documentation_compiles(block):
    compile(block, "the documentation", "exec")


NO_MODULES = {"zyda", "textkernels", "verify", "inspect", "read"}  # which docstrings of chapters name, too


@pytest.mark.parametrize("package", ["flows", "tasks", "deployments", "textkernels"])
def test_chapters_name_modules_that_are_there(package):
    for path in (REPOSITORY / package).rglob("__init__.py"):
        named = set(re.findall(r"`([a-z_]+)`", ast.get_docstring(ast.parse(path.read_text())) or ""))
        assert named - NO_MODULES <= {there.stem for there in path.parent.iterdir()}, path


GUIDE = (REPOSITORY / "CONTRIBUTING.md").read_text()
EXAMPLES = {
    "shouting",
    "brevity",
    "lengths",
    "plain_text",
    "most_words",
    "subtitles",
    "count",
    "report_shares",
}  # files that only the guide names
MOST_FILES = 35  # that a reader opens to follow a document


def file_in_guide(path):
    """Return the file that the guide names: below the repository, below tasks/, or the only file with that name."""
    places = [REPOSITORY / path, REPOSITORY / "tasks" / path]
    return next((place for place in places if place.exists()), None) or one_of_that_name(path)


def one_of_that_name(name):
    (found,) = [
        *(REPOSITORY / "tasks").rglob(name),
        *(REPOSITORY / "flows").rglob(name),
        *REPOSITORY.glob(f"textkernels/**/{name}"),
    ]
    return found


def test_files_that_the_guide_names_are_there():
    for path in {*re.findall(r"`([\w/]+\.py)`", GUIDE)}:
        if Path(path).stem not in EXAMPLES:
            assert file_in_guide(path).exists()


def test_names_that_the_guide_gives_with_their_files_are_in_them():
    pairs = re.findall(r"`([\w/]+\.py)`\s\(((?:`[\w.]+`(?:,\s)?)+)\)", GUIDE)
    pairs += [(path, f"`{name}`") for name, path in re.findall(r"`(\w+)`\s(?:of|in)\s`([\w/]+\.py)`", GUIDE)]
    assert len(pairs) > MOST_FILES
    for path, names in pairs:
        defined = set(defined_in(ast.parse(file_in_guide(path).read_text()).body))
        assert {*re.findall(r"`([\w.]+)`", names)} <= defined, path


def defined_in(body, prefix=""):
    """Yield the definitions of a module or a class, with the class before the name."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from defined_in(node.body, f"{node.name}.")
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))


def test_document_is_followed_through_a_bounded_number_of_files():
    walk = GUIDE.partition("## One document")[2].partition("\nThree parts are outside this path")[0]
    assert 25 < len({*re.findall(r"`([\w/]+\.py)`", walk)}) <= MOST_FILES


def test_errors_are_all_in_the_tree_that_is_drawn_of_them():
    for package in (flows, tasks, deployments):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "cuda" not in module.name and not module.name.endswith(("rapids", "__main__")):
                importlib.import_module(module.name)
    drawn = errors.__doc__ or ""
    kinds = {kind.__name__ for kind in subclasses(errors.ZydaError)}
    assert {"BadRecipe", "NoServer", "InvalidSchedule"} < kinds
    assert [name for name in kinds if f"{name} " not in drawn] == []


def subclasses(kind):
    for subclass in kind.__subclasses__():
        if subclass.__module__.startswith("zyda_flows."):
            yield subclass
            yield from subclasses(subclass)


@pytest.fixture(scope="module")
def demo(tmp_path_factory, compiled):
    """Return a folder with a copy of the repository's recipes and examples, and with the corpus of the demo."""
    folder = tmp_path_factory.mktemp("demo")
    for name in ("recipes", "examples"):
        shutil.copytree(REPOSITORY / name, folder / name)
    write_demo(folder / "demo")
    build_here(load_recipe(str(folder / "demo/recipe.yaml")))
    return folder


def at_repository():
    return {**os.environ, "PYTHONPATH": str(REPOSITORY)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    ["load_with_datasets", "count_with_polars", "read_with_pandas", "read_with_duckdb", "why_removed"],
)
def test_example_program_runs(demo, program, tmp_path):
    said = subprocess.run(
        [sys.executable, f"examples/{program}.py", "demo/demo/published"],
        cwd=demo, capture_output=True, text=True, check=False, env=at_repository() | {"HF_HOME": str(tmp_path)},
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    assert "docstrings" in said.stdout


@pytest.mark.slow
def test_example_of_a_rule_of_ones_own_removes_documents(demo, monkeypatch):
    monkeypatch.syspath_prepend(str(demo / "examples"))
    monkeypatch.setenv("ZYDA_STEPS", "own_rule")
    recipe = load_recipe(str(demo / "examples/own_rule.yaml"))
    build_here(recipe)
    notes = [row["note"] for row in table_of(recipe, "removed") if row["stage"] == "rules"]
    assert notes
    assert all(re.fullmatch(r"\d+ of \d+ lines are in capital letters", note) for note in notes)


@pytest.mark.slow
def test_example_against_another_corpus_has_nothing_of_it(demo):
    recipe = load_recipe(str(demo / "examples/against_another.yaml"))
    ledger = build_here(recipe)
    kept = load_recipe(str(demo / "demo/recipe.yaml"))
    assert ledger.removed("against").documents >= len(table_of(kept, "docstrings")) > 0


def test_examples_are_all_in_their_list():
    listed = (REPOSITORY / "examples/README.md").read_text()
    names = [path.name for path in Path(REPOSITORY / "examples").iterdir() if path.suffix in {".py", ".yaml"}]
    assert [name for name in names if f"({name})" not in listed] == []


def test_every_kind_of_round_has_its_fields_in_the_documentation():
    from docs.generate import MODELS
    from zyda_flows.tasks.recipe.kinds import AnyRound

    kinds = [get_args(kind)[0] for kind in get_args(get_args(AnyRound)[0])]
    assert {model for _, model in MODELS.values()} >= set(kinds)
