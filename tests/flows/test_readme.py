"""Every command in the README and in the pages of docs/ runs, and every command of the program is in the README."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir

import pytest
from small_corpus import REPOSITORY, STEPS, TOKENIZER, Corpus, prose, zyda, zyda_here
from small_mixtures import experiment_file, mixture_file
from stand_in_hub import StandInHub

from zyda_flows.tasks import pipeline

pytestmark = [pytest.mark.early(1), pytest.mark.xdist_group("stack")]

PAGES = ("README.md", "docs/first-corpus.md", "docs/recipe.md", "docs/operations.md")
README = "\n".join((REPOSITORY / page).read_text() for page in PAGES)
PROGRAMS = r"(?:zyda|make)"
# The commands run in this order: the corpus is built first, and watching ends last.
LAST = "zyda watch RECIPE --stop"


def commands():
    """Return the command lines in code blocks, in comments of code blocks, and in sentences."""
    lines = re.findall(rf"^(?: {{4}})?({PROGRAMS} .*)$", README, re.MULTILINE)
    command_lines = [re.split(r" +#", line)[0].strip() for line in lines]
    command_lines += [
        command for line in lines for command in re.findall(r"#.*(zyda \w+ RECIPE(?: --\w+)+)", line)
    ]
    command_lines += re.findall(rf"`([^`\n]*\b{PROGRAMS} [^`\n]*)`", README)
    return sorted(dict.fromkeys(command_lines), key=lambda line: line == LAST)


def test_examples_of_commands_are_in_the_pages():
    """Checks `commands` with examples of each kind."""
    command_lines = commands()
    for line in ("make run", "zyda build RECIPE", 'eval "$(zyda up --env)"', "zyda watch --list", LAST):
        assert line in command_lines
    assert len(command_lines) > 25


@pytest.fixture(scope="module")
def terminal_of_a_reader(running_stack, tmp_path_factory):
    """Yield a function that runs a line in a shell with the `zyda` of this project, and returns the finished process."""
    folder = tmp_path_factory.mktemp("reader")
    program = folder / "bin/zyda"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m zyda_flows "$@"\n')
    program.chmod(0o755)
    environment = {
        **running_stack,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }

    def run(line, **variables):
        program, *arguments = shlex.split(line)
        if program == "zyda" and arguments[0] in WITHOUT_SERVER:
            with chdir(folder):
                return zyda_here(*arguments)
        if program == "zyda":
            return zyda(*arguments, cwd=folder, env={**environment, **variables})
        return subprocess.run(
            ["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=False,
            env={**environment, **variables},
        )  # fmt: skip

    corpus = Corpus(folder)
    corpus.recipe |= {"documents": STEPS, "name": "readme"}
    corpus.write()
    mixture_file(folder, [corpus], parts=[{"name": "all", "epochs": 1}], budget=...)
    experiment_file(folder, corpus)
    (folder / "text.txt").write_text(prose("best alone"))
    for line in ("zyda up", "zyda build recipe.yaml"):
        process = run(line)
        assert process.returncode == 0, process.stderr
    yield run
    run("zyda watch recipe.yaml --stop")


@pytest.fixture(scope="module")
def hub():
    stand_in = StandInHub()
    yield stand_in
    stand_in.close()


# These commands need no server, so they run in the process of the tests.
WITHOUT_SERVER = {
    "audit",
    "check",
    "clean",
    "explain",
    "export",
    "find",
    "init",
    "ledger",
    "plan",
    "report",
    "trace",
    "try",
    "verify",
    "--version",
}
MISSING_ARGUMENT = r"Missing argument|zyda: give a RECIPE"
PLACEHOLDERS = {
    "RECIPE": "recipe.yaml",
    "DOC_ID": "0",
    "FILE-OR-TEXT": "text.txt",
    "s3://...": "elsewhere",
    "URL": "copies",
    "OWNER/NAME": "lab/readme",
    "EXPERIMENT": "experiment.yaml",
    "MIXTURE": "mixture.yaml",
    "MIX": "mixed/mixture",
    "POSITION": "7",
    "NAME": "example.org",
    "FOLDER": "demo",  # as in the README: the second run has nothing to do
    "FILES-OR-URLS": "in",
    "DOCUMENTS": "in",
    "0.001": "0.5",  # of a dozen documents
}


def as_typed(line):
    """Return a line with real values for its placeholders."""
    for name, real in PLACEHOLDERS.items():
        line = re.sub(rf"(?<!\S){re.escape(name)}(?!\S)", real, line)
    return line


@pytest.mark.parametrize("line", [line for line in commands() if "zyda " in line])
def test_command_of_the_readme_runs(line, terminal_of_a_reader, hub, tmp_path):
    command = as_typed(line)
    assert not re.search(r"\b[A-Z]{2,}|\.\.\.", command), "PLACEHOLDERS lacks a placeholder of this line"
    variables = {}
    if command == "zyda down":  # another stack than the stack of other tests
        variables = {"PREFECT_HOME": str(tmp_path)}
    elif command.startswith("zyda push "):
        variables = {
            "HF_ENDPOINT": hub.endpoint,
            "HF_TOKEN": "hf_write",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "0",
        }
    elif command.startswith("zyda look "):
        command += f" --to {tmp_path}/look.html"  # without --to the command serves until a signal
    elif command.startswith("zyda init "):
        command += f" --output {tmp_path}/new.yaml --tokenizer {shlex.quote(str(TOKENIZER))}"
    elif command.startswith("zyda demo "):
        command += " --documents 20"
    elif command.startswith("zyda train-judge "):
        command += " --help"  # the reader has too few documents for a training
    elif command.startswith("zyda forget "):
        command += " --yes"  # without --yes the command asks
    process = terminal_of_a_reader(command, **variables)
    if re.fullmatch(r"zyda [a-z-]+", command) and re.search(
        MISSING_ARGUMENT, process.stderr
    ):  # only the name of a command
        process = terminal_of_a_reader(f"{command} --help")
    assert process.returncode == 0, process.stderr
    assert "zyda: " not in process.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("line", [line for line in commands() if line.startswith("make ")])
def test_make_target_of_the_readme_exists(line):
    """A dry run: the targets build environments or run these tests."""
    process = subprocess.run(
        [*line.split(), "-n"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr


def test_every_command_is_in_the_readme():
    from zyda_flows.flows.command.cli import app

    known = {command.name for command in app.registered_commands}
    assert known
    assert {line.split()[1] for line in commands() if line.startswith("zyda ")} >= known


@pytest.mark.slow
def test_design_page_lists_the_stages_in_order():
    design = (REPOSITORY / "docs/design.md").read_text()
    design = " ".join(design.split())
    assert " -> ".join(["prepare", *pipeline.names()]) in design
    about_corpus = [stage.name for stage in pipeline.stages() if stage.scope == "corpus"]
    assert f"Stages of the whole corpus ({', '.join(about_corpus)}) are one task" in design
