"""The wheel in a separate environment without torch and without this checkout. `make test-wheel` makes both.

PYTHONPATH contains files with the names of our packages, which raise an error when they are imported.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from small_corpus import REPOSITORY

PYTHON = Path(os.environ.get("WHEEL_PYTHON", "."))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("WHEEL_PYTHON"), reason="make test-wheel makes the environment"),
]
ZYDA = PYTHON.parent / "zyda"
NOT_OURS = (
    "tasks", "flows", "deployments", "textkernels", "recipes", "mixtures", "experiments", "docs", "benchmarks", "examples", "infra",
    "tests",
)  # fmt: skip
DOCUMENTS = 40  # for each kind of text
MY_RULE = """
import pyarrow as pa

def my_rule(texts):
    return pa.array(["a licence" if "icense" in text else None for text in texts.to_pylist()], pa.string())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return the environment of a user whose folder has modules with the names in NOT_OURS."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in NOT_OURS:
        (folder / f"{name}.py").write_text(f"raise RuntimeError('{name}.py of the user was imported')\n")
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")
    }
    return inherited | {"PYTHONPATH": str(folder), "PREFECT_HOME": str(tmp_path_factory.mktemp("prefect"))}


@pytest.fixture(scope="module")
def demo(environment, tmp_path_factory):
    """Run `zyda demo demo` in a folder. Return the folder and the output."""
    folder = tmp_path_factory.mktemp("user")
    return folder, run(environment, folder, ZYDA, "demo", "demo", "--documents", str(DOCUMENTS))


def run(environment, folder, *command):
    """Run a command that must succeed, and return its standard output."""
    process = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_wheel_installs_only_zyda_flows(environment, tmp_path):
    code = (
        "import json, sys; from importlib.util import find_spec\n"
        "print(json.dumps({name: bool(find_spec(name)) for name in sys.argv[1:]}))"
    )
    names = ["zyda_flows", *NOT_OURS, "torch", "transformers"]
    clean = environment | {"PYTHONPATH": ""}
    answers = json.loads(run(clean, tmp_path, PYTHON, "-P", "-c", code, *names))
    assert [name for name, is_there in answers.items() if is_there] == ["zyda_flows"]


def test_wheel_has_exactly_the_files_of_the_repository():
    (wheel,) = (REPOSITORY / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("zyda_flows/")}
    tracked = subprocess.run(
        ["git", "ls-files", "tasks", "flows", "deployments", "textkernels", "recipes", "mixtures", "experiments", "zyda_flows/*.py"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    expected = {name if name.startswith("zyda_flows/") else f"zyda_flows/{name}" for name in tracked}
    expected -= {
        name for name in expected if name.endswith(".md") or name.startswith("zyda_flows/recipes/train")
    }
    assert packed == expected


def test_wheel_of_the_checkout_equals_the_wheel_of_the_source_archive(tmp_path):
    """`make dist` makes the wheel from the archive."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, REPOSITORY]
    subprocess.run(command, capture_output=True, check=True)
    assert digests(*tmp_path.glob("*.whl")) == digests(*(REPOSITORY / "dist").glob("*.whl"))


def digests(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def test_demo_succeeds_and_its_last_line_is_a_command(demo):
    folder, output = demo
    assert "without the quality model" in output
    assert (folder / "demo/demo/report.html").is_file()
    assert {path.name for path in (folder / "demo").iterdir()} == {
        "recipe.yaml", "mixture.yaml", "models", "sources", "demo", "mixtures",
    }  # fmt: skip
    *_, command = output.splitlines()
    run(
        os.environ | {"PYTHONPATH": ""},
        folder,
        ZYDA.parent / command.strip().split()[0],
        *command.split()[1:],
    )


def test_demo_resumes_and_keeps_changed_files(demo, environment, tmp_path):
    folder, _ = demo
    output = run(environment, folder, ZYDA, "demo", "demo", "--documents", str(DOCUMENTS))
    assert "published: " in output
    (tmp_path / "recipe.yaml").write_text("name: mine\n")
    process = subprocess.run(
        [ZYDA, "demo", tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert (process.returncode, len(process.stderr.splitlines())) == (1, 1)
    assert f"{tmp_path}/recipe.yaml: this file has been changed" in process.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


def test_recipe_with_a_model_names_the_extra_before_any_work(demo, environment):
    folder, _ = demo
    recipe = yaml.safe_load((folder / "demo/recipe.yaml").read_text())
    recipe["sources"][2]["classify"] = {"model": "models/demo-quality", "keep": ["High"]}
    (folder / "demo/model.yaml").write_text(yaml.safe_dump(recipe | {"name": "model"}))
    for command in ("check", "build"):
        process = subprocess.run(
            [ZYDA, command, "demo/model.yaml"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 1
        (line,) = [line for line in process.stderr.splitlines() if line.startswith("zyda: ")]
        assert "torch and transformers not installed; pip install 'zyda-flows[models]'" in line
    assert not (folder / "demo/model").exists()


RECIPE = "demo/recipe.yaml"
COMMANDS = [
    ["recipes"],
    ["recipes", "zyda2"],
    ["recipes", "mixtures/zyda2", "--to", "copy.yaml"],
    ["check", RECIPE],
    ["try", "demo/rules.yaml", "--documents", "20"],
    ["params", "--threshold", "0.85"],
    ["fetch", RECIPE, "--to", "copies"],
    ["plan", RECIPE],
    ["build", RECIPE],
    ["ledger", RECIPE],
    ["explain", RECIPE, "0"],
    ["find", RECIPE, "licence.txt"],
    ["look", RECIPE, "--to", "look.html"],
    ["audit", RECIPE],
    ["report", RECIPE],
    ["verify", RECIPE],
    ["clean", RECIPE],
    ["export", RECIPE, "--to", "exported"],
    ["status", RECIPE],
    ["mix", "demo/mixture.yaml", "--plan"],
    ["mix", "demo/mixture.yaml", "--verify"],
    ["trace", "demo/mixtures/demo", "5"],
]
HELP_ALONE = {
    "demo",
    "init",
    "push",
    "forget",
    "train-judge",
    "up",
    "watch",
    "down",
}  # commands without a command line in COMMANDS


def test_every_command_works_with_user_modules_of_the_same_names(demo, environment):
    folder, _ = demo
    recipe = yaml.safe_load((folder / RECIPE).read_text()) | {"documents": [{"filter": "gopher-quality"}]}
    (folder / "demo/rules.yaml").write_text(yaml.safe_dump(recipe | {"name": "rules"}))
    (folder / "licence.txt").write_text(texts_of(folder / "demo/sources/licences.jsonl.zst")[0])
    script = Path(__file__).with_name("run_commands.py")
    results = json.loads(run(environment, folder, PYTHON, "-P", script, json.dumps(COMMANDS)))
    for line, status, output in results["answers"]:
        assert status == 0, (line, output)
    assert set(results["names"]) == {line[0] for line in COMMANDS} | HELP_ALONE


def test_user_step_in_a_module_called_tasks(demo, environment, tmp_path):
    """Builds on a local cluster and on the workers of `zyda up` call the function of the user."""
    folder, _ = demo
    (tmp_path / "tasks.py").write_text(MY_RULE)
    for name in ("flows", "deployments", "recipes"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError\n")
    recipe = yaml.safe_load((folder / RECIPE).read_text())
    recipe |= {"sources": recipe["sources"][3:], "documents": [{"filter": "tasks:my_rule"}]}
    user_environment = environment | {"PYTHONPATH": str(tmp_path), "ZYDA_STEPS": "tasks"}
    for name in ("own", "stack"):
        (folder / f"demo/{name}.yaml").write_text(yaml.safe_dump(recipe | {"name": name}))
    outputs = [run(user_environment, folder, ZYDA, "build", "demo/own.yaml")]
    try:
        run(user_environment, folder, ZYDA, "up")
        outputs.append(run(user_environment, folder, ZYDA, "build", "demo/stack.yaml"))
        run(user_environment, folder, ZYDA, "watch", "--list")
    finally:
        run(user_environment, folder, ZYDA, "down")
    texts = texts_of(folder / "demo/sources/licences.jsonl.zst")
    removed = sum("icense" in text for text in texts)
    assert 0 < removed < len(texts)
    for output in outputs:
        assert re.search(rf"tasks:my_rule │ +{removed} │", output), output


def texts_of(path):
    import zstandard

    return [json.loads(line)["text"] for line in zstandard.decompress(path.read_bytes()).splitlines()]
